"""Define what a GPU tells: its identity, a fast and a slow reading, and the Protocol of a device that gives them.

Units are in the names and base units throughout. A figure the device does not report is None, never 0.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Identity:
    """Say which GPU this is; `simulated` marks a replayed recording."""

    uuid: str
    index: int
    name: str
    pool: str
    architecture: str | None = None
    pci_bus_id: str | None = None
    driver_version: str | None = None
    node: str | None = None
    mig_profile: str | None = None
    simulated: bool = False


@dataclass(frozen=True)
class FastReading:
    """Hold what changes within a second.

    `throttle_mask` is NVML's bit mask of clocks-event reasons. `power_average_w` is a mean over one second,
    `power_instant_w` the newest sample. `energy_j` counts since the driver was loaded, `driver_power_cap_s` is the
    driver's own count of time under the power cap.
    """

    throttle_mask: int | None = None
    power_instant_w: float | None = None
    power_average_w: float | None = None
    energy_j: float | None = None
    driver_power_cap_s: float | None = None
    clock_hz: Mapping[str, float] = field(default_factory=dict)
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    utilization_ratio: float | None = None
    memory_activity_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_size_bytes: float | None = None
    memory_reserved_bytes: float | None = None
    performance_state: int | None = None

    @property
    def power_w(self) -> float | None:
        """Return the power to integrate: the one-second mean where there is one, else the newest sample."""
        return self.power_instant_w if self.power_average_w is None else self.power_average_w


@dataclass(frozen=True)
class ProcessGroup:
    """Count processes on a GPU by owner: `self`, `foreign` or `unknown`; memory is None unless all of it is known."""

    owner: str
    count: int
    memory_bytes: float | None


@dataclass(frozen=True)
class SlowReading:
    """Hold what changes by the minute or never; mappings hold only what the device reports.

    Keys: `power_limit_w` enforced, default, min, max; `temperature_limit_c` shutdown, slowdown, memory_max, gpu_max;
    `pcie_generation` and `pcie_lanes` current, max; `ecc_errors` (kind, scope); `remapped_rows` and `retired_pages` cause.
    """

    power_limit_w: Mapping[str, float] = field(default_factory=dict)
    clock_max_hz: Mapping[str, float] = field(default_factory=dict)
    temperature_limit_c: Mapping[str, float] = field(default_factory=dict)
    temperature_margin_c: float | None = None
    pcie_generation: Mapping[str, int] = field(default_factory=dict)
    pcie_lanes: Mapping[str, int] = field(default_factory=dict)
    pcie_replays: int | None = None
    ecc_enabled: bool | None = None
    ecc_errors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    remapped_rows: Mapping[str, int] = field(default_factory=dict)
    row_remap_pending: bool | None = None
    row_remap_failed: bool | None = None
    retired_pages: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[ProcessGroup, ...] = ()
    persistence_mode: bool | None = None
    mig_mode: bool | None = None


class Device(Protocol):
    """Read one GPU; every reading raises DeviceError once the GPU is lost, until `reopen` succeeds."""

    @property
    def identity(self) -> Identity:
        """Return which GPU this is."""

    def read_fast(self) -> FastReading:
        """Return what changes within a second."""

    def read_slow(self) -> SlowReading:
        """Return what changes by the minute."""

    def reopen(self) -> None:
        """Connect again after the GPU was lost; raise DeviceError while it is still gone."""


ErrorCounts = Mapping[tuple[str, str], int]


def no_errors() -> ErrorCounts:
    """Return that no driver call has failed."""
    return {}


@dataclass(frozen=True)
class Discovery:
    """Hold the GPUs found, or the reason why there are none; `errors` counts failed driver calls by (call, error)."""

    devices: tuple[Device, ...]
    reason: str | None = None
    errors: Callable[[], ErrorCounts] = no_errors


DeviceSource = Callable[[], Discovery]
OwnPids = Callable[[], Set[int]]
