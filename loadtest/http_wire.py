"""Carry pre-encoded requests over HTTP/1.1: kept-alive sockets, one write a request, a C parser for the answer."""

from collections.abc import Mapping, Sequence
from socket import IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY
from typing import Any
from urllib.parse import quote, urlsplit

import gevent
from gevent import monkey
from gevent import socket as gevent_socket
from gevent.lock import Semaphore
from geventhttpclient.response import HTTPConnectionClosed, HTTPParseError, HTTPResponse

from bakeoff.errors import LoadError
from loadtest.clock import Clock
from loadtest.exchange import Exchange, http_outcome, json_part
from loadtest.payload import HttpBody

RECEIVE_BYTES = 1 << 16
LONGEST_JSON = 1 << 16
MOST_CONNECTIONS = 8192


class HttpWire:
    """Post bodies to one model; needs gevent's patched process."""

    protocol = "HTTP"

    def __init__(
        self, base_url: str, model: str, bodies: Sequence[HttpBody], clock: Clock, headers: Mapping[str, str] | None = None
    ) -> None:
        self._clock = clock
        self._connections = Connections(base_url)
        self._messages = [message(base_url, model, body, headers or {}) for body in bodies]

    def carry(self, exchange: Exchange, seq: int, deadline_ns: int) -> None:
        """Send a request and read its answer."""
        timeout = gevent.Timeout.start_new(self._clock.until_s(deadline_ns))
        try:
            self._converse(exchange, self._messages[seq % len(self._messages)])
        except gevent.Timeout as e:
            if e is not timeout:
                raise
            exchange.time_out(self._clock.now_ns())
        except (OSError, HTTPParseError) as e:
            exchange.fail(f"{type(e).__name__}: {e}", self._clock.now_ns())
        finally:
            timeout.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def _converse(self, exchange: Exchange, data: bytes) -> None:
        with self._connections.slots:
            exchange.sent_ns = self._clock.now_ns()
            sock = self._connections.take()
            kept = False
            try:
                sock.sendall(data)
                kept = self._read(exchange, sock)
            finally:
                self._connections.give(sock, kept)

    def _read(self, exchange: Exchange, sock: Any) -> bool:
        """Read one answer; return whether the connection can be used again."""
        answer = Answer("POST")
        while not answer.message_complete or answer.status_code < 200:
            data = sock.recv(RECEIVE_BYTES)
            if data and exchange.first_ns is None:
                exchange.first_ns = self._clock.now_ns()
            exchange.size += len(data)
            answer.feed(data)
            if not data and not answer.message_complete:
                raise HTTPConnectionClosed("the server closed the connection before the end of its answer")
        exchange.done_ns = self._clock.now_ns()
        _understand(exchange, answer)
        return not answer.should_close()


class Answer(HTTPResponse):  # type: ignore[misc]  # geventhttpclient is not followed
    """Parse one answer and keep its body."""

    def __init__(self, method: str) -> None:
        super().__init__(method)
        self.body = bytearray()

    def _on_body(self, buf: bytearray) -> None:
        self.body += buf


class Connections:
    """Keep idle sockets to one server, the most recently used first, and bound how many are open."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise LoadError(f"{base_url!r} is no base URL: write http://host:port")
        self._host = parts.hostname
        self._tls = _tls_context() if parts.scheme == "https" else None
        self._poll = monkey.get_original("select", "poll")
        self.slots = Semaphore(MOST_CONNECTIONS)
        self._address, first = _reach(parts.hostname, parts.port or (443 if self._tls else 80))
        self._idle: list[Any] = [self._prepare(first)]

    def take(self) -> Any:
        """Return a live idle socket, or a new one."""
        while self._idle:
            sock = self._idle.pop()
            if self._is_quiet(sock):
                return sock
            sock.close()
        return self._connect()

    def give(self, sock: Any, kept: bool) -> None:
        """Take a socket back to use it again, or close it."""
        if kept:
            self._idle.append(sock)
        else:
            sock.close()

    def close(self) -> None:
        """Close the idle sockets."""
        while self._idle:
            self._idle.pop().close()

    def _is_quiet(self, sock: Any) -> bool:
        """Say whether nothing has arrived: an idle socket turns readable when the server closes it."""
        poll = self._poll()
        poll.register(sock.fileno(), 1)
        return not poll.poll(0)

    def _connect(self) -> Any:
        return self._prepare(gevent_socket.create_connection(self._address))

    def _prepare(self, sock: Any) -> Any:
        sock.settimeout(None)
        sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        return sock if self._tls is None else self._tls.wrap_socket(sock, server_hostname=self._host)


def _reach(host: str, port: int) -> tuple[tuple[str, int], Any]:
    """Resolve a name once, so that no request waits for it; return the first address that answers, and the connection."""
    failure: OSError | None = None
    try:
        for *_, address in gevent_socket.getaddrinfo(host, port, type=SOCK_STREAM):
            try:
                return address[:2], gevent_socket.create_connection(address[:2], timeout=5)
            except OSError as e:
                failure = e
    except OSError as e:
        failure = e
    raise LoadError(f"cannot connect to {host}:{port}: {failure}. Is the server running?") from failure


def message(base_url: str, model: str, body: HttpBody, headers: Mapping[str, str]) -> bytes:
    """Return a whole HTTP request as it goes over the wire."""
    lines = {
        "Host": urlsplit(base_url).netloc,
        "Content-Type": "application/json" if body.json_size is None else "application/octet-stream",
        "Content-Length": str(len(body.data)),
        **({} if body.json_size is None else {"Inference-Header-Content-Length": str(body.json_size)}),
        **headers,
    }
    if broken := [name for name, value in lines.items() if "\n" in name + value or "\r" in name + value]:
        raise LoadError(f"the header {broken[0]!r} holds a line break: remove it")
    path = f"{urlsplit(base_url).path.rstrip('/')}/v2/models/{quote(model, safe='')}/infer"
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return head.encode("latin-1") + b"\r\n" + body.data


def _understand(exchange: Exchange, answer: Any) -> None:
    exchange.status = answer.status_code
    exchange.outcome = http_outcome(answer.status_code)
    body = bytes(answer.body)
    length = answer.get("inference-header-content-length")
    if length is None and len(body) > LONGEST_JSON:
        return
    said = json_part(body, length) or {}
    parameters = said.get("parameters")
    exchange.parameters = parameters if isinstance(parameters, dict) else None
    if answer.status_code >= 300:
        exchange.error = str(said.get("error") or body[:200].decode("utf-8", "replace"))


def _tls_context() -> Any:
    from gevent.ssl import create_default_context

    return create_default_context()
