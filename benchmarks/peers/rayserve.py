"""Host plain Ray Serve in a process of its own: `python -m benchmarks.peers.rayserve --proxy python|haproxy`.

Prints `ready http=URL` when every application answers, and runs until SIGTERM.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable

from serve import rayhost

CORES = 2


def environment(ports: rayhost.RayPorts, haproxy: bool) -> dict[str, str]:
    """Return Ray's variables for a proxy; Ray's default leaves both switches of the fast path unset."""
    chosen = rayhost.environment(ports, haproxy)
    if not haproxy:
        del chosen["RAY_SERVE_ENABLE_HA_PROXY"], chosen["RAY_SERVE_THROUGHPUT_OPTIMIZED"]
    return chosen


def serve_until(ports: rayhost.RayPorts, wait: Callable[[], object]) -> None:
    """Start Ray and Ray Serve, deploy, say ready, wait, and stop all of it."""
    try:
        _start(ports)
        print(f"ready http=http://127.0.0.1:{ports.http}", flush=True)
        wait()
    finally:
        rayhost.stop()


def _start(ports: rayhost.RayPorts) -> None:
    import ray
    from ray import serve as ray_serve
    from ray.serve.config import HTTPOptions

    from benchmarks.peers.applications import applications

    ray.init(
        address="local",
        num_cpus=CORES,
        object_store_memory=rayhost.OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    ray_serve.start(proxy_location="EveryNode", http_options=HTTPOptions(host="127.0.0.1", port=ports.http))
    targets = [
        ray_serve.RunTarget(target=application, name=name, route_prefix=f"/v2/models/{name}")
        for name, application in applications().items()
    ]
    rayhost.deploy(targets, lambda line: print(line, flush=True))
    _wait_until_answering(f"http://127.0.0.1:{ports.http}", [target.name for target in targets])


def _wait_until_answering(url: str, models: list[str], timeout_s: float = 60) -> None:
    from bakeoff.errors import LoadError
    from loadtest.metadata import fetch_metadata

    deadline = time.monotonic() + timeout_s
    for model in models:
        while True:
            try:
                fetch_metadata(url, model)
                break
            except LoadError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.rayserve", description=__doc__)
    parser.add_argument("--proxy", choices=("python", "haproxy"), required=True, help="what stands before the replicas")
    haproxy = parser.parse_args().proxy == "haproxy"
    ports = rayhost.RayPorts(*rayhost.free_ports(4))
    # Ray reads these when it is first imported, and its workers inherit them.
    os.environ.update(environment(ports, haproxy))
    signal.signal(signal.SIGTERM, _end)
    serve_until(ports, signal.pause)


def _end(*_: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
