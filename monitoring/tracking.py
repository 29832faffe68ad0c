"""Keep one GPU's newest readings and what only accumulates over time: throttle seconds and integrated energy."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bakeoff.errors import DeviceError
from monitoring import throttle
from monitoring.device import Device, FastReading, Identity, SlowReading
from monitoring.energy import trapezoid_j

log = logging.getLogger(__name__)

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0


Reading = TypeVar("Reading")


@dataclass(frozen=True)
class Timed(Generic[Reading]):
    """Pair a reading with the monotonic time in seconds at which it was made."""

    reading: Reading
    at_s: float


@dataclass(frozen=True)
class DeviceState:
    """Show one GPU at one moment; `throttle_s` and `integrated_j` count since sampling began, None before any figure."""

    identity: Identity
    up: bool
    fast: Timed[FastReading] | None
    slow: Timed[SlowReading] | None
    throttle_s: Mapping[str, float] | None
    driver_power_cap_s: float | None
    integrated_j: float | None


class DeviceTracker:
    """Read one device, keep its newest readings, and come back to it with growing pauses after it was lost."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._fast: Timed[FastReading] | None = None
        self._slow: Timed[SlowReading] | None = None
        self._throttle_s: dict[str, float] | None = None
        self._driver_count = throttle.DriverCount()
        self._integrated_j: float | None = None
        self._retry_at_s: float | None = None
        self._pause_s = FIRST_RETRY_S

    @property
    def up(self) -> bool:
        """Say whether the device answered last time."""
        return self._retry_at_s is None

    def read_fast(self, now_s: float) -> bool:
        """Take a fast reading; return False while the device is lost."""
        if not self._available(now_s):
            return False
        try:
            self._take(Timed(self._device.read_fast(), now_s))
        except DeviceError as e:
            self._lose(now_s, e)
        return self.up

    def read_slow(self, now_s: float) -> bool:
        """Take a slow reading; return False while the device is lost."""
        if not self.up:
            return False
        try:
            self._slow = Timed(self._device.read_slow(), now_s)
        except DeviceError as e:
            self._lose(now_s, e)
        return self.up

    def state(self) -> DeviceState:
        """Return what is known of the device."""
        return DeviceState(
            self._device.identity,
            self.up,
            self._fast,
            self._slow,
            self._throttle_s,
            self._driver_count.seconds,
            self._integrated_j,
        )

    def _available(self, now_s: float) -> bool:
        if self._retry_at_s is None:
            return True
        if now_s < self._retry_at_s:
            return False
        try:
            self._device.reopen()
        except DeviceError as e:
            self._lose(now_s, e)
            return False
        log.info("GPU %s answers again", self._device.identity.uuid)
        self._retry_at_s = None
        return True

    def _lose(self, now_s: float, error: DeviceError) -> None:
        if self.up:
            log.error("%s; trying again with pauses of up to %.0f s", error, LONGEST_RETRY_S)
        self._fast = self._slow = None
        self._retry_at_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_RETRY_S)

    def _take(self, new: Timed[FastReading]) -> None:
        old, self._fast = self._fast, new
        self._pause_s = FIRST_RETRY_S
        self._driver_count = self._driver_count.after(new.at_s, new.reading.driver_power_cap_s)
        if new.reading.throttle_mask is not None and self._throttle_s is None:
            self._throttle_s = throttle.no_time()
        if new.reading.power_w is not None and self._integrated_j is None:
            self._integrated_j = 0.0
        if old is not None:
            self._add(old, new)

    def _add(self, old: Timed[FastReading], new: Timed[FastReading]) -> None:
        elapsed_s = new.at_s - old.at_s
        if old.reading.throttle_mask is not None and self._throttle_s is not None:
            self._throttle_s = throttle.accumulate(self._throttle_s, old.reading.throttle_mask, elapsed_s)
        joules = trapezoid_j(old.reading.power_w, new.reading.power_w, elapsed_s)
        if joules is not None and self._integrated_j is not None:
            self._integrated_j += joules
