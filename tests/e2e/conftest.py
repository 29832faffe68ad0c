"""Servers for the end-to-end tests: each is `bakeoff serve` in a process of its own, as an operator starts it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from bakeoff.served import parse_ready

ECHO = {
    "name": "e2e",
    "pools": {"cpu": {"accelerator": "cpu"}},
    "models": {"echo": {"family": "echo", "workload": {"rate_per_s": 60, "run_s": 2, "warmup_s": 1, "blocks": 3}}},
    "arms": [
        {
            "name": name,
            "model": "echo",
            "precision": "fp32",
            "pool": "cpu",
            "engine": {"kind": "simulated", "service_time_s": 0.004},
            "batching": {"max_batch_size": 8, "queue_limit": 64},
            "replicas": replicas,
            "num_cpus": 0.5,
        }
        for name, replicas in (("echo-a", 1), ("echo-b", 2))
    ],
    "splits": [{"model": "echo", "weights": {"echo-a": 50, "echo-b": 50}}],
    "slos": [{"model": "echo", "latency_s": 0.25}],
}


@dataclass
class Running:
    """A server that is up."""

    process: subprocess.Popen
    experiment: Path
    addresses: dict[str, str]

    @property
    def http(self) -> str:
        return self.addresses["http"]

    @property
    def host(self) -> str:
        return self.http.removeprefix("http://")

    @property
    def grpc(self) -> str:
        return self.addresses["grpc"]

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


def start(experiment: Path, log: Path, **env: str) -> Running:
    command = [sys.executable, "-m", "bakeoff", "serve", str(experiment)]
    command += ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, **env})
    lines = []
    for line in process.stdout:
        if line.startswith("ready "):
            return Running(process, experiment, parse_ready(line))
        lines.append(line)
    raise AssertionError(f"the server ended with {process.wait()}:\n{''.join(lines)}\n{log.read_text()[-3000:]}")


def stop(running: Running) -> int:
    if running.process.poll() is None:
        running.process.terminate()
    status = running.process.wait(60)
    running.process.stdout.close()
    return status


@pytest.fixture(scope="session")
def echo_experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("experiment") / "echo.yaml"
    path.write_text(yaml.safe_dump(ECHO))
    return path


@pytest.fixture
def start_server():
    """Return functions that start and stop a server of the test's own."""
    return start, stop


@pytest.fixture(scope="module")
def server(echo_experiment, tmp_path_factory):
    running = start(echo_experiment, tmp_path_factory.mktemp("server") / "log")
    yield running
    stop(running)
