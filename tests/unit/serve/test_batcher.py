"""The asyncio shell: answers reach their callers, failures too, and nobody is lost."""

import asyncio
import threading

import numpy as np
import pytest

from bakeoff.errors import DeadlineExpired, EngineError, NonFiniteOutput, NotReady
from serve.batcher import Batcher, finite_samples
from serve.batching import Limits


class Gate:
    """An engine that echoes, one batch for each `open()`."""

    def __init__(self, fail=None):
        self.batches = []
        self.entered = threading.Semaphore(0)
        self._permits = threading.Semaphore(0)
        self._fail = fail

    def open(self, batches=1):
        for _ in range(batches):
            self._permits.release()

    def run(self, inputs):
        self.batches.append(len(inputs["x"]))
        self.entered.release()
        assert self._permits.acquire(timeout=20)
        if self._fail:
            raise self._fail
        return {"y": inputs["x"] * 2}

    async def wait_entered(self):
        await asyncio.get_running_loop().run_in_executor(None, lambda: self.entered.acquire(timeout=20))


def batcher(engine, max_batch=8, delay_s=0.0, queue=100, slots=1, sizes=None):
    return Batcher(engine.run, Limits(max_batch, delay_s, queue), slots, (sizes if sizes is not None else []).append)


def x(*values):
    return {"x": np.array(values, dtype=np.float32)}


async def test_requests_that_arrive_while_the_slot_is_busy_run_together():
    engine, sizes = Gate(), []
    b = batcher(engine, sizes=sizes)
    first = asyncio.create_task(b.submit(x(1), 1, "s"))
    await engine.wait_entered()
    rest = [asyncio.create_task(b.submit(x(v), 1, "s")) for v in (2, 3, 4)]
    await asyncio.sleep(0)
    assert b.depth == 3
    engine.open(2)
    answers = await asyncio.gather(first, *rest)
    assert [a.outputs["y"].tolist() for a in answers] == [[2], [4], [6], [8]]
    assert [a.batch_items for a in answers] == [1, 3, 3, 3]
    assert sizes == [1, 3]
    await b.close()


async def test_a_request_of_several_items_gets_its_own_rows_back():
    engine = Gate()
    b = batcher(engine, delay_s=0.2, max_batch=5)
    engine.open()
    two, three = await asyncio.gather(b.submit(x(1, 2), 2, "s"), b.submit(x(3, 4, 5), 3, "s"))
    assert two.outputs["y"].tolist() == [2, 4]
    assert three.outputs["y"].tolist() == [6, 8, 10]
    await b.close()


async def test_a_failed_batch_fails_each_member_and_the_next_batch_runs():
    engine = Gate(fail=ValueError("kernel broke"))
    b = batcher(engine)
    engine.open()
    with pytest.raises(EngineError, match="kernel broke"):
        await b.submit(x(1), 1, "s")
    engine._fail = None
    engine.open()
    assert (await b.submit(x(1), 1, "s")).outputs["y"].tolist() == [2]
    await b.close()


async def test_only_the_request_with_the_nan_fails():
    engine = Gate()
    b = batcher(engine, delay_s=0.2, max_batch=2)
    engine.open()
    good, bad = await asyncio.gather(b.submit(x(1), 1, "s"), b.submit(x(np.nan), 1, "s"), return_exceptions=True)
    assert good.outputs["y"].tolist() == [2]
    assert isinstance(bad, NonFiniteOutput)
    assert bad.samples == 1
    await b.close()


async def test_a_request_whose_timeout_passes_in_the_queue_is_told_so_and_never_runs():
    engine = Gate()
    b = batcher(engine)
    busy = asyncio.create_task(b.submit(x(1), 1, "s"))
    await engine.wait_entered()
    late = asyncio.create_task(b.submit(x(2), 1, "s", timeout_s=0.001))
    await asyncio.sleep(0.02)
    engine.open(2)
    await busy
    with pytest.raises(DeadlineExpired, match="not run"):
        await late
    assert engine.batches == [1]
    await b.close()


async def test_a_cancelled_request_frees_its_place_and_never_runs():
    engine = Gate()
    b = batcher(engine, queue=1)
    busy = asyncio.create_task(b.submit(x(1), 1, "s"))
    await engine.wait_entered()
    gone = asyncio.create_task(b.submit(x(2), 1, "s"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert b.depth == 0
    engine.open(2)
    await busy
    assert engine.batches == [1]
    await b.close()


async def test_two_slots_run_two_batches_at_once():
    engine = Gate()
    b = batcher(engine, max_batch=1, slots=2)
    tasks = [asyncio.create_task(b.submit(x(v), 1, "s")) for v in (1, 2)]
    await engine.wait_entered()
    await engine.wait_entered()
    assert b.stuck_for_s() > 0
    engine.open(2)
    await asyncio.gather(*tasks)
    assert b.stuck_for_s() == 0
    await b.close()


async def test_closing_answers_what_still_waits():
    engine = Gate()
    b = batcher(engine)
    busy = asyncio.create_task(b.submit(x(1), 1, "s"))
    await engine.wait_entered()
    waiting = asyncio.create_task(b.submit(x(2), 1, "s"))
    await asyncio.sleep(0)
    await b.close()
    engine.open()
    for task in (busy, waiting):
        with pytest.raises(NotReady, match="shutting down"):
            await task
    with pytest.raises(NotReady, match="stopped"):
        b.check_alive()


async def test_an_engine_that_answers_the_wrong_number_of_rows_is_an_error():
    b = Batcher(lambda t: {"y": np.zeros(3)}, Limits(8, 0, 8), 1, lambda n: None)
    with pytest.raises(EngineError, match="given 1 items"):
        await b.submit(x(1), 1, "s")
    await b.close()


def test_finite_samples_marks_the_rows_with_nan_or_inf_in_any_output():
    outputs = {
        "a": np.array([[1, 2], [np.nan, 0], [0, 0]], dtype=np.float32),
        "b": np.array([[1], [1], [-np.inf]], dtype=np.float32),
        "c": np.array([1, 2, 3]),
    }
    assert finite_samples(outputs, 3).tolist() == [True, False, False]
    assert finite_samples({"a": np.ones((3, 2))}, 3) is None
