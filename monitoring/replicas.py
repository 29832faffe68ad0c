"""Tell which replica processes that share a metrics folder still live, also across containers.

Each replica holds a lock on its own marker file for as long as its process lives; the kernel lets go of it however the process
ends. Process ids alone would not do: an exporter in another container sees other ids, or another process under the same id.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

MARKER = "replica_{pid}.alive"


def mark_alive(folder: Path, pid: int) -> IO[bytes]:
    """Create and lock this process's marker; the replica lives for others while the returned file stays open."""
    path = folder / MARKER.format(pid=pid)
    while True:
        marker = path.open("ab")
        fcntl.flock(marker, fcntl.LOCK_SH)
        if _is_still(marker, path):
            return marker
        # Someone took the new marker for a dead one's and removed it before it was locked: make another.
        marker.close()


def living(folder: Path) -> frozenset[int]:
    """Return the process ids of the replicas that live."""
    return frozenset(pid for pid, path in _markers(folder) if _locked(path))


def forget_dead(folder: Path) -> frozenset[int]:
    """Remove the gauges of replicas that have ended, and return their process ids; their counters stay.

    Counters and histograms of a dead replica must remain in the sum, or the sum would fall.
    """
    from prometheus_client.multiprocess import mark_process_dead

    gone = set()
    for pid, path in _markers(folder):
        if not _locked(path):
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
            path.unlink(missing_ok=True)
            gone.add(pid)
    return frozenset(gone)


def _markers(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.glob(MARKER.format(pid="*")):
        pid = path.name.removeprefix("replica_").removesuffix(".alive")
        if pid.isdecimal():
            yield int(pid), path


def _locked(path: Path) -> bool:
    try:
        with path.open("rb") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _is_still(marker: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(marker.fileno()), path.stat())
    except FileNotFoundError:
        return False
