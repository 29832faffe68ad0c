"""Serve the Open Inference Protocol with a fixed service time and nothing behind it, to calibrate and test load generators."""

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from loadtest.child import Child
from loadtest.metadata import ModelMetadata
from loadtest.nullmodel import ECHO, NullModel
from loadtest.nullqueue import NullQueue, Stall
from loadtest.timer import KernelTimer

STARTING_S = 60.0
_INFER = re.compile(rb"POST /v2/models/([^/ ]+)(?:/versions/[^/ ]+)?/infer[ ?]")
_MODEL = re.compile(rb"GET /v2/models/([^/ ]+)(/ready)?[ ?]")
_HEALTH = re.compile(rb"GET /v2(/health/(live|ready))?[ ?]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)


class NullServer:
    """Own a null server in a process of its own."""

    def __init__(
        self,
        service_s: float = 0.0,
        *,
        stall_after_s: float | None = None,
        stall_s: float = 0.0,
        metadata: ModelMetadata = ECHO,
        items: int = 1,
        grpc: bool = False,
    ) -> None:
        self._arguments = ["--service-ms", str(service_s * 1e3), "--metadata", metadata.model_dump_json(), "--items", str(items)]
        if stall_after_s is not None:
            self._arguments += ["--stall-after-s", str(stall_after_s), "--stall-s", str(stall_s)]
        self._arguments += ["--grpc"] if grpc else []
        self.base_url = ""
        self.grpc_url: str | None = None

    def __enter__(self) -> Self:
        self._child = Child("loadtest.nullserver", self._arguments)
        ports = json.loads(self._child.read(STARTING_S))
        self.base_url = f"http://127.0.0.1:{ports['http']}"
        self.grpc_url = f"127.0.0.1:{ports['grpc']}" if "grpc" in ports else None
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()

    @property
    def pid(self) -> int:
        """Return the server process's id."""
        return self._child.pid


class Desk:
    """Hold accepted requests until the null queue says that their service ends."""

    def __init__(self, queue: NullQueue) -> None:
        self._queue = queue
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._timer = KernelTimer()
        asyncio.get_running_loop().add_reader(self._timer.fd, self._ring)

    def accept(self, answer: Callable[[int, int], None]) -> None:
        """Call `answer(queue_ns, execution_ns)` once the request's service is over; at once when there is none."""
        arrival = time.monotonic_ns()
        begin, end = self._queue.completion(arrival)
        if end <= arrival and not self._waiting:
            answer(0, 0)
            return
        self._waiting.append((end, lambda: answer(begin - arrival, end - begin)))
        if len(self._waiting) == 1:
            self._timer.arm(end)

    def _ring(self) -> None:
        self._timer.clear()
        while self._waiting and self._waiting[0][0] <= time.monotonic_ns():
            self._waiting.popleft()[1]()
        if self._waiting:
            self._timer.arm(self._waiting[0][0])


class Connection(asyncio.Protocol):
    """Speak as much HTTP/1.1 as a load generator needs: kept-alive, Content-Length bodies, which are counted and dropped."""

    def __init__(self, model: NullModel, desk: Desk) -> None:
        self._model = model
        self._desk = desk
        self._head = b""
        self._body_left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read a request's head, then count its body."""
        if not self._body_left:
            self._head += data
            head, found, body = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            self._head = head
            length = _LENGTH.search(head)
            self._body_left = int(length[1]) if length else 0
            data = body
        self._body_left -= len(data)
        if self._body_left <= 0:
            head, self._head, self._body_left = self._head, b"", 0
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        if infer := _INFER.match(head):
            name = infer[1].decode()
            self._desk.accept(lambda queue_ns, execution_ns: self._send_tensors(name, queue_ns, execution_ns))
        elif model := _MODEL.match(head):
            self._send(200, b"{}" if model[2] else self._model.describe(model[1].decode()))
        elif _HEALTH.match(head):
            self._send(200, b'{"name":"null","version":"1","extensions":["binary_tensor_data"]}')
        else:
            self._send(404, json.dumps({"error": f"unknown request: {head[:80].decode('latin-1')}"}).encode())

    def _send_tensors(self, name: str, queue_ns: int, execution_ns: int) -> None:
        described, tensors = self._model.infer(name, queue_ns, execution_ns)
        extra = b"Inference-Header-Content-Length: %d\r\n" % len(described)
        self._send(200, described + tensors, b"application/octet-stream", extra)

    def _send(self, status: int, body: bytes, kind: bytes = b"application/json", extra: bytes = b"") -> None:
        head = b"HTTP/1.1 %d .\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n" % (status, kind, len(body), extra)
        if not self._transport.is_closing():
            self._transport.write(head + body)


@dataclass(frozen=True)
class Options:
    """Hold the parsed command line."""

    model: NullModel
    queue: NullQueue
    port: int
    grpc: bool


async def serve(options: Options) -> None:
    """Serve until standard input closes; print the ports as one JSON line first."""
    loop = asyncio.get_running_loop()
    desk = Desk(options.queue)
    server = await loop.create_server(lambda: Connection(options.model, desk), "127.0.0.1", options.port, backlog=4096)
    ports = {"http": server.sockets[0].getsockname()[1]}
    if options.grpc:
        from loadtest.nullgrpc import listen

        kept, ports["grpc"] = await listen(options.model, desk)
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await _input_closed()
    if options.grpc:
        await kept.stop(None)


async def _input_closed() -> None:
    """Return once standard input ends; never where it cannot be watched, as a file or /dev/null."""
    ended = asyncio.Event()
    with suppress(PermissionError):
        asyncio.get_running_loop().add_reader(0, lambda: None if os.read(0, 1024) else ended.set())
    await ended.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve as the command line says."""
    asyncio.run(serve(_options(arguments)))


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m loadtest.nullserver", description="Answer after a fixed time, on loopback.")
    parser.add_argument("--port", type=int, default=0, help="HTTP port; 0 takes a free one")
    parser.add_argument("--grpc", action="store_true", help="serve gRPC too, on a free port")
    parser.add_argument("--service-ms", type=float, default=0.0, help="fixed service time of the single server")
    parser.add_argument("--stall-after-s", type=float, help="stop all service this long after the first request")
    parser.add_argument("--stall-s", type=float, default=0.0, help="length of the stall")
    parser.add_argument("--metadata", type=ModelMetadata.parse, default=ECHO, help="metadata of the model to imitate, as JSON")
    parser.add_argument("--items", type=int, default=1, help="items in each answer")
    found = parser.parse_args(arguments)
    after_s = found.stall_after_s
    stall = None if after_s is None else Stall(int(after_s * 1e9), int(found.stall_s * 1e9))
    queue = NullQueue(int(found.service_ms * 1e6), stall)
    return Options(NullModel(found.metadata, found.items), queue, found.port, found.grpc)


if __name__ == "__main__":
    main()
