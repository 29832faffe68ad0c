"""Put an arm into a Ray Serve replica: the process that runs the engine also answers HTTP and gRPC."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import Field

from bakeoff.closed import Closed
from bakeoff.errors import BakeoffError
from bakeoff.experiment import Arm, ModelSpec, Pool, Slo
from serve.arm import ArmService, Identity
from serve.arm_http import ArmHttp
from serve.protocol import grpc_codec
from serve.protocol.faults import fault_of, message_of
from serve.protocol.stubs import inference_pb2 as pb

log = logging.getLogger(__name__)


class ArmSettings(Closed):
    """Hold all that a replica needs to become its arm."""

    arm: Arm
    spec: ModelSpec
    pool: Pool
    slo: Slo | None
    cache: Path
    """Folder of prepared models."""
    max_body_bytes: int = Field(gt=0)
    """Largest request body."""


class ArmReplica:
    """Serve one arm; the constructor returns when the engine is warm, so Ray routes nothing before."""

    def __init__(self, settings: ArmSettings) -> None:
        self._service = build_service(settings)
        self._max_body_bytes = settings.max_body_bytes

    def __serve_build_asgi_app__(self) -> ArmHttp:
        """Return the application that answers HTTP."""
        return ArmHttp(self._service, self._max_body_bytes)

    def check_health(self) -> None:
        """Raise when Ray should replace this replica."""
        self._service.check_health()

    async def __del__(self) -> None:
        service = getattr(self, "_service", None)
        if service is not None:
            await service.close()

    async def ModelInfer(self, request: "pb.ModelInferRequest", grpc_context: Any) -> "pb.ModelInferResponse":  # noqa: N802
        """Answer one inference."""

        async def answer() -> "pb.ModelInferResponse":
            self._service.check_name(request.model_name, request.model_version)
            decoded, answered = await self._service.infer(request.model_name, lambda: grpc_codec.decode(request))
            return grpc_codec.encode(answered, decoded)

        return await answered_or_fault(answer, pb.ModelInferResponse, grpc_context)

    async def ModelReady(self, request: "pb.ModelReadyRequest", grpc_context: Any) -> "pb.ModelReadyResponse":  # noqa: N802
        """Say that the arm is ready; a replica that is not gets no request."""

        async def answer() -> "pb.ModelReadyResponse":
            self._service.check_name(request.name, request.version)
            self._service.check_health()
            return pb.ModelReadyResponse(ready=True)

        return await answered_or_fault(answer, pb.ModelReadyResponse, grpc_context)

    async def ModelMetadata(self, request: "pb.ModelMetadataRequest", grpc_context: Any) -> "pb.ModelMetadataResponse":  # noqa: N802
        """Describe the model's tensors."""

        async def answer() -> "pb.ModelMetadataResponse":
            self._service.check_name(request.name, request.version)
            facts = self._service.metadata(request.name)
            facts.pop("parameters")
            return pb.ModelMetadataResponse(**facts)

        return await answered_or_fault(answer, pb.ModelMetadataResponse, grpc_context)


async def answered_or_fault(answer: Callable[[], Awaitable[Any]], empty: Callable[[], Any], grpc_context: Any) -> Any:
    """Return the answer; on an error set its gRPC code and text on the context and return an empty message."""
    import grpc

    try:
        return await answer()
    except Exception as e:
        if not isinstance(e, BakeoffError):
            log.exception("request failed")
        grpc_context.set_code(getattr(grpc.StatusCode, fault_of(e).grpc))
        grpc_context.set_details(message_of(e))
        return empty()


def build_service(settings: ArmSettings) -> ArmService:
    """Load the engine on this replica's device, warm it and put the batcher before it."""
    from models.registry import build
    from monitoring.requestseries import ArmSeries
    from serve.device import device_of, gpu_uuid, limit_threads

    arm = settings.arm
    if arm.engine.kind != "simulated":
        limit_threads(arm.engine.threads)
    servable = build(settings.spec, arm, device_of(settings.pool.is_cpu), settings.cache)
    identity = Identity(arm.model, arm.id, arm.precision, arm.pool, gpu_uuid(settings.pool.is_cpu))
    slo_s = settings.slo.latency_s if settings.slo else None
    series = ArmSeries(arm.model, arm.id, arm.precision, arm.pool, slo_s)
    if identity.gpu_uuid is not None:
        series.runs_on(identity.gpu_uuid, exclusive=(arm.num_gpus or 1) >= 1)
    return ArmService(identity, servable, arm.batching, series)
