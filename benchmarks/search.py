"""Search the highest rate that passes: bracket by doubling, bisect, confirm with a fresh seed; pure."""

import itertools
from collections.abc import Callable
from math import sqrt

Passes = Callable[[float, int], bool]
"""Take a rate (requests a second) and a seed, and say whether the rate is held."""

TOLERANCE = 0.05
"""Relative width of the bracket at which the search stops, and the step down when a confirmation fails."""
LEAST_PER_S = 2.0
MOST_PER_S = 8192.0
CONFIRMATIONS = 4
MOST_PROBE_S = 15.0
REQUESTS = 600


def probe_s(rate_per_s: float, least_s: float) -> float:
    """Return the length of a probe in seconds: longer at low rates, so that a 99th percentile means something."""
    return min(max(least_s, REQUESTS / rate_per_s), max(least_s, MOST_PROBE_S))


def highest_rate_per_s(passes: Passes, start_per_s: float) -> float | None:
    """Return the highest rate found that a fresh seed confirms, stepping down while it does not; None when none is."""
    seeds = itertools.count(1)

    def probe(rate: float) -> bool:
        return passes(rate, next(seeds))

    held, failed = _bracket(probe, start_per_s)
    if held is None:
        return None
    while failed is not None and failed / held > 1 + TOLERANCE:
        middle = sqrt(held * failed)
        held, failed = (middle, failed) if probe(middle) else (held, middle)
    return _confirmed(probe, held)


def _bracket(probe: Callable[[float], bool], start: float) -> tuple[float | None, float | None]:
    """Return the highest rate that was held and the lowest that was not, a factor of two apart; None where there is none."""
    rate = start
    if probe(rate):
        while rate * 2 <= MOST_PER_S:
            if not probe(rate * 2):
                return rate, rate * 2
            rate *= 2
        return rate, None
    while rate / 2 >= LEAST_PER_S:
        if probe(rate / 2):
            return rate / 2, rate
        rate /= 2
    return None, rate


def _confirmed(probe: Callable[[float], bool], rate: float) -> float | None:
    for _ in range(CONFIRMATIONS):
        if probe(rate):
            return rate
        rate /= 1 + TOLERANCE
    return None
