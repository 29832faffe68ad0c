"""Serve one arm: check a request, batch it, run it, count it. Knows no Ray, no HTTP and no gRPC."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bakeoff.errors import NonFiniteOutput, NotReady, UnknownModel
from bakeoff.hosting import Batching
from bakeoff.metrics import Outcome
from models.servable import Servable, batch_buckets
from monitoring.requestseries import ArmSeries
from serve.batcher import Answered, Batcher
from serve.batching import Limits
from serve.protocol import signature
from serve.protocol.faults import fault_of
from serve.protocol.messages import InferAnswer, InferRequest, Parameter, Tensors

VERSION = "1"
STUCK_AFTER_S = 60.0


@dataclass(frozen=True)
class Identity:
    """Name an arm and where it runs; `gpu_uuid` is None on a CPU."""

    model: str
    arm: str
    precision: str
    pool: str
    gpu_uuid: str | None


class ArmService:
    """Answer requests for one arm; built ready: the engine is warm when the constructor returns."""

    def __init__(self, identity: Identity, servable: Servable, batching: Batching, series: ArmSeries) -> None:
        self.identity = identity
        self._servable = servable
        self._series = series
        self._batching = batching
        self._datatypes = {spec.name: spec.datatype for spec in servable.signature.outputs}
        self._draining = False
        servable.warm_up(batch_buckets(batching.max_batch_size))
        limits = Limits(batching.max_batch_size, batching.max_queue_delay_s, batching.queue_limit)
        self._batcher = Batcher(servable.run, limits, batching.slots, series.batch)

    def check_name(self, model: str, version: str = "") -> None:
        """Raise UnknownModel unless the name is the arm's or its model's, and the version the one there is."""
        if model not in (self.identity.arm, self.identity.model):
            raise UnknownModel(f"unknown model {model!r}: this arm serves {self.identity.model!r} as {self.identity.arm!r}")
        if version not in ("", VERSION):
            raise UnknownModel(f"unknown version {version!r} of {model!r}: there is version {VERSION}")

    def check_health(self) -> None:
        """Raise NotReady when the arm drains, its engine hangs or its batcher has stopped."""
        if self._draining:
            raise NotReady("the arm is shutting down")
        self._batcher.check_alive()
        stuck_s = self._batcher.stuck_for_s()
        if stuck_s > STUCK_AFTER_S:
            raise NotReady(f"the engine has been in one call for {stuck_s:.0f} s")

    def metadata(self, model: str) -> dict[str, Any]:
        """Return the model's metadata as the protocol words it; -1 is the batch dimension."""
        tensors = self._servable.signature
        facts: Mapping[str, str] = self._servable.metadata
        return {
            "name": model,
            "versions": [VERSION],
            "platform": f"bakeoff_{facts.get('engine', 'unknown')}",
            "inputs": [{"name": t.name, "datatype": t.datatype, "shape": [-1, *t.shape]} for t in tensors.inputs],
            "outputs": [{"name": t.name, "datatype": t.datatype, "shape": [-1, *t.shape]} for t in tensors.outputs],
            "parameters": {**facts, **self._facts()},
        }

    async def infer(self, model: str, decode: Callable[[], InferRequest]) -> tuple[InferRequest, InferAnswer]:
        """Decode, check, batch and answer one request; every way it can end is counted once."""
        started = time.monotonic()
        self._series.accepted()
        try:
            request = decode()
            items = signature.check(request, self._servable.signature, self._batching.max_batch_size)
            answered = await self._submit(request, items)
        except asyncio.CancelledError:
            self._series.finished(Outcome.CANCELLED, time.monotonic() - started)
            raise
        except Exception as e:
            self._count_failure(e, started)
            raise
        self._count_answer(answered, items, started)
        return request, self._answer(model, request, answered)

    async def close(self) -> None:
        """Stop serving and give the engine's memory back."""
        self._draining = True
        await self._batcher.close()
        self._servable.close()

    async def _submit(self, request: InferRequest, items: int) -> Answered:
        inputs: Tensors = dict(request.inputs)
        return await self._batcher.submit(inputs, items, signature.shape_key(inputs), request.timeout_s)

    def _answer(self, model: str, request: InferRequest, answered: Answered) -> InferAnswer:
        return InferAnswer(model, answered.outputs, self._datatypes, self._timings(answered), request.id)

    def _timings(self, answered: Answered) -> dict[str, Parameter]:
        return {
            **self._facts(),
            "batch_size": answered.batch_items,
            "queue_ns": int(answered.queue_s * 1e9),
            "execution_ns": int(answered.execution_s * 1e9),
        }

    def _facts(self) -> dict[str, Parameter]:
        facts: dict[str, Parameter] = {"arm": self.identity.arm, "precision": self.identity.precision, "pool": self.identity.pool}
        if self.identity.gpu_uuid is not None:
            facts["gpu_uuid"] = self.identity.gpu_uuid
        if self._servable.metadata.get("simulated") == "true":
            facts["simulated"] = True
        return facts

    def _count_answer(self, answered: Answered, items: int, started: float) -> None:
        self._series.set_queue_depth(self._batcher.depth)
        self._series.finished(
            Outcome.OK,
            time.monotonic() - started,
            queue_s=answered.queue_s,
            execution_s=answered.execution_s,
            items=items,
            gpu_uuid=self.identity.gpu_uuid,
        )

    def _count_failure(self, error: Exception, started: float) -> None:
        if isinstance(error, NonFiniteOutput):
            self._series.nonfinite(error.samples)
        self._series.finished(fault_of(error).outcome, time.monotonic() - started)
