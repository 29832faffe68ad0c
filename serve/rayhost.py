"""Start Ray Serve on this machine as bakeoff wants it: under its HAProxy, throughput-optimised, on ports of its own."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bakeoff.errors import ExperimentError, ServingError
from bakeoff.experiment import Experiment, Pool

GRPC_SERVICERS = ["serve.protocol.stubs.inference_pb2_grpc.add_GRPCInferenceServiceServicer_to_server"]
OBJECT_STORE_BYTES = 100 * 1024 * 1024
START_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class RayPorts:
    """List the ports Ray Serve's own proxy listens on, behind the front door."""

    http: int
    grpc: int
    metrics: int
    stats: int


def free_ports(n: int) -> list[int]:
    """Return n different ports that nothing listens on right now."""
    sockets = [socket.socket() for _ in range(n)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def require_free(port: int, host: str) -> None:
    """Raise ServingError when something already listens on a port; 0, which takes any, is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as e:
            raise ServingError(f"cannot listen on {host}:{port}: {e.strerror}. Choose another port, or 0 for a free one.") from e


def environment(ports: RayPorts, ha_proxy: bool = True) -> dict[str, str]:
    """Return the variables that must stand before Ray is imported; what the operator set already wins."""
    chosen = {
        "RAY_SERVE_ENABLE_HA_PROXY": "1" if ha_proxy else "0",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1" if ha_proxy else "0",
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(ports.metrics),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(ports.stats),
        "RAY_SERVE_HAPROXY_NBTHREAD": str(min(4, os.cpu_count() or 1)),
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER": "1s",
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2",
        "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(256 * 1024 * 1024),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    }
    return {name: os.environ.get(name, value) for name, value in chosen.items()}


def start_ray(experiment: Experiment, log_to_driver: bool = False) -> None:
    """Start Ray on this machine with the resources that the experiment's pools need."""
    import ray

    with _signals_kept():
        _init(ray, experiment, log_to_driver)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Put back the signal handlers that Ray replaces by ones that abort the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _init(ray: Any, experiment: Experiment, log_to_driver: bool) -> None:
    cpus = sum(arm.num_cpus * arm.replicas for arm in experiment.arms)
    ray.init(
        address="local",
        num_cpus=max(1, round(cpus + 0.5)),
        resources=dict.fromkeys(local_pools(experiment), 1.0),
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=log_to_driver,
        logging_level="ERROR",
    )


def local_pools(experiment: Experiment) -> list[str]:
    """Return the `pool_<name>` resources this machine can stand for; raise ExperimentError for a pool it cannot."""
    used = {arm.pool for arm in experiment.arms}
    cards = _cards() if any(not experiment.pools[name].is_cpu for name in used) else []
    for name in sorted(used):
        _require_here(name, experiment.pools[name], cards)
    return [f"pool_{name}" for name in sorted(used)]


def _require_here(name: str, pool: Pool, cards: Iterable[str]) -> None:
    if not pool.is_cpu and pool.accelerator not in cards:
        raise ExperimentError(
            f"pool {name!r} needs a {pool.accelerator}; this machine has {', '.join(sorted(set(cards))) or 'no NVIDIA GPU'}. "
            "Run it on such a machine, or deploy the experiment to a cluster."
        )


def _cards() -> list[str]:
    from monitoring.nvml import discover
    from monitoring.pools import Pools, catalogue_name

    return [catalogue_name(d.identity.name) or d.identity.name for d in discover(Pools()).devices]


def start_serve(ports: RayPorts) -> None:
    """Start Ray Serve's controller and proxy."""
    from ray import serve as ray_serve
    from ray.serve.config import HTTPOptions, gRPCOptions

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    ray_serve.start(
        proxy_location="EveryNode",
        http_options=HTTPOptions(host="127.0.0.1", port=ports.http),
        grpc_options=gRPCOptions(port=ports.grpc, grpc_servicer_functions=GRPC_SERVICERS),
    )


def deploy(targets: list[Any], say: Callable[[str], None]) -> None:
    """Deploy all applications at once and wait until each runs; raise ServingError with Ray's reason when one fails."""
    from ray import serve as ray_serve

    ray_serve.run_many(targets, wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)
    waiting = {target.name for target in targets}
    deadline = time.monotonic() + START_TIMEOUT_S
    while waiting:
        for name, application in ray_serve.status().applications.items():
            if name in waiting and application.status == "RUNNING":
                waiting.discard(name)
                say(f"{name}: ready")
            elif application.status in {"DEPLOY_FAILED", "UNHEALTHY"}:
                raise ServingError(f"{name} did not start: {_reason(application)}")
        if time.monotonic() > deadline:
            raise ServingError(f"not ready after {START_TIMEOUT_S:.0f} s: {', '.join(sorted(waiting))}")
        time.sleep(0.2)


def _reason(application: Any) -> str:
    messages = [application.message, *(d.message for d in application.deployments.values())]
    return "\n".join(m for m in messages if m)


def stop() -> None:
    """Drain Ray Serve and stop Ray."""
    import ray
    from ray import serve as ray_serve

    if ray.is_initialized():
        ray_serve.shutdown()
        ray.shutdown()
