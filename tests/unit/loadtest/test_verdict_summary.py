import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.experiment import Slo
from loadtest.plan import RunSpec
from loadtest.summary import backlog_growth, percentile, percentiles, run_figures, with_latency

MS = 1_000_000
SPEC = RunSpec(run=0, arm="x", block=0, position=0, seed=1, rate_per_s=100, run_s=1, timeout_s=1)


def rows_of(latencies_ms: Sequence[float | None], gap_ms: float = 10, **columns: Any) -> pd.DataFrame:
    """Return requests every `gap_ms`; a latency of None is a request that timed out unanswered."""
    due = [int(i * gap_ms * MS) for i in range(len(latencies_ms))]
    done = [None if x is None else t + int(x * MS) for t, x in zip(due, latencies_ms, strict=True)]
    frame = pd.DataFrame(
        {
            "due_ns": pd.array(due, dtype="Int64"),
            "sent_ns": pd.array(due, dtype="Int64"),
            "first_ns": pd.array(done, dtype="Int64"),
            "done_ns": pd.array(done, dtype="Int64"),
            "outcome": ["ok" if x is not None else "timeout" for x in latencies_ms],
            "items": 1,
            "batch_size": pd.array([1] * len(due), dtype="Int64"),
            "queue_ns": pd.array([MS] * len(due), dtype="Int64"),
            "execution_ns": pd.array([2 * MS] * len(due), dtype="Int64"),
            "served_by": "x",
            "gpu_uuid": pd.array([None] * len(due), dtype="string"),
        }
    )
    return frame.assign(**columns)


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_a_latency_that_was_seen_and_that_enough_requests_do_not_exceed(
    latency: list[float], share: float
) -> None:
    value = percentile(np.array(latency), share)
    assert value in latency
    assert np.mean(np.array(latency) <= value) >= share - 1e-12
    assert np.mean(np.array(latency) < value) < share


@given(st.lists(st.floats(0.001, 10), min_size=50, max_size=100), st.integers(0, 49))
def test_a_failure_never_improves_a_percentile(latency: list[float], failed: int) -> None:
    values = np.array(latency)
    worse = values.copy()
    worse[failed] = math.inf
    assert percentile(worse, 0.9) >= percentile(values, 0.9)


def test_percentiles_appear_only_when_the_requests_suffice() -> None:
    def found(n: int) -> set[str]:
        return {metric for metric, value in percentiles(np.full(n, 0.01)).items() if value is not None}

    assert found(6) == set()
    assert found(43) == {"latency_p50"}
    assert found(44) == {"latency_p50", "latency_p90"}
    assert found(459) == {"latency_p50", "latency_p90", "latency_p99"}


def test_a_percentile_that_falls_on_an_unanswered_request_is_absent_not_a_number() -> None:
    figures = run_figures(SPEC, with_latency(rows_of([10.0] * 80 + [None] * 20), None), None)
    assert figures.latency_s == {"latency_p99": None, "latency_p90": None, "latency_p50": 0.010}
    assert (figures.ok, figures.failed, figures.timeouts) == (80, 20, 20)


def test_latency_runs_from_the_due_time_not_from_the_sent_time() -> None:
    late = rows_of([30.0] * 50)
    late = late.assign(sent_ns=late["sent_ns"] + 25 * MS)
    figures = run_figures(SPEC, with_latency(late, None), None)
    assert figures.latency_s["latency_p50"] == pytest.approx(0.030)
    assert figures.send_lag_p99_s == pytest.approx(0.025)


def test_goodput_counts_answers_within_the_slo_and_nothing_else() -> None:
    rows = with_latency(rows_of([10.0] * 60 + [300.0] * 30 + [None] * 10), Slo(model="m", latency_s=0.2))
    figures = run_figures(SPEC, rows, Slo(model="m", latency_s=0.2))
    assert figures.rate_per_s == pytest.approx(90)
    assert figures.goodput_per_s == pytest.approx(60)


def test_a_first_byte_after_its_target_is_no_good_answer() -> None:
    rows = rows_of([100.0] * 10)
    rows = rows.assign(first_ns=[t + (50 if i % 2 else 5) * MS for i, t in enumerate(rows["due_ns"])])
    assert with_latency(rows, Slo(model="m", ttft_s=0.02))["good"].tolist() == [True, False] * 5


def test_a_target_between_tokens_leaves_goodput_unknown() -> None:
    slo = Slo(model="m", itl_s=0.02)
    assert run_figures(SPEC, with_latency(rows_of([10.0] * 50), slo), slo).goodput_per_s is None


def test_answers_that_name_another_arm_are_counted() -> None:
    rows = with_latency(rows_of([1.0] * 4, served_by=["x", "y", None, "x"]), None)
    assert run_figures(SPEC, rows, None).wrong_arm == 2


def test_a_steady_run_has_no_backlog_growth() -> None:
    assert backlog_growth(rows_of([25.0] * 400)) == pytest.approx(0, abs=0.2)


def test_a_server_ten_percent_too_slow_leaves_a_tenth_of_the_arrivals_in_flight() -> None:
    rows = rows_of([i * 10 / 9 for i in range(900)])  # each answer 11.1 ms after the one before, one due every 10 ms
    assert backlog_growth(rows) == pytest.approx(0.1 * 450, rel=0.1)


def test_too_few_requests_tell_nothing_of_a_backlog() -> None:
    assert backlog_growth(rows_of([1.0] * 5)) is None
