"""One command's worth of load: any server, raw requests kept, a summary that counts everything."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bakeoff.errors import LoadError
from bakeoff.metrics import Outcome
from loadtest.calibration import calibrate
from loadtest.generator import Generator
from loadtest.job import Payload
from loadtest.load import LoadOptions, LoadSummary, load_spec, run_load
from loadtest.metadata import ModelMetadata, Tensor
from loadtest.nullserver import NullServer
from loadtest.records import read
from loadtest.schedule import poisson

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def server():
    with NullServer(0.002, grpc=True) as server:
        yield server


def test_an_open_load_is_summed_up_and_kept(tmp_path, server):
    options = LoadOptions(server.base_url, "m", rate_per_s=50, duration_s=1, slo_s=1.0, seed=3)
    summary = run_load(options, tmp_path)
    assert summary.requests == len(poisson(50, 1, 3)) == len(read(tmp_path / "requests.parquet"))
    assert summary.outcomes == {Outcome.OK: summary.requests}
    assert summary.goodput_per_s == summary.throughput_per_s == summary.requests
    assert 0.002 <= summary.latency_s["p50"] <= summary.latency_s["p99.9"] < 1
    assert LoadSummary.model_validate_json((tmp_path / "load.json").read_text()) == summary
    assert sorted(p.name for p in tmp_path.iterdir()) == ["load.json", "requests.parquet"]


def test_a_closed_load_over_grpc_is_labelled_closed(tmp_path, server):
    options = LoadOptions(
        server.base_url, "m", concurrency=2, duration_s=0.5, protocol="grpc", grpc_url=server.grpc_url, workers=2
    )
    summary = run_load(options, tmp_path)
    assert (summary.kind, summary.concurrency, summary.rate_per_s, summary.send_lag_p99_s) == ("closed", 2, None, None)
    assert summary.requests > 10
    assert summary.goodput_per_s is None


def test_failures_stay_in_the_denominator(tmp_path):
    with NullServer(0.1) as slow:
        summary = run_load(LoadOptions(slow.base_url, "m", rate_per_s=50, duration_s=1, timeout_s=0.4, slo_s=0.3), tmp_path)
    assert summary.outcomes[Outcome.TIMEOUT] > summary.outcomes[Outcome.OK]
    assert sum(summary.outcomes.values()) == summary.requests
    assert summary.goodput_per_s < summary.throughput_per_s < summary.requests
    assert summary.latency_s["p90"] is None


@pytest.mark.parametrize("options", [{}, {"rate_per_s": 1.0, "concurrency": 1}])
def test_a_load_is_either_open_or_closed(options):
    with pytest.raises(LoadError, match="either how many requests a second"):
        load_spec(LoadOptions("http://h", "m", **options))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_calibration_measures_the_generator_with_the_models_own_payload(protocol):
    image = ModelMetadata(
        name="m",
        inputs=(Tensor(name="image", datatype="UINT8", shape=(-1, 3, 32, 32)),),
        outputs=(Tensor(name="logits", datatype="FP32", shape=(-1, 10)),),
    )
    spec = load_spec(LoadOptions("", "m", rate_per_s=20, duration_s=60, protocol=protocol))
    with NullServer(0.5, metadata=image) as slow, Generator(slow.base_url, payload=Payload(items=2)) as generator:
        found = calibrate(generator, spec, slo_s=0.1, capacity_s=0.5, lag_s=0.5)
    assert (found.protocol, found.rate_per_s, found.send_lag_limit_s) == (protocol, 20, 0.002)
    assert found.capacity_per_s > 60
    assert not found.saturated
    assert found.late == (found.send_lag_p99_s > 0.002)


def test_the_locustfile_sends_the_schedule_under_locusts_own_command(tmp_path, server):
    rows = tmp_path / "rows.parquet"
    command = [sys.executable, "-m", "locust", "-f", str(ROOT / "loadtest/locustfile.py"), "--headless", "--users", "1"]
    command += ["--host", server.base_url, "--model", "m", "--rate", "40", "--length", "1", "--seed", "5"]
    command += ["--rows", str(rows), "--json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    frame = read(rows)
    assert len(frame) == len(poisson(40, 1, 5))
    [page] = json.loads(ended.stdout)
    assert (page["name"], page["num_requests"]) == ("m", len(frame))
    longest_ms = ((frame["done_ns"] - frame["due_ns"]) / 1e6).max()
    assert page["max_response_time"] == pytest.approx(longest_ms, abs=0.01)


@pytest.mark.parametrize("module", ["loadtest.generator", "loadtest.load", "loadtest.calibration"])
def test_the_parents_side_leaves_its_process_unpatched(module):
    code = f"import sys, {module}; print(sorted({{'gevent', 'locust', 'grpc', 'pandas', 'tritonclient'}} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "[]\n"
