"""Say how many requests a claim about a latency percentile needs."""

import bisect
from functools import cache

MOST = 10_000_000


@cache
def required_samples(percentile: float, confidence: float = 0.99, over: int = 0) -> int:
    """Return the fewest requests that show a percentile to be under its limit although `over` of them were over it.

    The count n is the smallest for which a binomial of n trials with chance 1 - percentile gives at most `over` with a
    probability of at most 1 - confidence (exact test; the early-stopping rule of MLPerf LoadGen gives the same counts).
    """
    from scipy.stats import binom

    if not (0 < percentile < 1 and 0 < confidence < 1 and over >= 0):
        raise ValueError(
            f"percentile {percentile} and confidence {confidence} must lie between 0 and 1, and over ({over}) not below 0"
        )
    miss = 1 - percentile
    return bisect.bisect_left(range(MOST), x=True, key=lambda n: bool(binom.cdf(over, n, miss) <= 1 - confidence))
