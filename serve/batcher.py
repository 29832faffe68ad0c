"""Run the batching policy in asyncio: one pull loop a slot, each engine call on the slot's own thread."""

import asyncio
import itertools
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import BakeoffError, DeadlineExpired, EngineError, NonFiniteOutput, NotReady
from serve.batching import BatchQueue, Limits, Waiting

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Answered:
    """Hold one request's share of a batch; times in seconds, batch_items counts the whole batch."""

    outputs: Tensors
    queue_s: float
    execution_s: float
    batch_items: int


@dataclass(slots=True)
class _Pending:
    inputs: Tensors
    items: int
    arrived_s: float
    answer: "asyncio.Future[Answered]"


class Batcher:
    """Join requests into batches for one engine; all methods belong to one event loop."""

    def __init__(self, run: Callable[[Tensors], Tensors], limits: Limits, slots: int, on_batch: Callable[[int], None]) -> None:
        self._run = run
        self._queue = BatchQueue(limits)
        self._on_batch = on_batch
        self._pending: dict[int, _Pending] = {}
        self._ids = itertools.count()
        self._news = asyncio.Event()
        self._busy_since: dict[int, float] = {}
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix=f"slot-{n}") for n in range(slots)]
        self._loops = [asyncio.create_task(self._serve_slot(n, thread)) for n, thread in enumerate(self._threads)]

    @property
    def depth(self) -> int:
        """Return how many requests wait for a slot."""
        return len(self._queue)

    def stuck_for_s(self) -> float:
        """Return how long the longest running engine call has been running, in seconds; 0 when none runs."""
        return max((time.monotonic() - since for since in self._busy_since.values()), default=0.0)

    def check_alive(self) -> None:
        """Raise NotReady when a pull loop has ended: requests would wait for ever."""
        if any(loop.done() for loop in self._loops):
            raise NotReady("the batcher has stopped")

    async def submit(self, inputs: Tensors, items: int, shape: Hashable, timeout_s: float | None = None) -> Answered:
        """Wait for a batch and return this request's share; a cancelled caller frees its place in the queue."""
        now = time.monotonic()
        request_id = next(self._ids)
        self._queue.offer(Waiting(request_id, items, shape, now, None if timeout_s is None else now + timeout_s))
        pending = _Pending(inputs, items, now, asyncio.get_running_loop().create_future())
        self._pending[request_id] = pending
        self._news.set()
        try:
            return await pending.answer
        finally:
            self._queue.withdraw(request_id)
            self._pending.pop(request_id, None)

    async def close(self) -> None:
        """Stop the pull loops; what still waits is answered NotReady."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for pending in list(self._pending.values()):
            _fail(pending, NotReady("the arm is shutting down"))
        for thread in self._threads:
            thread.shutdown(wait=False)

    async def _serve_slot(self, slot: int, thread: ThreadPoolExecutor) -> None:
        while True:
            decision = self._queue.decide(time.monotonic())
            for request_id in decision.expired:
                self._expire(request_id)
            members = [self._pending[i] for i in decision.batch if i in self._pending]
            if members:
                await self._execute(slot, thread, members)
            elif not decision.batch:
                await self._wait_for_news(decision.look_again_s)

    async def _wait_for_news(self, look_again_s: float | None) -> None:
        self._news.clear()
        if look_again_s is None:
            await self._news.wait()
            return
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(max(0.0, look_again_s - time.monotonic()), self._news.set)
        try:
            await self._news.wait()
        finally:
            alarm.cancel()

    async def _execute(self, slot: int, thread: ThreadPoolExecutor, members: Sequence[_Pending]) -> None:
        started = self._busy_since[slot] = time.monotonic()
        total = sum(m.items for m in members)
        loop = asyncio.get_running_loop()
        try:
            outputs, execution_s = await loop.run_in_executor(thread, _run_batch, self._run, [m.inputs for m in members])
        except Exception as e:  # noqa: BLE001 - the edge to the engine: whatever it raises is answered, never lost
            _fail_all(members, e)
            return
        finally:
            self._busy_since.pop(slot, None)
        self._on_batch(total)
        _answer_all(members, outputs, started, execution_s, total)

    def _expire(self, request_id: int) -> None:
        pending = self._pending.get(request_id)
        if pending is not None:
            waited = time.monotonic() - pending.arrived_s
            _fail(pending, DeadlineExpired(f"the request's timeout passed after {waited:.3f} s in the queue; it was not run"))


def _run_batch(run: Callable[[Tensors], Tensors], requests: Sequence[Tensors]) -> tuple[Tensors, float]:
    inputs = requests[0] if len(requests) == 1 else {n: np.concatenate([r[n] for r in requests]) for n in requests[0]}
    started = time.monotonic()
    outputs = run(inputs)
    return outputs, time.monotonic() - started


def _answer_all(members: Sequence[_Pending], outputs: Tensors, started: float, execution_s: float, total: int) -> None:
    if any(len(array) != total for array in outputs.values()):
        sizes = {name: len(array) for name, array in outputs.items()}
        _fail_all(members, EngineError(f"the engine was given {total} items and answered {sizes}"))
        return
    sound = finite_samples(outputs, total)
    position = 0
    for member in members:
        part = slice(position, position + member.items)
        position += member.items
        if sound is None or sound[part].all():
            share = {name: array[part] for name, array in outputs.items()}
            _succeed(member, Answered(share, started - member.arrived_s, execution_s, total))
        else:
            bad = int((~sound[part]).sum())
            _fail(member, NonFiniteOutput(f"{bad} of {member.items} samples came out as NaN or Inf", bad))


def finite_samples(outputs: Tensors, n: int) -> NDArray[np.bool_] | None:
    """Return which of n samples are finite in every floating-point output; None when all are."""
    sound: NDArray[np.bool_] | None = None
    for array in outputs.values():
        # NaN and Inf both reach the extremes, and two reductions cost less than a mask of every element.
        if array.dtype.kind != "f" or array.size == 0 or (np.isfinite(array.min()) and np.isfinite(array.max())):
            continue
        rows = np.asarray(np.isfinite(array.reshape(n, -1)).all(axis=1))
        sound = rows if sound is None else np.logical_and(sound, rows)
    return sound


def _succeed(member: _Pending, answered: Answered) -> None:
    if not member.answer.done():
        member.answer.set_result(answered)


def _fail(member: _Pending, error: Exception) -> None:
    if not member.answer.done():
        member.answer.set_exception(error)


def _fail_all(members: Sequence[_Pending], error: Exception) -> None:
    for member in members:
        wrapped = error if isinstance(error, BakeoffError) else EngineError(f"the engine failed: {type(error).__name__}: {error}")
        wrapped.__cause__ = error if wrapped is not error else error.__cause__
        _fail(member, wrapped)
