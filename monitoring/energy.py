"""Find the energy a GPU drew in a window: the difference of its counter, and the integral of its power as a cross-check.

The counter is NVML's total energy since the driver was loaded (Volta and later). Samples are (time in seconds, figure)
in order of time; a figure that could not be read is None. Nothing is bridged over a gap of more than 3 s.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

LONGEST_GAP_S = 3.0
Samples = Sequence[tuple[float, float | None]]
Known = list[tuple[float, float]]


@dataclass(frozen=True)
class Energy:
    """Hold energy over a window; `covered_s` is the part of the window that samples vouch for."""

    joules: float
    covered_s: float
    window_s: float
    method: Literal["counter", "integrated"]

    @property
    def complete(self) -> bool:
        """Say whether the samples cover the whole window."""
        return self.covered_s >= self.window_s * (1 - 1e-9)

    @property
    def mean_power_w(self) -> float:
        """Return the mean power over the covered time."""
        return self.joules / self.covered_s


def counter_energy(samples: Samples, start_s: float, end_s: float) -> Energy | None:
    """Return the counter's advance over the window, its ends interpolated between samples at most 3 s apart.

    `samples` holds joules. None when an end has no samples around it, or when the counter fell (driver reloaded).
    """
    known = _known(samples)
    inside = [v for t, v in known if start_s <= t <= end_s]
    first, last = _at(known, start_s), _at(known, end_s)
    if end_s <= start_s or first is None or last is None:
        return None
    if any(after < before for before, after in pairwise([first, *inside, last])):
        return None
    return Energy(last - first, end_s - start_s, end_s - start_s, "counter")


def integrated_energy(samples: Samples, start_s: float, end_s: float) -> Energy | None:
    """Return the trapezoid integral of power in watts over the parts of the window without a gap over 3 s, or None."""
    joules = covered_s = 0.0
    for (t0, p0), (t1, p1) in _segments(_known(samples), start_s, end_s):
        joules += (p0 + p1) / 2 * (t1 - t0)
        covered_s += t1 - t0
    return Energy(joules, covered_s, end_s - start_s, "integrated") if covered_s > 0 else None


def trapezoid_j(before_w: float | None, after_w: float | None, elapsed_s: float) -> float | None:
    """Return the energy between two power samples, or None when one is missing or they are over 3 s apart."""
    if before_w is None or after_w is None or not 0 < elapsed_s <= LONGEST_GAP_S:
        return None
    return (before_w + after_w) / 2 * elapsed_s


def disagreement(counter: Energy | None, integrated: Energy | None) -> float | None:
    """Return how far the integral is from the counter, as a share of the counter; None unless both cover the window."""
    if counter is None or integrated is None or not integrated.complete or counter.joules <= 0:
        return None
    return abs(integrated.joules - counter.joules) / counter.joules


def _known(samples: Iterable[tuple[float, float | None]]) -> Known:
    return [(t, v) for t, v in samples if v is not None]


def _at(known: Known, t: float) -> float | None:
    times = [time for time, _ in known]
    after = bisect_right(times, t)
    if after and times[after - 1] == t:
        return known[after - 1][1]
    if after in (0, len(known)):
        return None
    (t0, v0), (t1, v1) = known[after - 1], known[after]
    return _between(v0, v1, (t - t0) / (t1 - t0)) if t1 - t0 <= LONGEST_GAP_S else None


def _segments(known: Known, start_s: float, end_s: float) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    for (t0, v0), (t1, v1) in pairwise(known):
        low, high = max(t0, start_s), min(t1, end_s)
        if high > low and t1 - t0 <= LONGEST_GAP_S:
            span = t1 - t0
            yield (low, _between(v0, v1, (low - t0) / span)), (high, _between(v0, v1, (high - t0) / span))


def _between(v0: float, v1: float, share: float) -> float:
    return v0 + (v1 - v0) * share
