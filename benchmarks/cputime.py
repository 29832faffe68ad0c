"""Read the CPU time of a server's processes by their role, and of everything else on the machine."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import psutil

_ROLES = (
    (r"^ray::ServeReplica:(?P<app>[^:]*)", "replica {app}"),
    (r"^ray::ServeController", "controller"),
    (r"^ray::(HA)?Proxy(Actor|Manager)", "proxy actor"),
    (r"haproxy .*front\.cfg", "front door"),
    (r"haproxy .*haproxy\.cfg", "Ray's HAProxy"),
    (r"/gcs_server ", "gcs"),
    (r"/raylet ", "raylet"),
    (r"monitoring\.exporter", "exporter"),
    (r"-m (bakeoff serve|benchmarks\.peers\.rayserve)", "host"),
)
OTHER = "other Ray"
"""Idle workers, log monitor, dashboard and agents."""
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


@dataclass(frozen=True)
class CpuReading:
    """Hold CPU seconds since the processes started, and the moment of reading; only differences mean something."""

    at_s: float
    """Monotonic clock."""
    by_role: dict[str, float]
    """User and system seconds of the server's processes."""
    ours_s: float
    """The same, of this process and all its descendants, the server's among them."""
    machine_s: float
    """The same, of the whole machine."""

    @classmethod
    def of(cls, server_pid: int) -> Self:
        """Read a server that this process started."""
        return cls(
            at_s=time.monotonic(),
            by_role=_tree(server_pid),
            ours_s=sum(_tree(os.getpid()).values()),
            machine_s=_machine_s(),
        )


@dataclass(frozen=True)
class CpuSpan:
    """Hold what was used between two readings; all in seconds."""

    wall_s: float
    by_role: dict[str, float]
    foreign_s: float
    """CPU time of processes that do not belong to the benchmark."""

    @classmethod
    def between(cls, before: CpuReading, after: CpuReading) -> Self:
        """Subtract two readings; a role that only the first knows was merged into its parent's when its processes ended."""
        roles = before.by_role.keys() | after.by_role.keys()
        used = {role: after.by_role.get(role, 0.0) - before.by_role.get(role, 0.0) for role in roles}
        foreign = (after.machine_s - before.machine_s) - (after.ours_s - before.ours_s)
        return cls(after.at_s - before.at_s, dict(sorted(used.items())), max(0.0, foreign))

    @property
    def server_s(self) -> float:
        """Return the time of all the server's processes."""
        return sum(self.by_role.values())


def role(command_line: str) -> str:
    """Return what a process of a server does, from its command line."""
    for pattern, name in _ROLES:
        if found := re.search(pattern, command_line):
            return name.format(**found.groupdict())
    return OTHER


def wait_until_idle(server_pid: int, cores: float = 0.5, within_s: float = 30.0) -> bool:
    """Wait until the server uses at most so many cores for a second; return whether it came to that in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        before = CpuReading.of(server_pid)
        time.sleep(1.0)
        span = CpuSpan.between(before, CpuReading.of(server_pid))
        if span.server_s / span.wall_s <= cores:
            return True
    return False


def _tree(pid: int) -> dict[str, float]:
    """Return the CPU seconds of a process and its descendants by role; a dead child's are in the parent that waited for it."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for process in _family(pid):
        with suppress(psutil.NoSuchProcess):
            seconds[role(" ".join(process.cmdline()))] += sum(process.cpu_times()[:4])
    return dict(seconds)


def _family(pid: int) -> Iterable[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def _machine_s() -> float:
    times = psutil.cpu_times()
    return sum(getattr(times, name, 0.0) for name in _BUSY)
