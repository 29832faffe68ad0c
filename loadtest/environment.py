"""Record what a comparison ran on: enough for a reader to know whether it can be repeated."""

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "bakeoff",
    "ray",
    "torch",
    "onnxruntime",
    "numpy",
    "locust",
    "geventhttpclient",
    "grpcio",
    "tritonclient",
    "prometheus-client",
)
CPU_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8")


def environment(facts: Mapping[str, object]) -> dict[str, object]:
    """Return date, machine, versions and commit, with the caller's own facts beside them; what is not known is absent."""
    known = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cpu_features": cpu_features(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": versions(),
        "commit": commit(),
    }
    return {name: value for name, value in {**known, **facts}.items() if value is not None}


def versions() -> dict[str, str]:
    """Return the versions of the packages that a result depends on, as far as they are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def cpu_model() -> str | None:
    """Return the processor's name as Linux gives it."""
    return next((line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")), None)


def cpu_features() -> list[str] | None:
    """Return which instruction sets that decide INT8 and BF16 speed the processor has."""
    flags = next((line.split(":", 1)[1].split() for line in _cpuinfo() if line.startswith("flags")), None)
    return None if flags is None else [feature for feature in CPU_FEATURES if feature in flags]


def commit() -> str | None:
    """Return the commit this code runs from, marked `+changes` when the tree differs from it; None outside a checkout."""
    folder = Path(__file__).resolve().parent.parent
    head = _git(folder, "rev-parse", "HEAD")
    if head is None:
        return None
    return head + ("+changes" if _git(folder, "status", "--porcelain") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
