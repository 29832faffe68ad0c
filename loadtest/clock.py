"""Keep time for a whole comparison: monotonic, and equal to Unix time at its start."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Read the system's monotonic clock, shifted by a fixed offset; processes of one machine that share the offset agree."""

    offset_ns: int

    @classmethod
    def started_now(cls) -> "Clock":
        """Return a clock that shows Unix time now and never jumps afterwards."""
        return cls(time.time_ns() - time.monotonic_ns())

    def now_ns(self) -> int:
        """Return the time in nanoseconds."""
        return time.monotonic_ns() + self.offset_ns

    def monotonic_ns(self, time_ns: int) -> int:
        """Convert a time of this clock to the system's monotonic clock."""
        return time_ns - self.offset_ns

    def until_s(self, time_ns: int) -> float:
        """Return the seconds left until a time, 0 once it has passed."""
        return max(0, time_ns - self.now_ns()) / 1e9
