import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest import wording
from loadtest.reasons import Finding, Reason


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.5, "1,230"),
        (30.44, "30.4"),
        (9.999, "10.0"),
        (0.012345, "0.0123"),
        (0, "0"),
        (None, "n/a"),
        (math.inf, "n/a"),
        (-2.5, "-2.50"),
    ],
)
def test_numbers_are_shown_with_three_significant_digits(value: float | None, text: str) -> None:
    assert wording.significant(value) == text


@given(st.floats(1e-6, 1e9))
def test_rounding_for_show_is_off_by_at_most_half_a_unit_of_the_third_digit(value: float) -> None:
    assert float(wording.significant(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.79, 0.81, "0.800 [0.790, 0.810]"), (0.6, 1.0, "0.80 [0.60, 1.00]"), (0.7999, 0.8001, "0.8000 [0.7999, 0.8001]")],
)
def test_a_ratio_is_shown_no_more_precisely_than_its_interval_allows(low: float, high: float, text: str) -> None:
    assert wording.interval(0.8, low, high) == text


def test_a_claim_names_winner_loser_size_and_interval() -> None:
    text = wording.claim("latency_p99", "x", "y", 0.8, 0.75, 0.85, 0.95)
    assert text == "x is better: its p99 latency is 20% lower than that of y (95% interval: 15% to 25% lower)."


def test_an_open_question_names_the_blocks_that_would_settle_it_or_says_that_none_would() -> None:
    assert "about 1 more block would" in wording.indecision("latency_p90", "x", "y", 6, 7)
    assert "about 14 more blocks would" in wording.indecision("latency_p90", "x", "y", 6, 20)
    assert "no practical number of blocks" in wording.indecision("latency_p90", "x", "y", 6, None)


def test_an_invalid_comparison_names_each_reason_once_and_no_winner() -> None:
    findings = [Finding(reason=r, detail="") for r in (Reason.SEND_LAG, Reason.ERRORS, Reason.SEND_LAG)]
    assert wording.invalidity(findings) == "This comparison does not count: ERRORS, SEND_LAG. No arm is named better."
