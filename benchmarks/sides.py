"""Name the sides of a benchmark: what is hosted, and by which command."""

import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENT = ROOT / "examples" / "echo.yaml"


class Side(StrEnum):
    """Tell servers apart."""

    OURS = "bakeoff"
    RAY_PYTHON = "ray-python-proxy"
    """Plain Ray Serve as it comes: its Python HTTP proxy."""
    RAY_HAPROXY = "ray-haproxy"
    """Plain Ray Serve under its own HAProxy, throughput-optimised: the same fast path that ours starts from."""


@dataclass(frozen=True)
class Contender:
    """Put one batched model of one side into a comparison."""

    side: Side
    model: str
    label: str


ECHO = {Side.OURS: "echo-a", Side.RAY_PYTHON: "echo", Side.RAY_HAPROXY: "echo"}
"""The model of each side that answers with its input at once."""
CONTENDERS = (
    Contender(Side.OURS, "echo-b", "bakeoff"),
    Contender(Side.RAY_PYTHON, "batch", "`@serve.batch`, Python proxy, wait 0"),
    Contender(Side.RAY_HAPROXY, "batch", "`@serve.batch`, HAProxy, wait 0"),
    Contender(Side.RAY_HAPROXY, "batch-10ms", "`@serve.batch`, HAProxy, wait 10 ms"),
    Contender(Side.RAY_HAPROXY, "batch-thread", "`@serve.batch`, HAProxy, wait 0, model on a thread"),
)
"""The 20 ms model with batches of at most 32, as each side serves it."""


def command(side: Side) -> list[str]:
    """Return what starts a side on free ports."""
    match side:
        case Side.OURS:
            ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
            return [sys.executable, "-m", "bakeoff", "serve", str(EXPERIMENT), *ports]
        case Side.RAY_PYTHON:
            return [sys.executable, "-m", "benchmarks.peers.rayserve", "--proxy", "python"]
        case Side.RAY_HAPROXY:
            return [sys.executable, "-m", "benchmarks.peers.rayserve", "--proxy", "haproxy"]


def environment() -> dict[str, str]:
    """Return this process's environment without Ray's variables: each side sets its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
