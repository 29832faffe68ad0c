"""Compare two arms over A B B A blocks: log ratios, a t interval, a sign-flip test and two one-sided tests.

The run is the unit: requests within a run are correlated, so an interval over requests would be far too narrow. Each
block gives one number, the difference of the mean logarithms of its two B runs and its two A runs; a drift that is
linear in time adds the same to both means and cancels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

A_POSITIONS = (0, 3)
B_POSITIONS = (1, 2)
FEWEST_BLOCKS = 2
MOST_BLOCKS = 10_000
"""Blocks beyond which no further amount is worth naming."""
POWER = 0.8
RESAMPLES = 100_000
"""Sign flips drawn at random once there are more than this many to enumerate."""


@dataclass(frozen=True)
class Estimate:
    """Hold the mean of the blocks' log ratios B over A, its t interval, and its spread between blocks."""

    mean: float
    low: float
    high: float
    deviation: float
    """Standard deviation between blocks."""
    blocks: int

    @property
    def standard_error(self) -> float:
        """Return the standard error of the mean."""
        return self.deviation / math.sqrt(self.blocks)


def block_log_ratios(values: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """Return ln(B/A) of each complete block; `values` holds a positive figure by block and position in A B B A."""
    blocks = sorted({block for block, _ in values})
    complete = [k for k in blocks if all((k, p) in values for p in range(4))]
    return {k: _mean_log(values, k, B_POSITIONS) - _mean_log(values, k, A_POSITIONS) for k in complete}


def _mean_log(values: Mapping[tuple[int, int], float], block: int, positions: Sequence[int]) -> float:
    return float(np.mean([math.log(values[block, p]) for p in positions]))


def estimate(log_ratios: Sequence[float], alpha: float) -> Estimate:
    """Return the mean of at least two log ratios with its two-sided 1 - alpha t interval."""
    from scipy.stats import t

    if len(log_ratios) < FEWEST_BLOCKS:
        raise ValueError(f"an interval needs at least {FEWEST_BLOCKS} blocks, found {len(log_ratios)}")
    x = np.asarray(log_ratios, dtype=float)
    mean, deviation = float(x.mean()), float(x.std(ddof=1))
    half = float(t.ppf(1 - alpha / 2, len(x) - 1)) * deviation / math.sqrt(len(x))
    return Estimate(mean, mean - half, mean + half, deviation, len(x))


def sign_flip_p(log_ratios: Sequence[float]) -> float:
    """Return the two-sided p value of the sign-flip permutation test that the log ratios are symmetric about 0.

    All 2^n flips are enumerated up to RESAMPLES of them; beyond that, RESAMPLES are drawn from a fixed seed.
    """
    from scipy.stats import permutation_test

    x = np.asarray(log_ratios, dtype=float)
    result = permutation_test((x,), np.mean, permutation_type="samples", n_resamples=RESAMPLES, rng=np.random.default_rng(0))
    return min(1.0, float(result.pvalue))


def equivalence_p(found: Estimate, margin: float) -> float:
    """Return the p value of two one-sided t tests that the true log ratio lies within +- margin (TOST)."""
    from scipy.stats import t

    if found.standard_error == 0:
        return 0.0 if abs(found.mean) < margin else 1.0
    return float(t.sf((margin - abs(found.mean)) / found.standard_error, found.blocks - 1))


def noise_floor(aa_log_ratios: Sequence[float]) -> float | None:
    """Return the largest log ratio, in size, that A/A blocks showed; None without such blocks."""
    return max((abs(x) for x in aa_log_ratios), default=None)


def blocks_needed(found: Estimate, margin: float, threshold: float, alpha: float) -> int | None:
    """Return the fewest blocks that would decide with probability POWER, were mean and spread those found; None above MOST_BLOCKS.

    A mean beyond `threshold` is decided by an interval that clears it, any other by equivalence within `margin`.
    """
    from scipy.stats import t

    beyond = abs(found.mean) > threshold
    distance = abs(found.mean) - threshold if beyond else margin - abs(found.mean)
    if distance <= 0:
        return None
    n = np.arange(FEWEST_BLOCKS, MOST_BLOCKS + 1)
    quantile = 1 - alpha / 2 if beyond else 1 - alpha
    needed = t.ppf(quantile, n - 1) + t.ppf(POWER, n - 1)
    enough = (needed * found.deviation / np.sqrt(n) < distance) & _testable(n, alpha, beyond=beyond)
    return int(n[np.argmax(enough)]) if enough.any() else None


def _testable(n: "np.typing.NDArray[np.int64]", alpha: float, *, beyond: bool) -> "np.typing.NDArray[np.bool_]":
    """Say for which counts a claim can pass the sign-flip test, whose least p value is 2 / 2^n."""
    return (2.0 ** (1.0 - n) <= alpha) | (not beyond)
