import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from models import accuracy


def one_hot(classes: list[int], n: int = 4) -> np.ndarray:
    return np.eye(n)[classes]


def test_top1_counts_rows_whose_largest_value_is_at_the_label() -> None:
    assert accuracy.top1(one_hot([0, 1, 2, 3]), np.array([0, 1, 2, 0])) == 0.75


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_wrong(bad: float) -> None:
    outputs = one_hot([0, 1])
    outputs[0, 0] = bad
    assert accuracy.correct(outputs, np.array([0, 1])).tolist() == [False, True]


def test_agreement_needs_no_labels() -> None:
    assert accuracy.agreement(one_hot([0, 1, 2, 3]), one_hot([0, 1, 3, 2])) == 0.5


def test_cosine_is_one_for_scaled_and_zero_for_orthogonal_rows() -> None:
    a = np.array([[1.0, 2.0], [1.0, 0.0]])
    b = np.array([[10.0, 20.0], [0.0, 1.0]])
    assert accuracy.mean_cosine(a, b) == pytest.approx(0.5)


def test_a_row_of_zeros_has_cosine_zero_rather_than_nan() -> None:
    assert accuracy.mean_cosine(np.zeros((1, 3)), np.ones((1, 3))) == 0.0


def test_the_ratio_to_a_reference_that_got_nothing_right_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing right"):
        accuracy.ratio(np.array([True]), np.array([False]))


def test_sets_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="found 1 and 2"):
        accuracy.agreement(one_hot([0]), one_hot([0, 1]))


@given(flags=st.lists(st.booleans(), min_size=1, max_size=50).filter(any), seed=st.integers(0, 99))
def test_an_arm_equal_to_its_reference_has_a_bound_of_exactly_one(flags: list[bool], seed: int) -> None:
    both = np.array(flags)
    assert accuracy.ratio_lower95(both, both, resamples=200, seed=seed) == 1.0


@pytest.mark.parametrize(("right", "n"), [(190, 200), (50, 100), (970, 1000)])
def test_with_a_perfect_reference_the_bound_is_the_binomial_quantile(right: int, n: int) -> None:
    arm = np.arange(n) < right
    expected = binom.ppf(0.05, n, right / n) / n
    assert accuracy.ratio_lower95(arm, np.ones(n, dtype=bool)) == pytest.approx(expected, abs=1.01 / n)


def test_views_that_stand_and_fall_together_widen_the_bound_as_if_each_group_were_one_input() -> None:
    groups = np.repeat(np.arange(20), 10)
    arm = groups < 18
    reference = np.ones(200, dtype=bool)
    alone = accuracy.ratio_lower95(np.arange(20) < 18, np.ones(20, dtype=bool))
    assert accuracy.ratio_lower95(arm, reference, groups) == alone
    assert accuracy.ratio_lower95(arm, reference) > alone


def test_the_same_seed_gives_the_same_bound() -> None:
    rng = np.random.default_rng(3)
    arm, reference = rng.random(100) < 0.8, rng.random(100) < 0.9
    assert accuracy.ratio_lower95(arm, reference, seed=5) == accuracy.ratio_lower95(arm, reference, seed=5)
