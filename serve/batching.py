"""Decide which waiting requests run together; pure, so that every property is tested in simulated time.

A batch is formed at the moment an execution slot is free, never before: until then every request that arrives can still
join. The oldest request decides the shape; requests of one shape run in the order in which they came.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from heapq import heappop, heappush

from bakeoff.errors import Overloaded, RequestError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bound batches and the queue; times in seconds."""

    max_batch_size: int
    max_queue_delay_s: float
    queue_limit: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Describe one waiting request to the policy; times are seconds on any one monotonic clock."""

    id: int
    items: int
    shape: Hashable
    arrived_s: float
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Say what to do now: run `batch`, answer `expired` as too late, look again at `look_again_s`."""

    batch: tuple[int, ...] = ()
    expired: tuple[int, ...] = ()
    look_again_s: float | None = None


class BatchQueue:
    """Hold waiting requests and decide batches; time is always an argument."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: OrderedDict[int, Waiting] = OrderedDict()
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, request: Waiting, retry_after_s: float = 1.0) -> None:
        """Queue a request; raise Overloaded when the queue is full, RequestError when it can never fit a batch."""
        if request.items > self._limits.max_batch_size:
            raise RequestError(f"{request.items} items in one request; at most {self._limits.max_batch_size} fit a batch")
        if len(self._waiting) >= self._limits.queue_limit:
            raise Overloaded(f"the queue is full ({self._limits.queue_limit} requests wait); come back later", retry_after_s)
        self._waiting[request.id] = request
        if request.deadline_s is not None:
            heappush(self._deadlines, (request.deadline_s, request.id))

    def withdraw(self, request_id: int) -> bool:
        """Forget a request whose client went away; False when it no longer waits."""
        return self._waiting.pop(request_id, None) is not None

    def decide(self, now_s: float) -> Decision:
        """Form the batch to run now that a slot is free; requests it names leave the queue."""
        expired = self._drop_expired(now_s)
        if not self._waiting:
            return Decision(expired=expired)
        head = next(iter(self._waiting.values()))
        members, full = self._members(head)
        due_s = head.arrived_s + self._limits.max_queue_delay_s
        if not full and now_s < due_s:
            return Decision(expired=expired, look_again_s=self._earliest(due_s))
        for member in members:
            del self._waiting[member.id]
        return Decision(batch=tuple(m.id for m in members), expired=expired)

    def _members(self, head: Waiting) -> tuple[list[Waiting], bool]:
        """Return the requests that would run now, and whether waiting could add none."""
        members: list[Waiting] = []
        room = self._limits.max_batch_size
        for request in self._waiting.values():
            if request.shape != head.shape:
                continue
            if request.items > room:
                return members, True
            members.append(request)
            room -= request.items
            if room == 0:
                return members, True
        return members, False

    def _drop_expired(self, now_s: float) -> tuple[int, ...]:
        expired = []
        while self._deadlines and (self._deadlines[0][0] <= now_s or self._deadlines[0][1] not in self._waiting):
            request_id = heappop(self._deadlines)[1]
            if self._waiting.pop(request_id, None) is not None:
                expired.append(request_id)
        return tuple(expired)

    def _earliest(self, due_s: float) -> float:
        return min(due_s, self._deadlines[0][0]) if self._deadlines else due_s
