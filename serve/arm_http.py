"""Speak the Open Inference Protocol over HTTP for one arm, as a bare ASGI application: no framework on the request path."""

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bakeoff.errors import BakeoffError, RequestTooLarge, UnknownModel
from serve.arm import ArmService
from serve.protocol import http_codec
from serve.protocol.faults import fault_of, headers_of, message_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
log = logging.getLogger(__name__)


class ClientGone(Exception):
    """Say that the client closed its connection before its request was whole."""


class ArmHttp:
    """Answer `/v2/models/{model}...` for one arm."""

    def __init__(self, service: ArmService, max_body_bytes: int) -> None:
        self._service = service
        self._max_body_bytes = max_body_bytes
        self._arm = service.identity.arm.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        try:
            await self._route(scope, receive, send)
        except ClientGone:
            return
        except Exception as e:
            if not isinstance(e, BakeoffError):
                log.exception("request failed")
            await self._send(send, fault_of(e).http, [http_codec.error_body(message_of(e))], headers_of(e))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"][len(scope.get("root_path", "")) :]
        model, version, action = split_path(path)
        self._service.check_name(model, version)
        method = scope["method"]
        expected = "POST" if action == "infer" else "GET"
        if action not in ("", "ready", "infer"):
            raise UnknownModel(f"no such path {path!r}: expected /v2/models/{model}, .../ready or .../infer")
        if method != expected:
            await self._send(send, 405, [http_codec.error_body(f"{path} takes {expected}, not {method}")], {"allow": expected})
        elif action == "infer":
            await self._infer(model, scope, receive, send)
        elif action == "ready":
            self._service.check_health()
            await self._send(send, 200, [b""])
        else:
            await self._send(send, 200, [json.dumps(self._service.metadata(model)).encode()])

    async def _infer(self, model: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, self._max_body_bytes)
        head_length = header(scope, http_codec.HEAD_LENGTH.encode())
        request, answer = await self._service.infer(model, lambda: http_codec.decode(body, head_length))
        parts, head = http_codec.encode(answer, request)
        extra = {} if head is None else {http_codec.HEAD_LENGTH: str(head), "content-type": "application/octet-stream"}
        await self._send(send, 200, parts, extra)

    async def _send(self, send: Send, status: int, parts: list[bytes], extra: dict[str, str] | None = None) -> None:
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        headers = {"content-type": "application/json", **(extra or {}), "content-length": str(len(body))}
        encoded = [(k.encode(), v.encode()) for k, v in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": [*encoded, (b"bakeoff-arm", self._arm)]})
        await send({"type": "http.response.body", "body": body})


def split_path(path: str) -> tuple[str, str, str]:
    """Return model, version ('' if none) and action ('' for metadata) of `/v2/models/{m}[/versions/{v}][/{action}]`."""
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[:2] != ["v2", "models"]:
        raise UnknownModel(f"no such path {path!r}: an arm answers /v2/models/{{model}}")
    model, rest = parts[2], parts[3:]
    version = ""
    if len(rest) >= 2 and rest[0] == "versions":
        version, rest = rest[1], rest[2:]
    return model, version, "/".join(rest)


def header(scope: Scope, name: bytes) -> str | None:
    """Return a request header's value, or None."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


async def read_body(receive: Receive, limit: int) -> bytes:
    """Return the whole request body; raise RequestTooLarge over the limit, ClientGone when it never ends."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise RequestTooLarge(f"the body is over {limit} bytes; send fewer items in one request")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _lifespan(receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
