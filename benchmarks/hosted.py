"""Host one side in a process of its own for the length of a context."""

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import psutil

from bakeoff.errors import ServingError
from bakeoff.served import parse_ready
from benchmarks.cputime import wait_until_idle
from benchmarks.sides import ROOT, Side, command, environment
from loadtest.generator import Generator
from loadtest.job import Payload

START_S = 180.0
STOP_S = 60.0
VALUES = 256
"""FP32 values of one request: 1 kB."""
DISTINCT = 64


@dataclass(frozen=True)
class Hosted:
    """Name a server that is ready."""

    pid: int
    url: str


@contextmanager
def hosted(side: Side) -> Iterator[Hosted]:
    """Start a side, wait until it is ready and has come to rest, and stop all of it afterwards."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command(side), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
        )
        try:
            url = _url(process, log)
            wait_until_idle(process.pid)
            yield Hosted(process.pid, url)
        finally:
            _stop(process)


def end_cleanly_on_sigterm() -> None:
    """Turn SIGTERM into SystemExit, so that every hosted server is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@contextmanager
def generating(url: str) -> Iterator[Generator]:
    """Own a load generator of one process that sends random items of 1 kB."""
    with tempfile.TemporaryDirectory(prefix="bakeoff-bench-") as folder:
        inputs = Path(folder) / "inputs.npz"
        values = np.random.default_rng(0).standard_normal((DISTINCT, VALUES)).astype(np.float32)
        np.savez(inputs, INPUT0=values)
        with Generator(url, payload=Payload(inputs=inputs, distinct=DISTINCT)) as generator:
            yield generator


def _url(process: "subprocess.Popen[str]", log: IO[str]) -> str:
    assert process.stdout is not None
    timer = threading.Timer(START_S, process.kill)
    timer.start()
    try:
        ready = next((line for line in process.stdout if line.startswith("ready ")), None)
    finally:
        timer.cancel()
    if ready is None:
        log.seek(0)
        raise ServingError(f"the server ended or was not ready within {START_S:.0f} s; its last words: {log.read()[-2000:]}")
    return parse_ready(ready)["http"]


def _stop(process: "subprocess.Popen[str]") -> None:
    """Ask the server to end; end what is left of its processes."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(family, timeout=5)
    for left in alive:
        left.kill()
    if process.stdout is not None:
        process.stdout.close()
