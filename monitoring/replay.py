"""Play a recorded GPU back as a device, marked SIMULATED wherever its identity shows."""

import csv
import gzip
import json
import math
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from bakeoff.errors import DeviceError
from monitoring.device import Discovery, FastReading, Identity, SlowReading
from monitoring.pools import Pools

SUFFIX = " (SIMULATED)"
CAPTURES = ("h200",)
Clock = Callable[[], float]


@dataclass(frozen=True)
class Capture:
    """Hold a recorded card: readings by time in seconds from 0, and what it answered once."""

    times_s: tuple[float, ...]
    fast: tuple[FastReading, ...]
    slow: SlowReading
    survey: dict[str, Any]

    @property
    def length_s(self) -> float:
        """Return the time from the first to the last sample."""
        return self.times_s[-1] - self.times_s[0]


def load_capture(name: str) -> Capture:
    """Read a recording of this package by name, or raise DeviceError listing the recordings there are."""
    if name not in CAPTURES:
        raise DeviceError(f"no recorded GPU {name!r}. Recorded: {', '.join(CAPTURES)}.")
    folder = resources.files("monitoring").joinpath("captures")
    survey = json.loads(folder.joinpath(f"{name}_survey.json").read_text(encoding="utf-8"))
    text = gzip.decompress(folder.joinpath(f"{name}_trace.csv.gz").read_bytes()).decode()
    rows = list(csv.DictReader(text.splitlines()))
    fast = tuple(_fast(row, survey["memory_size_bytes"]) for row in rows)
    return Capture(tuple(float(row["t_s"]) for row in rows), fast, _slow(survey), survey)


def replay_source(name: str, pools: Pools, node: str | None = None, clock: Clock = time.monotonic) -> Discovery:
    """Return a discovery that holds one replayed card."""
    return Discovery((ReplayedDevice(load_capture(name), pools, node=node, clock=clock),))


class ReplayedDevice:
    """Answer as the recorded card did, from the first reading on and over again; energy keeps counting across repeats."""

    def __init__(
        self,
        capture: Capture,
        pools: Pools | None = None,
        *,
        index: int = 0,
        node: str | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._capture = capture
        self._clock = clock
        self._start_s = clock()
        self.identity = _identity(capture.survey, pools or Pools(), index, node)

    def read_fast(self) -> FastReading:
        """Return the sample recorded at or before this moment of the recording."""
        elapsed_s = self._clock() - self._start_s
        repeats = math.floor(elapsed_s / self._capture.length_s)
        sample = self._at(elapsed_s - repeats * self._capture.length_s)
        return self._carried_on(sample, repeats) if repeats else sample

    def read_slow(self) -> SlowReading:
        """Return what the card answered once, while idle."""
        return self._capture.slow

    def reopen(self) -> None:
        """Do nothing: a recording is never lost."""

    def _at(self, position_s: float) -> FastReading:
        times = self._capture.times_s
        return self._capture.fast[max(0, bisect_right(times, times[0] + position_s) - 1)]

    def _carried_on(self, sample: FastReading, repeats: int) -> FastReading:
        first, last = self._capture.fast[0], self._capture.fast[-1]
        values = dict(vars(sample))
        for counter in ("energy_j", "driver_power_cap_s"):
            values[counter] += repeats * (getattr(last, counter) - getattr(first, counter))
        return FastReading(**values)


def _identity(survey: dict[str, Any], pools: Pools, index: int, node: str | None) -> Identity:
    uuid = f"{survey['uuid'][:-12]}{index + 1:012d}"
    return Identity(
        uuid=uuid,
        index=index,
        name=survey["name"] + SUFFIX,
        pool=pools.pool_of(uuid, index, survey["name"]),
        architecture=survey["architecture"],
        pci_bus_id=survey["pci_bus_id"],
        driver_version=survey["driver_version"],
        node=node,
        simulated=True,
    )


def _fast(row: dict[str, str], memory_size_bytes: float) -> FastReading:
    return FastReading(
        throttle_mask=int(row["throttle_mask"]),
        power_instant_w=int(row["power_instant_mw"]) / 1000,
        power_average_w=int(row["power_average_mw"]) / 1000,
        energy_j=int(row["energy_mj"]) / 1000,
        driver_power_cap_s=int(row["power_cap_ns"]) / 1e9,
        clock_hz={"sm": int(row["sm_mhz"]) * 1e6, "memory": int(row["memory_mhz"]) * 1e6},
        temperature_c=float(row["temperature_c"]),
        utilization_ratio=int(row["utilization_percent"]) / 100,
        memory_activity_ratio=int(row["memory_activity_percent"]) / 100,
        memory_used_bytes=float(row["memory_used_bytes"]),
        memory_size_bytes=float(memory_size_bytes),
    )


def _slow(survey: dict[str, Any]) -> SlowReading:
    rows = survey["remapped_rows"]
    return SlowReading(
        power_limit_w={limit: mw / 1000 for limit, mw in survey["power_limit_mw"].items()},
        clock_max_hz={domain: mhz * 1e6 for domain, mhz in survey["clock_max_mhz"].items()},
        temperature_limit_c={limit: float(c) for limit, c in survey["temperature_limit_c"].items()},
        pcie_generation=survey["pcie_generation"],
        pcie_lanes=survey["pcie_lanes"],
        pcie_replays=survey["pcie_replays"],
        ecc_enabled=bool(survey["ecc_enabled"]),
        ecc_errors={(kind, scope): n for kind, by_scope in survey["ecc_errors"].items() for scope, n in by_scope.items()},
        remapped_rows={cause: rows[cause] for cause in ("correctable", "uncorrectable")},
        row_remap_pending=bool(rows["pending"]),
        row_remap_failed=bool(rows["failed"]),
        persistence_mode=bool(survey["persistence_mode"]),
        mig_mode=bool(survey["mig_mode"]),
    )
