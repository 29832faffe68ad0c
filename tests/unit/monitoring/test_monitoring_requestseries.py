"""Record in separate processes, as replicas do, and read the shared folder as the exporter does."""

import os
import signal
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bakeoff.errors import ServingError
from bakeoff.metrics import Outcome
from monitoring.replicas import forget_dead, living, mark_alive
from monitoring.requestcollector import RequestCollector
from monitoring.requestseries import ArmSeries
from monitoring.scrape import parse

PRELUDE = """
from bakeoff.metrics import Outcome
from monitoring.requestseries import ArmSeries
series = ArmSeries("m", "m-fp32-cpu", "fp32", "cpu", 0.123)
def good(seconds):
    series.accepted()
    series.finished(Outcome.OK, seconds, queue_s=0.001, execution_s=seconds - 0.001, items=2, gpu_uuid="GPU-1")
"""
WAIT = """
print("ready", flush=True)
input()
"""


def replica(folder: Path, code: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    command = [sys.executable, "-W", "error", "-c", PRELUDE + code]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_replica(folder: Path, code: str) -> None:
    with replica(folder, code) as process:
        process.communicate(timeout=60)
    assert process.returncode == 0


def served(folder: Path) -> dict[str, float]:
    """Return one scrape: values by name and the labels that tell series of one arm apart."""
    return {_key(s.metric, s.labels): s.value for s in parse(page(folder))}


def page(folder: Path) -> str:
    registry = CollectorRegistry()
    registry.register(RequestCollector(folder))
    return generate_latest(registry).decode()


def _key(metric: str, labels: object) -> str:
    assert isinstance(labels, dict)
    rest = [labels[name] for name in ("outcome", "gpu_uuid", "le") if name in labels]
    return ":".join([metric.removeprefix("bakeoff_inference_"), *rest])


def test_the_page_of_one_replica_is_the_golden(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    code = """
        good(0.02); good(0.5)
        series.accepted(); series.finished(Outcome.TIMEOUT, 9.0)
        series.accepted(); series.batch(2); series.batch(3); series.nonfinite(1); series.set_queue_depth(4)
        series.runs_on("GPU-1", exclusive=True)
    """
    with replica(tmp_path, textwrap.dedent(code) + WAIT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        text = page(tmp_path)
        process.communicate("\n", timeout=60)
    golden("exposition_requests.txt", text)


def test_counters_go_on_over_a_replicas_kill_and_restart(tmp_path: Path) -> None:
    with replica(tmp_path, "good(0.02); series.accepted(); series.set_queue_depth(7)" + WAIT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = served(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    killed = served(tmp_path)
    run_replica(tmp_path, "good(0.02); good(0.2)")
    restarted = served(tmp_path)
    totals = [page["requests_total:ok"] for page in (before, killed, restarted)]
    counts = [page["request_duration_seconds_count"] for page in (before, killed, restarted)]
    assert totals == counts == [1, 1, 3]
    assert (before["in_flight_requests"], before["queue_depth"]) == (1, 7)
    assert "in_flight_requests" not in killed
    assert "queue_depth" not in killed


def test_replicas_of_one_arm_are_summed(tmp_path: Path) -> None:
    with (
        replica(tmp_path, "series.set_queue_depth(2)" + WAIT) as first,
        replica(tmp_path, "series.set_queue_depth(3)" + WAIT) as second,
    ):
        for process in (first, second):
            assert process.stdout is not None
            process.stdout.readline()
        assert served(tmp_path)["queue_depth"] == 5
        assert living(tmp_path) == {first.pid, second.pid}
        for process in (first, second):
            process.communicate("\n", timeout=60)
    assert forget_dead(tmp_path) == {first.pid, second.pid}
    assert living(tmp_path) == frozenset()


def test_the_folder_must_be_set_before_the_library_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    with pytest.raises(ServingError, match="set the variable before the process starts"):
        ArmSeries("m", "a", "fp32", "cpu")


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> ArmSeries:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    return ArmSeries("m", "m-fp32-cpu", "fp32", "cpu", 0.123)


def values(series: ArmSeries) -> dict[str, float]:
    return {_key(s.metric, s.labels): s.value for s in parse(generate_latest(series.registry).decode())}


def test_every_outcome_is_served_from_the_start(series: ArmSeries) -> None:
    found = values(series)
    assert {outcome: found[f"requests_total:{outcome}"] for outcome in Outcome} == dict.fromkeys(Outcome, 0)


def test_the_slo_is_a_bound_and_a_duration_equal_to_it_is_within(series: ArmSeries) -> None:
    series.finished(Outcome.OK, 0.123)
    series.finished(Outcome.OK, 0.1231)
    found = values(series)
    assert found["request_duration_seconds_bucket:0.123"] == 1
    assert found["requests_within_slo_total"] == 1
    assert found["slo_seconds"] == 0.123


def test_a_duration_beyond_every_bound_is_counted(series: ArmSeries) -> None:
    series.finished(Outcome.OK, 100.0)
    found = values(series)
    assert (found["request_duration_seconds_bucket:60.0"], found["request_duration_seconds_bucket:+Inf"]) == (0, 1)
    assert found["request_duration_seconds_sum"] == 100


def test_what_did_not_succeed_enters_no_latency(series: ArmSeries) -> None:
    for outcome in Outcome:
        series.accepted()
        series.finished(outcome, 0.01, queue_s=0.001, execution_s=0.009, items=1)
    found = values(series)
    assert found["request_duration_seconds_count"] == 1
    assert found["queue_duration_seconds_count"] == 1
    assert found["items_total"] == 1
    assert found["in_flight_requests"] == 0


def test_an_arm_without_an_slo_serves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    series = ArmSeries("m", "a", "fp32", "cpu")
    series.finished(Outcome.OK, 0.001)
    assert not {"slo_seconds", "requests_within_slo_total"} & set(values(series))


def test_in_flight_requests_can_be_corrected(series: ArmSeries) -> None:
    series.accepted()
    series.set_in_flight(5)
    series.finished(Outcome.OK, 0.01)
    assert values(series)["in_flight_requests"] == 4


def test_batch_sizes_are_counted_up_to_their_bound(series: ArmSeries) -> None:
    series.batch(1)
    series.batch(3)
    found = values(series)
    assert [found[f"batch_size_bucket:{bound}"] for bound in ("1.0", "2.0", "4.0", "+Inf")] == [1, 1, 2, 2]
    assert found["batch_size_sum"] == 4


def test_no_created_series_is_served(series: ArmSeries) -> None:
    assert "_created" not in generate_latest(series.registry).decode()


@pytest.mark.parametrize("content", [b"", struct.pack("i", 64) + b"\x7f" * 60], ids=["empty", "garbage"])
def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    run_replica(tmp_path, "good(0.02)")
    (tmp_path / "counter_1.db").write_bytes(content)
    assert served(tmp_path)["requests_total:ok"] == 1
    assert "counter_1.db cannot be read" in caplog.text


def test_a_missing_folder_is_made_and_serves_nothing(tmp_path: Path) -> None:
    assert served(tmp_path / "new" / "series") == {}


def test_a_replica_lives_as_long_as_its_marker_is_open(tmp_path: Path) -> None:
    marker = mark_alive(tmp_path, 7)
    assert living(tmp_path) == {7}
    assert forget_dead(tmp_path) == frozenset()
    marker.close()
    assert living(tmp_path) == frozenset()
    assert forget_dead(tmp_path) == {7}
    assert not list(tmp_path.iterdir())


def test_a_marker_removed_before_it_was_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    real, calls = fcntl.flock, []

    def remove_first(marker: int, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            (tmp_path / "replica_7.alive").unlink()
        real(marker, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with mark_alive(tmp_path, 7):
        assert living(tmp_path) == {7}


def test_a_series_carries_its_arm(tmp_path: Path) -> None:
    run_replica(tmp_path, "good(0.02)")
    [sample] = [s for s in parse(page(tmp_path)) if s.metric == "bakeoff_inference_items_total"]
    assert sample.labels == {"model": "m", "arm": "m-fp32-cpu", "precision": "fp32", "pool": "cpu"}
