"""The cut points share the buckets as the weights say."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.split import BUCKETS, arm_of, cut_points

weights = st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.floats(0, 1000), min_size=1, max_size=8).filter(
    lambda w: sum(w.values()) > 1e-3
)


@given(weights)
def test_shares_follow_the_weights_to_one_bucket(given_weights):
    cuts = cut_points(given_weights)
    shares = Counter(arm_of(bucket, cuts) for bucket in range(BUCKETS))
    total = sum(given_weights.values())
    for arm, weight in given_weights.items():
        assert abs(shares[arm] - BUCKETS * weight / total) <= 1


@given(weights)
def test_every_bucket_has_an_arm_and_no_arm_of_weight_zero_gets_any(given_weights):
    cuts = cut_points(given_weights)
    assert max(cuts.values()) == BUCKETS
    assert all(given_weights[arm_of(b, cuts)] > 0 for b in range(0, BUCKETS, 97))


def test_moving_weight_between_two_arms_moves_only_the_keys_between_the_cuts():
    before, after = cut_points({"a": 50, "b": 50}), cut_points({"a": 60, "b": 40})
    moved = [b for b in range(BUCKETS) if arm_of(b, before) != arm_of(b, after)]
    assert moved == list(range(5000, 6000))


@pytest.mark.parametrize("bad", [{"a": 0.0}, {"a": -1.0, "b": 2.0}])
def test_weights_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match="weights"):
        cut_points(bad)
