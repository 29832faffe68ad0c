"""Define the peer's applications: plain Ray Serve around the same codec and the same simulated model as ours."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bakeoff.hosting import SimulatedEngine
from models.servable import Tensors, TensorSpec
from models.simulated import EchoServable
from serve.protocol import http_codec
from serve.protocol.messages import InferAnswer, InferRequest

BATCH_S = 0.02
"""Time of one batch whatever its size, seconds."""
MAX_BATCH_SIZE = 32
MAX_ONGOING_REQUESTS = 512
CPUS = 0.25
"""Cores Ray reserves for a replica; all applications fit two."""


class Endpoint:
    """Answer one model's metadata and inference; a request runs alone, on the event loop."""

    def __init__(self, name: str, service_time_s: float) -> None:
        self._name = name
        self._servable = EchoServable(SimulatedEngine(service_time_s=service_time_s))
        self._datatypes = {spec.name: spec.datatype for spec in self._servable.signature.outputs}

    async def __call__(self, request: Request) -> Response:
        """Serve one HTTP request: GET describes the model, POST infers."""
        if request.method == "GET":
            return JSONResponse(self._metadata())
        decoded = http_codec.decode(await request.body(), request.headers.get(http_codec.HEAD_LENGTH))
        return self._encoded(decoded, await self.infer(decoded.inputs))

    async def infer(self, inputs: Tensors) -> Tensors:
        """Answer one request."""
        return self._servable.run(inputs)

    def run_batch(self, requests: Sequence[Tensors]) -> list[Tensors]:
        """Answer requests of one item each in one call of the model."""
        inputs = {name: np.concatenate([r[name] for r in requests]) for name in requests[0]}
        outputs = self._servable.run(inputs)
        return [{name: array[n : n + 1] for name, array in outputs.items()} for n in range(len(requests))]

    def _encoded(self, request: InferRequest, outputs: Tensors) -> Response:
        answer = InferAnswer(self._name, outputs, self._datatypes, {}, request.id)
        parts, head = http_codec.encode(answer, request)
        headers = {} if head is None else {http_codec.HEAD_LENGTH: str(head)}
        return Response(b"".join(parts), headers=headers, media_type="application/octet-stream")

    def _metadata(self) -> dict[str, Any]:
        signature = self._servable.signature
        return {
            "name": self._name,
            "versions": ["1"],
            "platform": "ray_serve",
            "inputs": [_described(spec) for spec in signature.inputs],
            "outputs": [_described(spec) for spec in signature.outputs],
        }


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [-1, *spec.shape]}


def applications() -> dict[str, Any]:
    """Return the Ray Serve applications by model name: the echo, and three ways to write a batched model."""
    return {
        "echo": _application(Endpoint, "echo", 0.0),
        "batch": _application(_blocking(0.0), "batch", BATCH_S),
        "batch-10ms": _application(_blocking(0.01), "batch-10ms", BATCH_S),
        "batch-thread": _application(_threaded(), "batch-thread", BATCH_S),
    }


def _application(endpoint: type[Endpoint], name: str, service_time_s: float) -> Any:
    from ray import serve as ray_serve

    deployment = ray_serve.deployment(
        num_replicas=1, max_ongoing_requests=MAX_ONGOING_REQUESTS, ray_actor_options={"num_cpus": CPUS}
    )(endpoint)
    return deployment.bind(name, service_time_s)


def _blocking(wait_s: float) -> type[Endpoint]:
    """Return an endpoint whose batch function blocks the event loop it is called on, as a plain model call does."""
    from ray import serve as ray_serve

    class Blocking(Endpoint):
        @ray_serve.batch(max_batch_size=MAX_BATCH_SIZE, batch_wait_timeout_s=wait_s)  # type: ignore[untyped-decorator]  # ray is not followed
        async def infer(self, requests: list[Tensors]) -> list[Tensors]:
            return self.run_batch(requests)

    return Blocking


def _threaded() -> type[Endpoint]:
    """Return an endpoint whose batch function leaves the event loop free: the model runs on one thread of its own."""
    from ray import serve as ray_serve

    class Threaded(Endpoint):
        def __init__(self, name: str, service_time_s: float) -> None:
            super().__init__(name, service_time_s)
            self._thread = ThreadPoolExecutor(1)

        @ray_serve.batch(max_batch_size=MAX_BATCH_SIZE, batch_wait_timeout_s=0.0)  # type: ignore[untyped-decorator]  # ray is not followed
        async def infer(self, requests: list[Tensors]) -> list[Tensors]:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.run_batch, requests)

    return Threaded
