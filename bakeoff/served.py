"""Start `bakeoff serve` as a process of its own and wait for its ready line."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bakeoff.errors import ServingError
from bakeoff.processes import end

STOP_S = 60.0


@contextmanager
def served(experiment: Path, say: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Serve an experiment on free ports for the length of the context; yield the ready line's addresses by name.

    Serving has its own process because Ray, and the protocol's message definitions, do not share one with load clients.
    """
    command = [sys.executable, "-m", "bakeoff", "serve", str(experiment)]
    command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        yield _ready(process, say)
    finally:
        end(process, STOP_S)


def parse_ready(line: str) -> dict[str, str]:
    """Return the `name=value` fields of a ready line."""
    return dict(field.split("=", 1) for field in line.split()[1:])


def _ready(process: "subprocess.Popen[str]", say: Callable[[str], None]) -> dict[str, str]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready "):
            return parse_ready(line)
        say(line.rstrip())
    raise ServingError(f"the server ended with status {process.wait()} before it was ready; its messages stand above")
