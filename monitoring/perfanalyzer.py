"""Serve GPU series under the names that perf_analyzer's `--collect-metrics` reads, with the uuid as the only label."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from monitoring.collector import fresh
from monitoring.sampler import FAST_STALE_S, Sampler

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

NAMES = {
    "nv_gpu_utilization": ("utilization_ratio", "Share of the last sample period in which a kernel ran."),
    "nv_gpu_power_usage": ("power_w", "Power drawn, in watts."),
    "nv_gpu_memory_used_bytes": ("memory_used_bytes", "Memory in use on the GPU."),
    "nv_gpu_memory_total_bytes": ("memory_size_bytes", "Memory the GPU has."),
}


class PerfAnalyzerCollector:
    """Repeat the newest readings under perf_analyzer's names."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def collect(self) -> Iterable["Family"]:
        """Return the families that have a fresh figure."""
        return [family for name in NAMES if (family := self._family(name)).samples]

    def _family(self, name: str) -> "Family":
        from prometheus_client.core import GaugeMetricFamily

        attribute, text = NAMES[name]
        family = GaugeMetricFamily(name, text, labels=["gpu_uuid"])
        for device in self._sampler.snapshot.devices:
            reading = fresh(device.fast, self._sampler.now_s(), FAST_STALE_S)
            value = getattr(reading, attribute, None)
            if value is not None:
                family.add_metric([device.identity.uuid], value)
        return family
