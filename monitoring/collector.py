"""Turn the sampler's newest state into series; a scrape reads memory and never calls a GPU."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from monitoring.device import FastReading, Identity, SlowReading
from monitoring.exposition import Labels, Page
from monitoring.health import BOUNDS_S
from monitoring.prices import GpuHourPrice
from monitoring.sampler import FAST_STALE_S, SLOW_STALE_S, Sampler, Snapshot
from monitoring.throttle import ALL_REASONS, decode
from monitoring.tracking import DeviceState, Reading, Timed

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

FEATURES: dict[str, Callable[[FastReading, SlowReading], object]] = {
    "power_instant": lambda fast, _: fast.power_instant_w,
    "power_average": lambda fast, _: fast.power_average_w,
    "energy_counter": lambda fast, _: fast.energy_j,
    "throttle_reasons": lambda fast, _: fast.throttle_mask,
    "temperature": lambda fast, _: fast.temperature_c,
    "memory_temperature": lambda fast, _: fast.memory_temperature_c,
    "utilization": lambda fast, _: fast.utilization_ratio,
    "temperature_limits": lambda _, slow: slow.temperature_limit_c or None,
    "temperature_margin": lambda _, slow: slow.temperature_margin_c,
    "pcie_link": lambda _, slow: slow.pcie_generation or None,
    "ecc": lambda _, slow: slow.ecc_errors or None,
    "row_remapping": lambda _, slow: slow.remapped_rows or None,
    "page_retirement": lambda _, slow: slow.retired_pages or None,
    "processes": lambda _, slow: slow.processes or None,
    "mig": lambda _, slow: slow.mig_mode,
}
"""Figures that cards differ in, and where a reading shows that the card has them."""


class GpuCollector:
    """Serve the GPU series, the health of their collection and the prices of pools."""

    def __init__(self, sampler: Sampler, prices: Sequence[GpuHourPrice] = ()) -> None:
        self._sampler = sampler
        self._prices = prices

    def collect(self) -> Iterable["Family"]:
        """Return the families of one scrape."""
        page = Page()
        fill(page, self._sampler.snapshot, self._sampler.now_s())
        for price in self._prices:
            page.add("pool_gpu_hour_cost", {"pool": price.pool, "currency": price.currency}, price.per_gpu_hour)
        return page.families()


def fill(page: Page, snapshot: Snapshot, now_s: float) -> None:
    """Add a snapshot's series to a page; readings older than 3 s (fast) or 30 s (slow) add nothing."""
    for device in snapshot.devices:
        _add_device(page, device, now_s)
    for tier, health in snapshot.tiers.items():
        labels = {"tier": str(tier)}
        page.add("gpu_exporter_collect_success", labels, health.success)
        page.add("gpu_exporter_last_success_timestamp_seconds", labels, health.last_success_unix_s)
        page.add_histogram("gpu_exporter_collect_duration_seconds", labels, BOUNDS_S, health.counts, health.total_s)
    for (call, error), count in sorted(snapshot.errors.items()):
        page.add("gpu_exporter_nvml_errors_total", {"call": call, "error": error}, count)


def fresh(timed: Timed[Reading] | None, now_s: float, stale_s: float) -> Reading | None:
    """Return a reading unless it is older than `stale_s`."""
    return None if timed is None or now_s - timed.at_s > stale_s else timed.reading


def _add_device(page: Page, device: DeviceState, now_s: float) -> None:
    labels = card_labels(device.identity)
    fast, slow = fresh(device.fast, now_s, FAST_STALE_S), fresh(device.slow, now_s, SLOW_STALE_S)
    page.add("gpu_info", {**labels, **_info(device.identity)}, 1)
    page.add("gpu_up", labels, device.up and fast is not None)
    if fast is not None:
        _add_fast(page, labels, fast)
        _add_counted(page, labels, device, fast)
    if slow is not None:
        _add_slow(page, labels, slow)
    if fast is not None and slow is not None:
        features = {name: int(read(fast, slow) is not None) for name, read in FEATURES.items()}
        page.add_each("gpu_exporter_feature_supported", labels, "feature", features)


def card_labels(identity: Identity) -> Labels:
    """Return the labels that every series of a GPU carries."""
    return {"gpu_uuid": identity.uuid, "gpu_index": str(identity.index), "pool": identity.pool}


def _info(identity: Identity) -> Labels:
    names = ("name", "architecture", "pci_bus_id", "driver_version", "node", "mig_profile")
    return {name: getattr(identity, name) or "" for name in names}


def _add_fast(page: Page, labels: Labels, fast: FastReading) -> None:
    page.add("gpu_utilization_ratio", labels, fast.utilization_ratio)
    page.add("gpu_memory_activity_ratio", labels, fast.memory_activity_ratio)
    page.add("gpu_memory_used_bytes", labels, fast.memory_used_bytes)
    page.add("gpu_memory_size_bytes", labels, fast.memory_size_bytes)
    page.add("gpu_memory_reserved_bytes", labels, fast.memory_reserved_bytes)
    page.add("gpu_temperature_celsius", {**labels, "sensor": "gpu"}, fast.temperature_c)
    page.add("gpu_temperature_celsius", {**labels, "sensor": "memory"}, fast.memory_temperature_c)
    page.add("gpu_power_draw_watts", {**labels, "window": "instant"}, fast.power_instant_w)
    page.add("gpu_power_draw_watts", {**labels, "window": "average_1s"}, fast.power_average_w)
    page.add_each("gpu_clock_hertz", labels, "domain", fast.clock_hz)
    page.add("gpu_performance_state", labels, fast.performance_state)


def _add_counted(page: Page, labels: Labels, device: DeviceState, fast: FastReading) -> None:
    page.add("gpu_energy_joules_total", {**labels, "source": "counter"}, fast.energy_j)
    page.add("gpu_energy_joules_total", {**labels, "source": "integrated"}, device.integrated_j)
    if fast.throttle_mask is not None:
        active = decode(fast.throttle_mask)
        page.add_each("gpu_throttle_active", labels, "reason", {reason: int(reason in active) for reason in ALL_REASONS})
    page.add_each("gpu_throttle_seconds_total", {**labels, "source": "sampled"}, "reason", device.throttle_s)
    driver = {**labels, "source": "driver", "reason": "sw_power_cap"}
    page.add("gpu_throttle_seconds_total", driver, device.driver_power_cap_s)


def _add_slow(page: Page, labels: Labels, slow: SlowReading) -> None:
    page.add_each("gpu_power_limit_watts", labels, "limit", slow.power_limit_w)
    page.add_each("gpu_clock_max_hertz", labels, "domain", slow.clock_max_hz)
    page.add_each("gpu_temperature_limit_celsius", labels, "limit", slow.temperature_limit_c)
    page.add("gpu_temperature_margin_celsius", labels, slow.temperature_margin_c)
    page.add_each("gpu_pcie_link_generation", labels, "kind", slow.pcie_generation)
    page.add_each("gpu_pcie_link_width_lanes", labels, "kind", slow.pcie_lanes)
    page.add("gpu_pcie_replays_total", labels, slow.pcie_replays)
    for (kind, scope), count in slow.ecc_errors.items():
        page.add("gpu_ecc_errors_total", {**labels, "kind": kind, "scope": scope}, count)
    page.add_each("gpu_remapped_rows", labels, "cause", slow.remapped_rows)
    page.add("gpu_row_remap_pending", labels, slow.row_remap_pending)
    page.add("gpu_row_remap_failed", labels, slow.row_remap_failed)
    page.add_each("gpu_retired_pages", labels, "cause", slow.retired_pages)
    for group in slow.processes:
        page.add("gpu_processes", {**labels, "owner": group.owner}, group.count)
        page.add("gpu_process_memory_bytes", {**labels, "owner": group.owner}, group.memory_bytes)
    page.add("gpu_persistence_mode", labels, slow.persistence_mode)
    page.add("gpu_mig_mode", labels, slow.mig_mode)
