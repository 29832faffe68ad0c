"""Host an experiment on this machine: models prepared, Ray Serve, exporter and front door started, all stopped in order."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bakeoff.errors import ServingError
from bakeoff.experiment import Experiment
from bakeoff.processes import end
from serve import preparation, rayhost
from serve.app import applications
from serve.front import Doors
from serve.frontdoor import FrontDoor

EXPORTER_START_S = 30.0
STOP_S = 10.0
DEFAULT_CACHE = Path.home() / ".cache" / "bakeoff"


@dataclass(frozen=True)
class Options:
    """Hold what the operator chose on the command line; port 0 takes any free port."""

    http_port: int = 8080
    grpc_port: int = 8081
    metrics_port: int = 8082
    host: str = "127.0.0.1"
    cache: Path = DEFAULT_CACHE
    max_body_bytes: int = 64 * 1024 * 1024
    ha_proxy: bool = True
    """Run Ray Serve under its HAProxy, throughput-optimised; False takes its Python proxy."""


@dataclass(frozen=True)
class Served:
    """List the addresses of a hosted experiment."""

    http_url: str
    grpc_address: str
    metrics_url: str
    front_metrics_url: str
    arms: tuple[str, ...]
    check: Callable[[], None]
    """Raise ServingError when a process that serving needs has ended."""

    def ready_line(self) -> str:
        """Return the one line that says it is ready, and where."""
        return (
            f"ready http={self.http_url} grpc={self.grpc_address} metrics={self.metrics_url} "
            f"front_metrics={self.front_metrics_url} arms={','.join(self.arms)}"
        )


@contextmanager
def hosting(experiment: Experiment, options: Options, say: Callable[[str], None]) -> Iterator[Served]:
    """Serve the experiment for the length of the context; leaving it drains and stops everything."""
    preparation.check(experiment)
    ports = _ports(options)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="bakeoff-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        options.cache.mkdir(parents=True, exist_ok=True)
        preparation.prepare(experiment, options.cache, say)
        _start_ray(experiment, options, folder, ports, stack, say)
        exporter = _start_exporter(experiment, options, ports.metrics, folder, stack)
        door = FrontDoor(folder / "front", experiment, ports.doors(options.host), options.max_body_bytes)
        stack.callback(door.stop)
        door.wait_until_serving(arm.id for arm in experiment.arms)
        yield Served(
            door.http_url,
            door.grpc_address,
            f"http://{options.host}:{ports.metrics}/metrics",
            f"http://{options.host}:{ports.front_metrics}/metrics",
            tuple(arm.id for arm in experiment.arms),
            partial(_check, door, exporter),
        )


def _check(door: FrontDoor, exporter: "subprocess.Popen[str]") -> None:
    door.check()
    status = exporter.poll()
    if status is not None:
        raise ServingError(f"the exporter ended with status {status}")


@dataclass(frozen=True)
class _Ports:
    http: int
    grpc: int
    metrics: int
    front_metrics: int
    ray: rayhost.RayPorts

    def doors(self, host: str) -> Doors:
        return Doors(self.http, self.grpc, self.front_metrics, self.ray.http, self.ray.grpc, host=host)


def _ports(options: Options) -> _Ports:
    for port in (options.http_port, options.grpc_port, options.metrics_port):
        rayhost.require_free(port, options.host)
    spare = iter(rayhost.free_ports(8))
    return _Ports(
        http=options.http_port or next(spare),
        grpc=options.grpc_port or next(spare),
        metrics=options.metrics_port or next(spare),
        front_metrics=next(spare),
        ray=rayhost.RayPorts(next(spare), next(spare), next(spare), next(spare)),
    )


def _start_ray(
    experiment: Experiment, options: Options, folder: Path, ports: _Ports, stack: ExitStack, say: Callable[[str], None]
) -> None:
    series = folder / "series"
    series.mkdir()
    # Ray reads these when it is first imported, and its workers inherit them.
    os.environ.update(rayhost.environment(ports.ray, options.ha_proxy))
    say("starting Ray Serve")
    stack.callback(rayhost.stop)
    rayhost.start_ray(experiment)
    rayhost.start_serve(ports.ray)
    env = {"PROMETHEUS_MULTIPROC_DIR": str(series)}
    rayhost.deploy(applications(experiment, options.cache, folder / "front", options.max_body_bytes, env), say)


def _start_exporter(
    experiment: Experiment, options: Options, port: int, folder: Path, stack: ExitStack
) -> "subprocess.Popen[str]":
    saved = folder / "experiment.json"
    saved.write_text(experiment.model_dump_json())
    command = [sys.executable, "-m", "monitoring.exporter", "--host", options.host, "--port", str(port)]
    command += ["--multiproc-dir", str(folder / "series"), "--experiment", str(saved)]
    log = (folder / "exporter.log").open("wb")
    stack.callback(log.close)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True)
    stack.callback(end, process, STOP_S)
    assert process.stdout is not None
    if not process.stdout.readline():
        raise ServingError(f"the exporter did not start: {(folder / 'exporter.log').read_text()[-2000:]}")
    return process
