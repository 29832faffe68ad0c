"""Share what several tests of this folder need: goldens, the NVML shim, waiting, and time that tests move."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
GOLDENS = HERE.parents[1] / "golden"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare text with a golden file; with BAKEOFF_UPDATE_GOLDENS=1 rewrite the file, then fail."""

    def compare(name: str, text: str) -> None:
        path = GOLDENS / name
        if os.environ.get("BAKEOFF_UPDATE_GOLDENS") == "1":
            path.write_text(text, encoding="utf-8")
            pytest.fail(f"{path} was rewritten: read the difference, then run without BAKEOFF_UPDATE_GOLDENS")
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until a condition holds; fail after 20 s."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline, never = time.monotonic() + 20, threading.Event()
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true within 20 s"
            never.wait(0.02)

    return wait


class Shim:
    """Run code in a process whose NVML is the shim."""

    def __init__(self, library: Path, folder: Path, cards: str) -> None:
        self.control = folder / "control"
        self.log = folder / "log"
        self.control.write_text("")
        self.log.write_text("")
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "NVML_SHIM_CARDS": cards,
            "NVML_SHIM_CONTROL": str(self.control),
            "NVML_SHIM_LOG": str(self.log),
        }

    def run(self, code: str) -> Any:
        """Run code after `control(text)`, `calls()` and `plain(value)` are defined, and return what it passes to `answer`."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(code)],
            env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


PRELUDE = """
import dataclasses, json, os
from pathlib import Path
from bakeoff.errors import DeviceError
from monitoring.nvml import discover

def control(text): Path(os.environ["NVML_SHIM_CONTROL"]).write_text(text)
def calls(): return Path(os.environ["NVML_SHIM_LOG"]).read_text().split()
def plain(value): return {k: v if not isinstance(v, dict) else {str(n): m for n, m in v.items()} for k, v in dataclasses.asdict(value).items()}
def answer(value): print(json.dumps(value))
"""


@pytest.fixture(scope="session")
def shim_libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the shim as today's library and as an older one."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("NO C COMPILER: the NVML binding is not tested at all on this machine; install gcc")
    return {age: _build(compiler, tmp_path_factory.mktemp(age), flags) for age, flags in (("new", []), ("old", ["-DOLD_DRIVER"]))}


def _build(compiler: str, folder: Path, flags: list[str]) -> Path:
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags, "-o", str(library), str(HERE / "nvml_shim.c")]
    subprocess.run(command, check=True, timeout=60)
    return folder


@pytest.fixture(scope="session")
def shim(shim_libraries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Shim]:
    """Make a machine with the given cards."""

    def make(cards: str, age: str = "new") -> Shim:
        return Shim(shim_libraries[age], tmp_path_factory.mktemp("machine"), cards)

    return make


class Time:
    """Be a clock that only moves when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> Time:
    """Return a clock at 1000 s."""
    return Time()
