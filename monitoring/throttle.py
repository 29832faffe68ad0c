"""Decode why a GPU holds its clocks down, and count for how long.

Bits and names follow NVML's clocks-event reasons (nvml.h, `nvmlClocksEventReason*`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

REASONS: Mapping[int, str] = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
UNKNOWN = "unknown"
ALL_REASONS = (*REASONS.values(), UNKNOWN)
LONGEST_GAP_S = 3.0
DRIVER_TOLERANCE = 1.05
DRIVER_WINDOW_S = 5.0

_KNOWN_BITS = sum(REASONS)


def decode(mask: int) -> frozenset[str]:
    """Return the names of the reasons in a mask; bits without a name give `unknown`."""
    names = {name for bit, name in REASONS.items() if mask & bit}
    return frozenset(names | {UNKNOWN} if mask & ~_KNOWN_BITS else names)


def no_time() -> dict[str, float]:
    """Return zero seconds for every reason, from which sampled counting starts."""
    return dict.fromkeys(ALL_REASONS, 0.0)


def accumulate(totals_s: Mapping[str, float], mask: int, elapsed_s: float) -> dict[str, float]:
    """Add the time since the previous sample to the reasons that sample showed; a gap over 3 s adds nothing."""
    if not 0 < elapsed_s <= LONGEST_GAP_S:
        return dict(totals_s)
    active = decode(mask)
    return {reason: total + (elapsed_s if reason in active else 0.0) for reason, total in totals_s.items()}


@dataclass(frozen=True)
class DriverCount:
    """Believe a driver's own throttle counter only while it advances no faster than the clock on the wall.

    Some driver branches give other fields under the same number; such a counter outruns time and is dropped for good.
    """

    anchor: tuple[float, float] | None = None
    value_s: float | None = None
    believed: bool = False
    dropped: bool = False

    def after(self, now_s: float, counted_s: float | None) -> "DriverCount":
        """Return the state after one reading of the counter, in seconds; None when the device has none."""
        if self.dropped or counted_s is None:
            return self
        if self.anchor is None or counted_s < self.anchor[1]:
            return DriverCount(anchor=(now_s, counted_s))
        elapsed_s = now_s - self.anchor[0]
        if elapsed_s < DRIVER_WINDOW_S:
            return DriverCount(self.anchor, counted_s, self.believed)
        if counted_s - self.anchor[1] > DRIVER_TOLERANCE * elapsed_s:
            return DriverCount(dropped=True)
        return DriverCount((now_s, counted_s), counted_s, believed=True)

    @property
    def seconds(self) -> float | None:
        """Return the counter once one window of 5 s has shown it to be plausible, else None."""
        return self.value_s if self.believed else None
