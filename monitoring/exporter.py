"""Serve a node's telemetry over HTTP: its GPUs, their collection's health, and its replicas' request series.

Run it as `python -m monitoring.exporter --port 9400 --multiproc-dir DIR`; SIGTERM ends it.
"""

import argparse
import logging
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from bakeoff.errors import BakeoffError, DeviceError
from bakeoff.experiment import load
from monitoring.collector import GpuCollector
from monitoring.device import DeviceSource, OwnPids
from monitoring.nvml import discover
from monitoring.perfanalyzer import PerfAnalyzerCollector
from monitoring.pools import Pools, parse_pools
from monitoring.prices import GpuHourPrice, gpu_hour_prices
from monitoring.replay import CAPTURES, replay_source
from monitoring.replicas import living
from monitoring.requestcollector import RequestCollector
from monitoring.sampler import Sampler

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = logging.getLogger(__name__)

DEFAULT_PORT = 9400
REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class RunningExporter:
    """Hold an exporter that serves; `port` is the one it got when 0 was asked for."""

    host: str
    port: int
    sampler: Sampler
    server: ThreadingHTTPServer
    thread: threading.Thread

    def stop(self) -> None:
        """Stop serving, then stop reading GPUs."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.sampler.stop()


def serve_metrics(
    port: int,
    host: str = "0.0.0.0",
    multiproc_dir: Path | None = None,
    source: DeviceSource | None = None,
    prices: Sequence[GpuHourPrice] = (),
) -> RunningExporter:
    """Start to read GPUs and serve /metrics and /healthz; raise DeviceError when the port is taken.

    `multiproc_dir` is the folder that replicas write their series to; `source` finds the GPUs, by default through NVML.
    """
    sampler = Sampler(source or partial(discover, own_pids=_own_pids(multiproc_dir)))
    registry = build_registry(sampler, multiproc_dir, prices)
    try:
        server = ThreadingHTTPServer((host, port), _handler(registry, sampler))
    except OSError as e:
        raise DeviceError(f"the exporter cannot listen on {host}:{port}: {e}; choose another --port") from e
    server.daemon_threads = True
    sampler.start()
    thread = threading.Thread(target=server.serve_forever, name="exporter", daemon=True)
    thread.start()
    return RunningExporter(host, server.server_address[1], sampler, server, thread)


def build_registry(sampler: Sampler, multiproc_dir: Path | None, prices: Sequence[GpuHourPrice] = ()) -> "CollectorRegistry":
    """Return all that a scrape shows."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(GpuCollector(sampler, prices))
    registry.register(PerfAnalyzerCollector(sampler))
    if multiproc_dir is not None:
        registry.register(RequestCollector(multiproc_dir))
    return registry


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; print one line once ready."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        exporter = _start(options)
    except BakeoffError as e:
        log.error("%s", e)  # noqa: TRY400 -- the message says it all
        return 2
    print(ready_line(exporter), flush=True)  # noqa: T201 -- whoever started the exporter waits for this line
    ended.wait()
    exporter.stop()
    return 0


def ready_line(exporter: RunningExporter) -> str:
    """Say where the metrics are and which GPUs they are of."""
    snapshot = exporter.sampler.snapshot
    names = [f"{d.identity.name} in pool {d.identity.pool}" for d in snapshot.devices]
    what = ", ".join(names) or f"no GPU: {snapshot.reason}"
    return f"exporter ready on http://{exporter.host}:{exporter.port}/metrics ({what})"


def _start(options: argparse.Namespace) -> RunningExporter:
    experiment = None if options.experiment is None else load(options.experiment)
    pools = parse_pools(options.pool, experiment)
    prices = () if experiment is None else gpu_hour_prices(experiment)
    return serve_metrics(options.port, options.host, options.multiproc_dir, _source(options, pools), prices)


def _source(options: argparse.Namespace, pools: Pools) -> DeviceSource:
    if options.replay is not None:
        return partial(replay_source, options.replay, pools, node=options.node)
    return partial(discover, pools, node=options.node, own_pids=_own_pids(options.multiproc_dir))


def _own_pids(folder: Path | None) -> OwnPids | None:
    return None if folder is None else partial(living, folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m monitoring.exporter", description="Serve a node's GPU and request series.")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port to listen on; 0 takes a free one")
    parser.add_argument("--multiproc-dir", type=Path, help="folder the replicas write their series to")
    parser.add_argument("--experiment", type=Path, help="experiment file that names pools and prices")
    parser.add_argument("--pool", action="append", default=[], metavar="NAME=UUID|INDEX", help="pool of one GPU; may be repeated")
    parser.add_argument("--node", default=socket.gethostname(), help="name of this node in the series")
    parser.add_argument("--replay", choices=CAPTURES, help="play a recorded GPU back instead of reading real ones")
    return parser


def _handler(registry: "CollectorRegistry", sampler: Sampler) -> type[BaseHTTPRequestHandler]:
    pages: dict[str, Callable[[str], tuple[str, bytes]]] = {
        "/metrics": lambda accept: _metrics(registry, accept),
        "/healthz": lambda _: ("text/plain; charset=utf-8", _health(sampler)),
    }

    class Handler(BaseHTTPRequestHandler):
        """Answer GET of the two pages."""

        timeout = REQUEST_TIMEOUT_S

        def do_GET(self) -> None:
            """Send a page, or 404 with the pages there are."""
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                self._send(404, "text/plain; charset=utf-8", b"there are /metrics and /healthz\n")
                return
            self._send(200, *page(self.headers.get("Accept", "")))

        def _send(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class names it so
            """Log requests only when debugging: there is one a second."""
            log.debug(format, *args)

    return Handler


def _metrics(registry: "CollectorRegistry", accept: str) -> tuple[str, bytes]:
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


def _health(sampler: Sampler) -> bytes:
    snapshot = sampler.snapshot
    return f"ok: {len(snapshot.devices)} GPU(s){'' if snapshot.devices else ', ' + str(snapshot.reason)}\n".encode()


if __name__ == "__main__":
    raise SystemExit(main())
