"""The generator sends exactly the schedule, whole over its workers, and says what happened to each request."""

import os
import signal
import threading

import numpy as np
import pytest

from bakeoff.errors import LoadError
from bakeoff.metrics import Outcome
from loadtest.generator import Generator
from loadtest.job import Payload
from loadtest.nullserver import NullServer
from loadtest.plan import RunSpec
from loadtest.schedule import poisson


def spec(**changes):
    return RunSpec(
        **({"run": 2, "arm": "m", "block": 1, "position": 3, "seed": 9, "rate_per_s": 100, "run_s": 1, "timeout_s": 5} | changes)
    )


@pytest.fixture(scope="module")
def server():
    with NullServer(0.001) as server:
        yield server


@pytest.fixture(scope="module", params=[1, 2])
def generator(request, server):
    with Generator(server.base_url, workers=request.param, payload=Payload(items=3)) as generator:
        yield generator


def test_every_scheduled_request_has_one_row_at_its_due_time(generator):
    result = generator.run(spec())
    assert result.frame["seq"].tolist() == list(range(len(result.frame)))
    assert np.array_equal(result.frame["due_ns"] - result.started_unix_ns, poisson(100, 1, 9))
    assert result.outcomes == {Outcome.OK: len(result.frame)}


def test_rows_name_the_run_and_the_items(generator):
    frame = generator.run(spec(run_s=0.3)).frame
    assert frame[["run", "arm", "block", "items"]].drop_duplicates().to_numpy().tolist() == [[2, "m", 1, 3]]
    assert set(frame["served_by"]) == {"m"}


def test_runs_follow_each_other_and_do_not_overlap(generator):
    first, second = generator.run(spec(run_s=0.3)), generator.run(spec(run_s=0.3))
    assert first.finished_unix_ns < second.started_unix_ns
    assert first.rows != second.rows
    assert len(first.frame) == len(second.frame)


def test_the_sent_rate_and_lag_are_reported(generator):
    result = generator.run(spec())
    assert result.achieved_rate_per_s == pytest.approx(len(result.frame), rel=0.05)
    assert 0 <= result.send_lag_p50_s <= result.send_lag_p99_s < 0.5


def test_a_closed_loop_keeps_its_concurrency_in_flight(generator):
    result = generator.run(spec(kind="closed", concurrency=5, run_s=0.5))
    frame = result.frame
    events = sorted([(t, 1) for t in frame["sent_ns"]] + [(t, -1) for t in frame["done_ns"]])
    assert max(np.cumsum([step for _, step in events])) == 5
    assert frame["seq"].is_unique
    assert result.send_lag_p99_s is None
    assert frame["due_ns"].max() < result.started_unix_ns + 500_000_000


def test_a_closed_loop_against_one_server_is_limited_by_its_service_time(generator):
    """A single server of 1 ms answers at most 1,000 a second, however many wait."""
    result = generator.run(spec(kind="closed", concurrency=8, run_s=1))
    assert 300 < len(result.frame) <= 1010


def test_requests_beyond_the_timeout_are_timeouts_and_stay_in_the_denominator(server):
    with NullServer(0.05) as slow, Generator(slow.base_url) as generator:
        frame = generator.run(spec(timeout_s=0.5)).frame
    assert len(frame) == len(poisson(100, 1, 9))
    assert set(frame["outcome"]) == {Outcome.OK, Outcome.TIMEOUT}
    late = frame[frame["outcome"] == Outcome.TIMEOUT]
    assert set(late["error"]) == {"no answer within the client's timeout"}


def test_the_death_of_a_generator_process_is_reported(server):
    with Generator(server.base_url) as generator:
        generator.run(spec(run_s=0.1))
        os.kill(generator.pids[0], signal.SIGKILL)
        with pytest.raises(LoadError, match="ended with exit code -9"):
            generator.run(spec())


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_server_that_dies_during_the_run_is_an_error_of_every_later_request(protocol):
    with NullServer(0.001, grpc=True) as server, Generator(server.base_url, server.grpc_url) as generator:
        generator.run(spec(protocol=protocol, run_s=0.1))
        killer = threading.Timer(2.0, os.kill, (server.pid, signal.SIGKILL))
        killer.start()
        frame = generator.run(spec(protocol=protocol, run_s=5, rate_per_s=50)).frame
        killer.join()
    ends = frame["outcome"].tolist()
    assert set(ends) == {Outcome.OK, Outcome.ERROR}
    assert ends[-50:] == [Outcome.ERROR] * 50
    assert frame.loc[frame["outcome"] == Outcome.ERROR, "status"].isna().all()
    assert frame["done_ns"].notna().all()


def test_a_server_that_is_not_there_is_reported():
    with (
        Generator("http://127.0.0.1:9") as generator,
        pytest.raises(LoadError, match="cannot reach http://127.0.0.1:9/v2/models/m"),
    ):
        generator.run(spec())


def test_a_generator_outside_its_with_statement_is_refused(server):
    with pytest.raises(LoadError, match="with statement"):
        Generator(server.base_url).run(spec())


def test_stored_inputs_are_sent(tmp_path, server):
    np.savez(tmp_path / "inputs.npz", wrong=np.zeros((2, 4), np.float32))
    with (
        Generator(server.base_url, payload=Payload(inputs=tmp_path / "inputs.npz")) as generator,
        pytest.raises(LoadError, match="lacks an input of m"),
    ):
        generator.run(spec())


def test_rows_stay_in_a_folder_of_choice(tmp_path, server):
    with Generator(server.base_url, folder=tmp_path / "rows") as generator:
        result = generator.run(spec(run_s=0.2))
    assert list((tmp_path / "rows").iterdir()) == [result.rows]
    assert len(result.frame) == len(poisson(100, 0.2, 9))
