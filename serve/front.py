"""Render the configuration of the front door: an HAProxy that picks the arm of each request by the live split.

HTTP requests name their model in the path; gRPC messages name it in their first field, which HAProxy reads from the body.
Split requests carry a key in the header (or gRPC metadata) `bakeoff-key`; without one, chance decides. Cut points stand in
a map that the runtime socket changes without touching a connection.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bakeoff.experiment import Experiment
from serve.split import BUCKETS, cut_points

KEY_HEADER = "bakeoff-key"
CONTROL = "control"
GRPC_SERVICE = "/inference.GRPCInferenceService/"
LONGEST_NAME_BYTES = 5 + 2 + 63
"""gRPC frame head, field tag and length, and the longest model name: what must have arrived to know the model."""


@dataclass(frozen=True)
class Doors:
    """List the addresses of a front door and of the Ray proxies behind it."""

    http_port: int
    grpc_port: int
    metrics_port: int
    ray_http_port: int
    ray_grpc_port: int
    host: str = "127.0.0.1"
    ray_host: str = "127.0.0.1"


@dataclass(frozen=True)
class Folder:
    """Name the files of one front door."""

    path: Path

    @property
    def config(self) -> Path:
        """Return where the configuration stands."""
        return self.path / "front.cfg"

    @property
    def socket(self) -> Path:
        """Return the runtime socket."""
        return self.path / "front.sock"

    @property
    def cuts(self) -> Path:
        """Return the map of cut points: `<model>/<arm> <upper bucket>`."""
        return self.path / "cuts.map"

    @property
    def arms(self) -> Path:
        """Return the map of arm names onto themselves: an arm's own name is a valid model name."""
        return self.path / "arms.map"


def write(folder: Folder, experiment: Experiment, doors: Doors, max_body_bytes: int) -> None:
    """Write configuration and maps into the folder."""
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.arms.write_text("".join(f"{arm.id} {arm.id}\n" for arm in experiment.arms))
    folder.cuts.write_text("".join(f"{key} {cut}\n" for key, cut in all_cuts(experiment).items()))
    folder.config.write_text(render(folder, experiment, doors, max_body_bytes))


def all_cuts(experiment: Experiment) -> dict[str, int]:
    """Return the cut points of every model as the map's entries."""
    return {f"{model}/{arm}": cut for model in experiment.models for arm, cut in cut_points(experiment.weights_of(model)).items()}


def render(folder: Folder, experiment: Experiment, doors: Doors, max_body_bytes: int) -> str:
    """Return the HAProxy configuration."""
    sections = [
        _global(folder),
        _defaults(),
        _metrics(doors),
        _http(folder, experiment, doors, max_body_bytes),
        _grpc(folder, experiment, doors),
        _backends(doors),
    ]
    return "\n\n".join(sections) + "\n"


def _lines(head: str, body: list[str]) -> str:
    return "\n".join([head, *(f"    {line}" for line in body)])


def _global(folder: Folder) -> str:
    return _lines(
        "global",
        [
            f"stats socket {folder.socket} mode 600 level admin",
            "hard-stop-after 30s",
            "tune.h2.fe.max-concurrent-streams 1000",
            "tune.h2.be.max-concurrent-streams 1000",
            "tune.h2.fe.initial-window-size 1048576",
            "tune.h2.be.initial-window-size 1048576",
        ],
    )


def _defaults() -> str:
    errors = {
        400: "the request could not be read",
        403: "not allowed here",
        408: "the request did not arrive in time",
        413: "the body is too large",
        500: "internal error in the front door",
        502: "the arm's replica was lost while it served this request; send it again",
        503: "no replica of this arm is ready; come back later",
        504: "the arm did not answer in time",
    }
    return _lines(
        "defaults",
        [
            "mode http",
            "option http-no-delay",
            "option abortonclose",
            "timeout connect 2s",
            "timeout client 600s",
            "timeout server 600s",
            "timeout http-request 30s",
            "timeout http-keep-alive 120s",
            "retry-on conn-failure",
            *(f"http-error status {code} {_json(text)}" for code, text in errors.items()),
        ],
    )


def _json(message: str) -> str:
    document = json.dumps({"error": message}).replace("'", "\\u0027")
    return f"content-type application/json string '{document}'"


def _json_format(message: str) -> str:
    """Return a body with HAProxy expressions in it; what they insert is escaped for JSON."""
    document = json.dumps({"error": message}).replace("'", "\\u0027")
    return f"content-type application/json lf-string '{document}'"


def _metrics(doors: Doors) -> str:
    return _lines(
        "frontend metrics",
        [
            f"bind {doors.host}:{doors.metrics_port}",
            "http-request use-service prometheus-exporter if { path /metrics }",
            f"http-request return status 404 {_json('the front door serves /metrics here')}",
        ],
    )


def _http(folder: Folder, experiment: Experiment, doors: Doors, max_body_bytes: int) -> str:
    return _lines(
        "frontend http",
        [
            f"bind {doors.host}:{doors.http_port}",
            "http-request deny deny_status 413 if { req.body_size gt " + str(max_body_bytes) + " }",
            "acl names_model path_beg /v2/models/",
            "acl all_models path /v2/models/stats",
            "http-request set-var(txn.model) path,field(4,/),url_dec if names_model !all_models",
            *_choice(folder, experiment),
            "http-request return status 404 "
            + _json_format("unknown model %[var(txn.model),json(utf8s)]; GET /v2/repository/index lists what is served")
            + " if { var(txn.model) -m found } !{ var(txn.arm) -m found }",
            "http-request set-path /arms/%[var(txn.arm)]%[path] if { var(txn.arm) -m found }",
            f"http-request set-path /{CONTROL}%[path] if !{{ var(txn.arm) -m found }}",
            "default_backend ray_http",
        ],
    )


def _grpc(folder: Folder, experiment: Experiment, doors: Doors) -> str:
    return _lines(
        "frontend grpc",
        [
            f"bind {doors.host}:{doors.grpc_port} proto h2",
            f"acl names_model path_beg {GRPC_SERVICE}Model",
            f"http-request wait-for-body time 2s at-least {LONGEST_NAME_BYTES} if names_model",
            "http-request set-var(txn.model) req.body,bytes(5),protobuf(1) if names_model",
            *_choice(folder, experiment),
            (
                "http-request return status 200 hdr grpc-status 5 hdr grpc-message "
                '"unknown model %[var(txn.model),url_enc]" if names_model !{ var(txn.arm) -m found }'
            ),
            "http-request set-header application %[var(txn.arm)] if { var(txn.arm) -m found }",
            f"http-request set-header application {CONTROL} if !{{ var(txn.arm) -m found }}",
            "default_backend ray_grpc",
        ],
    )


def _choice(folder: Folder, experiment: Experiment) -> list[str]:
    """Return the rules that turn txn.model into txn.arm: an arm's own name, else the split by bucket."""
    rules = [
        f"http-request set-var(txn.arm) var(txn.model),map_str({folder.arms}) if {{ var(txn.model) -m found }}",
        f"http-request set-var(txn.bucket) req.hdr({KEY_HEADER}),xxh32,mod({BUCKETS}) if {{ req.hdr({KEY_HEADER}) -m found }}",
        f"http-request set-var(txn.bucket) rand({BUCKETS}) if !{{ req.hdr({KEY_HEADER}) -m found }}",
    ]
    for model in experiment.models:
        for arm in experiment.arms_of(model):
            rules += [
                (
                    f"http-request set-var(txn.cut) str({model}/{arm.id}),map_str_int({folder.cuts},0)"
                    f" if {{ var(txn.model) -m str {model} }}"
                ),
                (
                    f"http-request set-var(txn.arm) str({arm.id}) if {{ var(txn.model) -m str {model} }}"
                    " !{ var(txn.arm) -m found } { var(txn.bucket),sub(txn.cut) lt 0 }"
                ),
            ]
    return rules


def _backends(doors: Doors) -> str:
    """Return both backends; what an arm did not word itself (it always answers JSON) is worded here."""
    foreign = "!{ res.hdr(content-type) -m beg application/json } !{ res.hdr(bakeoff-arm) -m found }"
    unavailable = "http-response return status 503 hdr Retry-After 1 "
    http = _lines(
        "backend ray_http",
        [
            "http-reuse always",
            f"http-response return status 404 {_json('no such path')} if {{ status 404 }} {foreign}",
            f"http-response return status 408 {_json('the request did not arrive in time')} if {{ status 408 }} {foreign}",
            unavailable
            + _json("no replica of this arm could answer; send the request again")
            + f" if {{ status ge 500 }} {foreign}",
            f"server ray {doors.ray_host}:{doors.ray_http_port}",
        ],
    )
    grpc = _lines(
        "backend ray_grpc",
        ["http-reuse always", f"server ray {doors.ray_host}:{doors.ray_grpc_port} proto h2"],
    )
    return f"{http}\n\n{grpc}"


def split_commands(folder: Folder, model: str, weights: Mapping[str, float]) -> list[str]:
    """Return the runtime commands that put new weights of one model in force."""
    return [f"set map {folder.cuts} {model}/{arm} {cut}" for arm, cut in cut_points(weights).items()]
