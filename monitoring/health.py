"""Count how collections of one tier went."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import StrEnum

from bakeoff.metrics import latency_buckets

BOUNDS_S = latency_buckets()


class Tier(StrEnum):
    """Name a rate of sampling."""

    FAST = "fast"
    SLOW = "slow"


@dataclass(frozen=True)
class TierHealth:
    """Hold the outcome of a tier's collections; `counts` has one place a bound of `BOUNDS_S` and one for beyond."""

    success: bool | None = None
    last_success_unix_s: float | None = None
    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    total_s: float = 0.0

    def after(self, *, success: bool, unix_s: float, duration_s: float) -> "TierHealth":
        """Return the health after one more collection."""
        place = bisect_left(BOUNDS_S, duration_s)
        return replace(
            self,
            success=success,
            last_success_unix_s=unix_s if success else self.last_success_unix_s,
            counts=(*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :]),
            total_s=self.total_s + duration_s,
        )
