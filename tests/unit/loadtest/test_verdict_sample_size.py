import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.sample_size import required_samples


@pytest.mark.parametrize(("over", "needed"), [(0, 459), (1, 662), (10, 2010)])
def test_a_p99_claim_needs_the_early_stopping_counts_of_loadgen(over: int, needed: int) -> None:
    assert required_samples(0.99, 0.99, over) == needed


def test_a_p90_claim_needs_44_requests() -> None:
    assert 0.9**44 <= 0.01 < 0.9**43
    assert required_samples(0.90, 0.99) == 44


@given(st.floats(0.3, 0.995), st.integers(0, 5))
def test_each_request_over_the_limit_costs_more_requests(percentile: float, over: int) -> None:
    assert required_samples(percentile, 0.99, over) < required_samples(percentile, 0.99, over + 1)


@pytest.mark.parametrize(("percentile", "confidence", "over"), [(1.0, 0.99, 0), (0.9, 0.0, 0), (0.9, 0.99, -1)])
def test_impossible_claims_are_refused(percentile: float, confidence: float, over: int) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        required_samples(percentile, confidence, over)
