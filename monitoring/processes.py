"""Say whose processes run on a GPU."""

from collections.abc import Iterable, Set

from monitoring.device import ProcessGroup

OWNERS = ("self", "foreign", "unknown")


def group_by_owner(processes: Iterable[tuple[int, float | None]], own: Set[int] | None) -> tuple[ProcessGroup, ...]:
    """Count (pid, memory in bytes) pairs by owner; all three owners are listed, so that 0 means nobody.

    A pid of 0 (the driver hides it inside a container), and every pid while `own` is None, is unknown.
    """
    members: dict[str, list[float | None]] = {owner: [] for owner in OWNERS}
    for pid, memory_bytes in processes:
        members[_owner(pid, own)].append(memory_bytes)
    return tuple(ProcessGroup(owner, len(memory), _total(memory)) for owner, memory in members.items())


def _owner(pid: int, own: Set[int] | None) -> str:
    if pid == 0 or own is None:
        return "unknown"
    return "self" if pid in own else "foreign"


def _total(memory: list[float | None]) -> float | None:
    known = [m for m in memory if m is not None]
    return sum(known) if len(known) == len(memory) else None
