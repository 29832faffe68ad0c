"""Carry pre-encoded requests over gRPC: raw messages out, one cheap parse of the answer's parameters."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from bakeoff.errors import LoadError
from bakeoff.metrics import Outcome
from loadtest.clock import Clock
from loadtest.exchange import Exchange, grpc_outcome

METHOD = "/inference.GRPCInferenceService/ModelInfer"
LIVE = "/inference.GRPCInferenceService/ServerLive"
CHANNELS = 8
"""Connections; a server may allow only about 100 requests in flight on each (RFC 9113, section 6.5.2)."""
LARGEST_MESSAGE = 2**31 - 1
CONNECTING_S = 5.0
UNAVAILABLE = 14
_BROKEN = re.compile("connect|socket closed|broken pipe|goaway|dns|name resol|transport|recvmsg", re.IGNORECASE)
"""What gRPC says of a connection that failed; its status is the one of a server that refuses, and nothing else differs."""


class GrpcWire:
    """Send ModelInfer messages to one server; needs gevent's patched process. A first byte cannot be seen, so it is absent."""

    protocol = "gRPC"

    def __init__(self, grpc_url: str, messages: Sequence[bytes], clock: Clock, headers: Mapping[str, str] | None = None) -> None:
        _join_gevent()
        self._clock = clock
        self._messages = messages
        self._metadata = tuple((name.lower(), value) for name, value in (headers or {}).items())
        self._channels = [_channel(grpc_url) for _ in range(CHANNELS)]
        _require_ready(grpc_url, self._channels)
        self._calls = [channel.unary_unary(METHOD) for channel in self._channels]

    def carry(self, exchange: Exchange, seq: int, deadline_ns: int) -> None:
        """Send a request and read its answer."""
        import grpc

        call = self._calls[seq % CHANNELS].future  # a blocking call would take one of gevent's few threads until its answer
        exchange.sent_ns = self._clock.now_ns()
        try:
            data = call(
                self._messages[seq % len(self._messages)],
                timeout=self._clock.until_s(deadline_ns),
                metadata=self._metadata,
            ).result()
        except grpc.RpcError as e:
            exchange.done_ns = self._clock.now_ns()
            _understand_failure(exchange, e)
        else:
            exchange.done_ns = self._clock.now_ns()
            _understand(exchange, data)

    def close(self) -> None:
        """Close the channels."""
        for channel in self._channels:
            channel.close()


def _channel(grpc_url: str) -> Any:
    import grpc

    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", LARGEST_MESSAGE),
        ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ]
    if grpc_url.startswith("grpcs://"):
        return grpc.secure_channel(grpc_url.removeprefix("grpcs://"), grpc.ssl_channel_credentials(), options)
    return grpc.insecure_channel(grpc_url.removeprefix("grpc://"), options)


def _require_ready(grpc_url: str, channels: Sequence[Any]) -> None:
    """Connect and make a first call on each channel before the run, so that no request pays for it; any answer will do."""
    import grpc

    for channel in channels:
        try:
            channel.unary_unary(LIVE).future(b"", timeout=CONNECTING_S, wait_for_ready=True).result()
        except grpc.RpcError as e:
            if e.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise LoadError(f"{grpc_url} does not answer gRPC within {CONNECTING_S:g} s. Is the server running?") from e


def _understand(exchange: Exchange, data: bytes) -> None:
    from tritonclient.grpc import service_pb2

    exchange.status = 0
    exchange.outcome = Outcome.OK
    exchange.size = len(data)
    parameters = service_pb2.ModelInferResponse.FromString(data).parameters
    exchange.parameters = {key: _value(parameters[key]) for key in parameters}


def _understand_failure(exchange: Exchange, failure: Any) -> None:
    """Note a failed call: the server's own status, or none when the connection failed."""
    code, details = failure.code().value[0], failure.details() or ""
    broken = code == UNAVAILABLE and _BROKEN.search(details)
    exchange.status = None if broken else code
    exchange.outcome = Outcome.ERROR if broken else grpc_outcome(code)
    exchange.error = details


def _value(parameter: Any) -> Any:
    kind = parameter.WhichOneof("parameter_choice")
    return None if kind is None else getattr(parameter, kind)


@cache
def _join_gevent() -> None:
    """Make gRPC wait through gevent; has to happen before the process's first channel."""
    from grpc.experimental.gevent import init_gevent

    init_gevent()
