"""Answer what is no single arm's: server health and metadata, the repository index, and the live split."""

import json
import logging
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bakeoff.closed import Closed
from bakeoff.errors import BakeoffError, NotReady, RequestError, UnknownModel
from bakeoff.experiment import Experiment
from serve.arm_http import ClientGone, Receive, Scope, Send, read_body
from serve.front import Folder, split_commands
from serve.frontsocket import FrontSocket
from serve.protocol.faults import fault_of, message_of
from serve.protocol.stubs import inference_pb2 as pb
from serve.replica import answered_or_fault

log = logging.getLogger(__name__)
EXTENSIONS = ("binary_tensor_data", "model_repository(index)", "bakeoff_split")
LONGEST_BODY_BYTES = 1 << 20


class ControlSettings(Closed):
    """Hold all that the control application needs."""

    experiment: Experiment
    front: Path | None
    """Folder of the front door on this machine; None when there is none."""


class Control:
    """Know the arms' states and change the split."""

    def __init__(self, settings: ControlSettings) -> None:
        self._experiment = settings.experiment
        self._front = None if settings.front is None else Folder(settings.front)
        self._weights = {model: settings.experiment.weights_of(model) for model in settings.experiment.models}

    def metadata(self) -> dict[str, Any]:
        """Return the server's metadata."""
        return {"name": "bakeoff", "version": version("bakeoff"), "extensions": list(EXTENSIONS)}

    def arm_states(self) -> dict[str, str]:
        """Return READY or UNAVAILABLE by arm, as Ray Serve sees its replicas."""
        from ray import serve as ray_serve

        applications = ray_serve.status().applications
        return {arm.id: _state(applications.get(arm.id)) for arm in self._experiment.arms}

    def index(self) -> list[dict[str, str]]:
        """Return one entry a model and one an arm; a model is ready when one of its arms is."""
        states = self.arm_states()
        ready = {
            model: "READY" if "READY" in {states[a.id] for a in self._experiment.arms_of(model)} else "UNAVAILABLE"
            for model in self._experiment.models
        }
        entries = {**ready, **states}
        return [{"name": name, "version": "1", "state": state, "reason": ""} for name, state in entries.items()]

    def check_ready(self) -> None:
        """Raise NotReady naming the arms without a ready replica."""
        missing = [arm for arm, state in self.arm_states().items() if state != "READY"]
        if missing:
            raise NotReady(f"not ready: {', '.join(missing)}")

    def splits(self) -> dict[str, dict[str, float]]:
        """Return each model's shares by arm, as they are in force."""
        return self._weights

    def change_split(self, model: str, weights: Mapping[str, float]) -> dict[str, float]:
        """Put new weights in force at the front door without touching a connection; return the shares."""
        checked = checked_weights(self._experiment, model, weights)
        if self._front is None:
            raise NotReady("there is no front door on this machine to change the split of")
        FrontSocket(self._front.socket).send(split_commands(self._front, model, checked))
        total = sum(checked.values())
        self._weights[model] = {arm: weight / total for arm, weight in checked.items()}
        log.info("split of %s is now %s", model, self._weights[model])
        return self._weights[model]


def checked_weights(experiment: Experiment, model: str, weights: object) -> dict[str, float]:
    """Return a weight for each arm of the model, 0 where none is given; raise RequestError for what makes no sense."""
    arms = [arm.id for arm in experiment.arms_of(model)]
    if not arms:
        raise UnknownModel(f"unknown model {model!r}; models: {', '.join(experiment.models)}")
    if not isinstance(weights, dict):
        raise RequestError('expected {"weights": {"<arm>": <number>, ...}}')
    unknown = [name for name in weights if name not in arms]
    if unknown:
        raise RequestError(f"{', '.join(map(repr, unknown))}: no arm of {model!r}; arms: {', '.join(arms)}")
    if not all(_is_weight(w) for w in weights.values()) or sum(weights.values()) <= 0:
        raise RequestError(f"weights are numbers from 0, at least one above 0; found {weights}")
    return {arm: float(weights.get(arm, 0.0)) for arm in arms}


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _state(application: Any) -> str:
    if application is None:
        return "UNAVAILABLE"
    running = sum(d.replica_states.get("RUNNING", 0) for d in application.deployments.values())
    return "READY" if running else "UNAVAILABLE"


class ControlHttp:
    """Route the control application's HTTP paths."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            return
        path = scope["path"][len(scope.get("root_path", "")) :].rstrip("/")
        try:
            status, document = 200, await self._answer(scope["method"], path, receive)
        except ClientGone:
            return
        except Exception as e:
            if not isinstance(e, BakeoffError):
                log.exception("control request failed")
            status, document = fault_of(e).http, {"error": message_of(e)}
        body = b"" if document is None else json.dumps(document).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, method: str, path: str, receive: Receive) -> object:
        route = (method, path)
        if route == ("GET", "/v2"):
            return self._control.metadata()
        if route == ("GET", "/v2/health/live"):
            return None
        if route == ("GET", "/v2/health/ready"):
            self._control.check_ready()
            return None
        if path == "/v2/repository/index" and method in {"GET", "POST"}:
            return self._control.index()
        if route == ("GET", "/bakeoff/splits"):
            return self._control.splits()
        if method == "PUT" and path.startswith("/bakeoff/splits/"):
            document = _document(await read_body(receive, LONGEST_BODY_BYTES))
            return self._control.change_split(path.rsplit("/", 1)[1], document.get("weights", {}))
        raise UnknownModel(f"no such path: {method} {path!r}")


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError as e:
        raise RequestError(f"the body is not JSON: {e}") from e
    if not isinstance(document, dict):
        raise RequestError(f"expected a JSON object, found {type(document).__name__}")
    return document


class ControlReplica:
    """Serve the control application."""

    def __init__(self, settings: ControlSettings) -> None:
        self._control = Control(settings)

    def __serve_build_asgi_app__(self) -> ControlHttp:
        """Return the application that answers HTTP."""
        return ControlHttp(self._control)

    async def ServerLive(self, _request: "pb.ServerLiveRequest") -> "pb.ServerLiveResponse":  # noqa: N802
        """Say that the server runs."""
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, _request: "pb.ServerReadyRequest") -> "pb.ServerReadyResponse":  # noqa: N802
        """Say whether every arm has a ready replica."""
        try:
            self._control.check_ready()
        except NotReady:
            return pb.ServerReadyResponse(ready=False)
        return pb.ServerReadyResponse(ready=True)

    async def ServerMetadata(self, _request: "pb.ServerMetadataRequest", grpc_context: Any) -> "pb.ServerMetadataResponse":  # noqa: N802
        """Return name, version and extensions."""

        async def answer() -> "pb.ServerMetadataResponse":
            return pb.ServerMetadataResponse(**self._control.metadata())

        return await answered_or_fault(answer, pb.ServerMetadataResponse, grpc_context)
