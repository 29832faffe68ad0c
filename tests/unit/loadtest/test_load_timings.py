"""Timings count every scheduled request and follow numpy's inverted_cdf on hand-made samples."""

import pandas as pd

from bakeoff.metrics import Outcome
from loadtest import timings


def frame(rows):
    table = pd.DataFrame(rows, columns=["due_ns", "sent_ns", "done_ns", "outcome"])
    return table.astype({"due_ns": "int64", "sent_ns": "Int64", "done_ns": "Int64", "outcome": "string"})


MIXED = frame(
    [
        (0, 1_000_000, 100_000_000, "ok"),
        (0, 2_000_000, 200_000_000, "ok"),
        (0, 3_000_000, 50_000_000, "rejected"),
        (0, None, None, "timeout"),
    ]
)


def test_requests_without_a_good_answer_are_infinitely_late():
    assert timings.latencies_s(MIXED).tolist() == [0.1, 0.2, float("inf"), float("inf")]


def test_a_quantile_that_falls_on_an_unanswered_request_is_absent():
    quantiles = timings.latency_quantiles_s(MIXED)
    assert quantiles["p50"] == 0.2
    assert quantiles["p90"] is None


def test_quantiles_are_observed_values():
    assert [timings.quantile([4.0, 1.0, 3.0, 2.0], q) for q in (0.25, 0.26, 0.75, 0.99)] == [1, 2, 3, 4]
    assert timings.quantile([], 0.5) is None


def test_outcomes_are_counted():
    assert timings.outcomes(MIXED) == {Outcome.OK: 2, Outcome.REJECTED: 1, Outcome.TIMEOUT: 1}


def test_send_lag_and_rate_ignore_what_was_not_sent():
    assert timings.send_lags_s([0, 0, 0], [1_000_000, 2_000_000, None]).tolist() == [0.001, 0.002]
    assert timings.achieved_rate_per_s([10, 20, None], 0, 2.0) == 1.0
    assert timings.achieved_rate_per_s([None], 0, 1.0) == 0


def test_a_late_last_send_lowers_the_achieved_rate():
    assert timings.achieved_rate_per_s([0, 4_000_000_000], 0, 2.0) == 0.5
