import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from loadtest.intervals import Estimate, block_log_ratios, blocks_needed, equivalence_p, estimate, noise_floor, sign_flip_p
from loadtest.verdict import Outcome, judge

MARGIN = math.log(1.05)
ORDER = ("a", "b", "b", "a")
positive = st.floats(0.001, 10)


def runs(
    ratio: float, blocks: int, rng: np.random.Generator, *, noise: float = 0.0, drift: float = 0.0
) -> dict[tuple[int, int], float]:
    """Return latencies around 50 ms: arm b is `ratio` times arm a, and the logarithm drifts linearly by `drift` over all runs."""
    places = list(itertools.product(range(blocks), range(4)))
    slope = drift / (len(places) - 1)
    return {
        (k, p): 0.05 * (ratio if ORDER[p] == "b" else 1) * math.exp(noise * rng.standard_normal() + slope * i)
        for i, (k, p) in enumerate(places)
    }


def outcome_of(latencies: dict[tuple[int, int], float]) -> Outcome:
    logs = list(block_log_ratios(latencies).values())
    found = estimate(logs, 0.05)
    return judge(found, MARGIN, 0.05, sign_flip_p(logs), equivalence_p(found, MARGIN))


@given(positive, positive)
def test_a_block_of_constant_arms_gives_the_log_of_their_ratio(a: float, b: float) -> None:
    found = block_log_ratios({(0, 0): a, (0, 1): b, (0, 2): b, (0, 3): a})
    assert found[0] == pytest.approx(math.log(b / a))


@given(st.floats(-1, 1), st.floats(0.5, 2))
def test_linear_drift_cancels_in_every_block(drift: float, ratio: float) -> None:
    found = block_log_ratios(runs(ratio, 6, np.random.default_rng(0), drift=drift))
    assert list(found.values()) == pytest.approx([math.log(ratio)] * 6, abs=1e-9)


def test_incomplete_blocks_are_left_out() -> None:
    assert list(block_log_ratios({(0, 0): 1.0, (0, 1): 1.0, (1, 0): 1.0, (1, 1): 2.0, (1, 2): 2.0, (1, 3): 1.0})) == [1]


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=12).filter(lambda x: np.std(x) > 1e-3))
def test_the_interval_is_scipys_t_interval(logs: list[float]) -> None:
    found = estimate(logs, 0.05)
    expected = ttest_1samp(logs, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_one_block_gives_no_interval() -> None:
    with pytest.raises(ValueError, match="at least 2 blocks"):
        estimate([0.1], 0.05)


def test_the_interval_covers_the_truth_in_about_95_of_100_comparisons() -> None:
    rng = np.random.default_rng(1)
    truth = math.log(0.9)
    covered = 0
    for _ in range(1000):
        found = estimate(list(block_log_ratios(runs(0.9, 6, rng, noise=0.05)).values()), 0.05)
        covered += found.low <= truth <= found.high
    assert 0.93 <= covered / 1000 <= 0.97


@given(st.lists(st.integers(-64, 64), min_size=2, max_size=6))
def test_the_sign_flip_p_value_is_the_share_of_flips_at_least_as_extreme(steps: list[int]) -> None:
    logs = [step / 64 for step in steps]
    flips = [abs(sum(s * x for s, x in zip(signs, logs, strict=True))) for signs in itertools.product((1, -1), repeat=len(logs))]
    expected = np.mean([f >= abs(sum(logs)) - 1e-9 for f in flips])
    assert sign_flip_p(logs) == pytest.approx(expected, abs=1e-9)


def test_six_blocks_of_one_sign_reach_a_p_value_of_one_in_32() -> None:
    assert sign_flip_p([0.1, 0.2, 0.3, 0.1, 0.2, 0.3]) == pytest.approx(1 / 32)


def test_equivalence_is_the_larger_of_two_one_sided_t_tests() -> None:
    logs = [0.01, -0.02, 0.015, 0.0, 0.005, -0.01]
    lower = ttest_1samp(logs, -MARGIN, alternative="greater").pvalue
    upper = ttest_1samp(logs, MARGIN, alternative="less").pvalue
    assert equivalence_p(estimate(logs, 0.05), MARGIN) == pytest.approx(max(lower, upper))


def test_blocks_without_spread_are_judged_by_their_mean() -> None:
    assert equivalence_p(estimate([0.0] * 6, 0.05), MARGIN) == 0
    assert equivalence_p(estimate([0.2] * 6, 0.05), MARGIN) == 1


def test_the_noise_floor_is_the_largest_a_a_ratio_of_either_sign() -> None:
    assert noise_floor([0.02, -0.07]) == 0.07
    assert noise_floor([]) is None


def test_identical_arms_are_hardly_ever_told_apart() -> None:
    rng = np.random.default_rng(2)
    named = sum(outcome_of(runs(1.0, 6, rng, noise=0.05)) in {Outcome.A_BETTER, Outcome.B_BETTER} for _ in range(400))
    assert named <= 0.05 * 400
    assert named <= 2


def test_arms_at_the_smallest_effect_are_told_apart_in_at_most_alpha_of_cases() -> None:
    rng = np.random.default_rng(3)
    named = sum(outcome_of(runs(1 / 1.05, 6, rng, noise=0.05)) is Outcome.B_BETTER for _ in range(400))
    assert named <= 0.05 * 400


def test_drift_alone_names_no_winner() -> None:
    rng = np.random.default_rng(4)
    assert {outcome_of(runs(1.0, 6, rng, noise=0.002, drift=0.5)) for _ in range(20)} == {Outcome.EQUIVALENT}


@pytest.mark.parametrize(("ratio", "outcome"), [(0.8, Outcome.B_BETTER), (1.25, Outcome.A_BETTER)])
def test_a_difference_of_a_fifth_is_found(ratio: float, outcome: Outcome) -> None:
    rng = np.random.default_rng(5)
    assert {outcome_of(runs(ratio, 6, rng, noise=0.03)) for _ in range(50)} == {outcome}


def test_a_real_difference_below_the_smallest_effect_is_no_win() -> None:
    assert outcome_of(runs(0.97, 6, np.random.default_rng(6), noise=0.003)) is Outcome.EQUIVALENT


def test_a_difference_inside_the_a_a_floor_is_no_win() -> None:
    found = Estimate(-0.10, -0.11, -0.09, 0.01, 6)
    assert judge(found, MARGIN, 0.05, 1 / 32, 1.0) is Outcome.B_BETTER
    assert judge(found, 0.12, 0.05, 1 / 32, 1.0) is Outcome.INCONCLUSIVE


def test_a_claim_needs_the_sign_flip_test_to_agree() -> None:
    assert judge(Estimate(-0.3, -0.31, -0.29, 0.001, 2), MARGIN, 0.05, 0.5, 1.0) is Outcome.INCONCLUSIVE


@settings(deadline=None, max_examples=20)
@given(st.floats(0.0, 0.2), st.floats(0.005, 0.2))
def test_more_spread_never_needs_fewer_blocks(mean: float, deviation: float) -> None:
    one = blocks_needed(Estimate(mean, 0, 0, deviation, 6), MARGIN, MARGIN, 0.05)
    two = blocks_needed(Estimate(mean, 0, 0, 2 * deviation, 6), MARGIN, MARGIN, 0.05)
    assert two is None or (one is not None and one <= two)


def test_the_blocks_named_decide_in_about_four_of_five_repetitions() -> None:
    ratio, noise = 0.84, 0.08
    spread = noise  # the difference of two means of two runs has the spread of one run
    needed = blocks_needed(Estimate(math.log(ratio), 0, 0, spread, 6), MARGIN, MARGIN, 0.05)
    assert needed is not None
    rng = np.random.default_rng(7)
    decided = np.mean([outcome_of(runs(ratio, needed, rng, noise=noise)) is Outcome.B_BETTER for _ in range(100)])
    assert 0.7 <= decided <= 0.92


def test_a_mean_on_the_threshold_is_never_decided() -> None:
    assert blocks_needed(Estimate(-MARGIN, 0, 0, 0.05, 6), MARGIN, MARGIN, 0.05) is None
