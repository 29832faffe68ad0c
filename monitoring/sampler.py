"""Read every GPU in one thread, fast figures 5 times a second and slow ones every 10 s, and keep the newest.

On an H200 power, energy and temperature refresh at about 10 Hz and the energy counter takes 2.8 ms a call, so that faster
sampling gains nothing. Whoever asks gets the newest state; nobody but this thread calls a device.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bakeoff.errors import DeviceError
from monitoring.device import DeviceSource, Discovery, ErrorCounts
from monitoring.health import Tier, TierHealth
from monitoring.tracking import FIRST_RETRY_S, LONGEST_RETRY_S, DeviceState, DeviceTracker

log = logging.getLogger(__name__)

FAST_PERIOD_S = 0.2
SLOW_PERIOD_S = 10.0
FAST_STALE_S = 3.0
SLOW_STALE_S = 3 * SLOW_PERIOD_S
STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Snapshot:
    """Show all GPUs at one moment; `reason` says why there are none."""

    devices: tuple[DeviceState, ...] = ()
    reason: str | None = None
    tiers: Mapping[Tier, TierHealth] = field(default_factory=lambda: {tier: TierHealth() for tier in Tier})
    errors: ErrorCounts = field(default_factory=dict)


class Sampler:
    """Discover GPUs and keep their newest readings; without any it looks again with growing pauses."""

    def __init__(
        self, source: DeviceSource, *, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._source = source
        self._clock = clock
        self._wall = wall
        self._found = Discovery((), "no GPU has been looked for yet")
        self._trackers: tuple[DeviceTracker, ...] = ()
        self._look_again_s: float | None = None
        self._pause_s = FIRST_RETRY_S
        self._tiers = {tier: TierHealth() for tier in Tier}
        self._snapshot = Snapshot(reason=self._found.reason)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def snapshot(self) -> Snapshot:
        """Return the newest state without touching a device."""
        return self._snapshot

    def now_s(self) -> float:
        """Return the time on the clock that readings are stamped with."""
        return self._clock()

    def start(self) -> None:
        """Take a first reading of both tiers, then go on in a thread."""
        self.collect(Tier.FAST)
        self.collect(Tier.SLOW)
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; raise DeviceError when a driver call holds it for more than 10 s."""
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise DeviceError(f"the GPU sampler did not end within {STOP_TIMEOUT_S:.0f} s: a driver call hangs")
        self._thread = None

    def collect(self, tier: Tier) -> None:
        """Take one reading of every GPU and publish the new state."""
        began_s = self._clock()
        self._discover(began_s)
        read = DeviceTracker.read_fast if tier is Tier.FAST else DeviceTracker.read_slow
        answers = [read(tracker, self._clock()) for tracker in self._trackers]
        self._tiers[tier] = self._tiers[tier].after(
            success=bool(answers) and all(answers), unix_s=self._wall(), duration_s=self._clock() - began_s
        )
        self._publish()

    def _discover(self, now_s: float) -> None:
        if self._trackers or (self._look_again_s is not None and now_s < self._look_again_s):
            return
        first = self._look_again_s is None
        self._found = self._source()
        self._trackers = tuple(DeviceTracker(device) for device in self._found.devices)
        self._look_again_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_RETRY_S)
        if first and not self._trackers:
            log.warning("no GPU: %s", self._found.reason)

    def _publish(self) -> None:
        self._snapshot = Snapshot(
            devices=tuple(tracker.state() for tracker in self._trackers),
            reason=self._found.reason,
            tiers=dict(self._tiers),
            errors=self._found.errors(),
        )

    def _run(self) -> None:
        next_fast_s = next_slow_s = self._clock()
        next_slow_s += SLOW_PERIOD_S
        while not self._stop.wait(max(0.0, next_fast_s - self._clock())):
            self._attempt(Tier.FAST)
            if self._clock() >= next_slow_s:
                self._attempt(Tier.SLOW)
                next_slow_s = self._clock() + SLOW_PERIOD_S
            next_fast_s = max(next_fast_s + FAST_PERIOD_S, self._clock())

    def _attempt(self, tier: Tier) -> None:
        try:
            self.collect(tier)
        except Exception:  # the thread's edge: one bad reading must not end telemetry; readings then go stale and absent
            log.exception("collecting the %s tier failed", tier)
