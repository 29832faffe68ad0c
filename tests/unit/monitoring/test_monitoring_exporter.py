import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bakeoff.errors import DeviceError
from monitoring.exporter import RunningExporter, main, ready_line, serve_metrics
from monitoring.pools import Pools
from monitoring.replay import replay_source
from monitoring.scrape import fetch

Wait = Callable[[Callable[[], bool]], None]


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[RunningExporter]:
    running = serve_metrics(0, "127.0.0.1", tmp_path / "series", partial(replay_source, "h200", Pools()))
    yield running
    running.stop()


def url(exporter: RunningExporter, page: str = "/metrics") -> str:
    return f"http://127.0.0.1:{exporter.port}{page}"


def names(address: str) -> set[str]:
    return {sample.metric for sample in fetch(address)}


def test_it_serves_the_cards_series_from_the_first_scrape(exporter: RunningExporter) -> None:
    assert {"bakeoff_gpu_power_draw_watts", "bakeoff_gpu_power_limit_watts", "nv_gpu_utilization"} <= names(url(exporter))


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0", "text/plain; version=0.0.4"])
def test_it_speaks_the_format_that_is_asked_for(exporter: RunningExporter, accept: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url(exporter), headers={"Accept": accept}), timeout=10) as answer:
        body = answer.read().decode()
    assert answer.headers["Content-Type"].startswith(accept.split(";", maxsplit=1)[0] or "text/plain")
    assert body.endswith("# EOF\n") == accept.startswith("application/openmetrics")
    assert "_created" not in body


def test_health_says_what_it_reads(exporter: RunningExporter) -> None:
    with urllib.request.urlopen(url(exporter, "/healthz"), timeout=10) as answer:
        assert (answer.status, answer.read()) == (200, b"ok: 1 GPU(s)\n")


def test_another_path_names_the_pages_there_are(exporter: RunningExporter) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url(exporter, "/other"), timeout=10)
    with caught.value as error:
        assert (error.code, error.read()) == (404, b"there are /metrics and /healthz\n")


def test_its_ready_line_names_the_address_and_the_cards(exporter: RunningExporter) -> None:
    line = ready_line(exporter)
    assert line == f"exporter ready on http://127.0.0.1:{exporter.port}/metrics (NVIDIA H200 (SIMULATED) in pool h200)"


def test_a_taken_port_is_an_error_that_names_it(exporter: RunningExporter) -> None:
    with pytest.raises(DeviceError, match=rf"127\.0\.0\.1:{exporter.port}.*another --port"):
        serve_metrics(exporter.port, "127.0.0.1")


def test_an_unreadable_experiment_ends_the_command_with_2(tmp_path: Path) -> None:
    assert main(["--port", "0", "--experiment", str(tmp_path / "missing.yaml")]) == 2


@contextmanager
def started(arguments: Sequence[str], environment: dict[str, str]) -> "Iterator[tuple[subprocess.Popen[str], str, str]]":
    """Start the command, wait for its ready line, and yield it with its URL and that line."""
    command = [sys.executable, "-W", "error", "-m", "monitoring.exporter", "--port", "0", "--host", "127.0.0.1", *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield process, line.split()[3], line
        finally:
            process.kill()
            process.communicate()


def test_sigterm_ends_the_command_cleanly(tmp_path: Path) -> None:
    with started(["--replay", "h200", "--pool", "mine=0", "--multiproc-dir", str(tmp_path)], dict(os.environ)) as (
        process,
        address,
        line,
    ):
        assert "NVIDIA H200 (SIMULATED) in pool mine" in line
        assert "bakeoff_gpu_up" in names(address)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_it_survives_a_gpu_that_is_lost_and_comes_back(shim: Any, eventually: Wait) -> None:
    machine = shim("L4,A100")
    with started([], machine.environment) as (process, address, line):
        assert "NVIDIA L4 in pool l4, NVIDIA A100-SXM4-40GB in pool a100" in line
        assert up(address) == {"l4": 1, "a100": 1}
        machine.control.write_text("lost=0")
        eventually(lambda: up(address) == {"l4": 0, "a100": 1})
        assert pools_with(address, "bakeoff_gpu_power_draw_watts") == {"a100"}
        machine.control.write_text("")
        eventually(lambda: up(address) == {"l4": 1, "a100": 1})
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_driver_that_starts_later_is_found(shim: Any, eventually: Wait) -> None:
    machine = shim("T4")
    machine.control.write_text("driver=0")
    with started([], machine.environment) as (_, address, line):
        assert "no GPU: the NVIDIA driver library is here, but the kernel driver is not loaded" in line
        assert up(address) == {}
        machine.control.write_text("")
        eventually(lambda: up(address) == {"t4": 1})


def up(address: str) -> dict[str, float]:
    return {s.labels["pool"]: s.value for s in fetch(address) if s.metric == "bakeoff_gpu_up"}


def pools_with(address: str, metric: str) -> set[str]:
    return {s.labels["pool"] for s in fetch(address) if s.metric == metric}
