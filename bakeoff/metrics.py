"""Declare every metric once: exporter, replicas, rules and docs read these declarations.

Names are published and frozen. Units are base units and part of the name. A value that cannot be read is an absent
series, never 0.
"""

from dataclasses import dataclass, field
from enum import StrEnum

PREFIX = "bakeoff_"
GPU = ("gpu_uuid", "gpu_index", "pool")
ARM = ("model", "arm", "precision", "pool")
LATENCY_DECADES = (5e-4, 60.0, 10)
BATCH_SIZES = tuple(float(2**k) for k in range(11))


class Kind(StrEnum):
    """Name a Prometheus metric type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Outcome(StrEnum):
    """Name how a request ended, on the server and in a run's records."""

    OK = "ok"
    CLIENT_ERROR = "client_error"
    ERROR = "error"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Metric:
    """Declare one metric; `name` has no prefix, counters end in `_total`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = field(default=())

    @property
    def full_name(self) -> str:
        """Return the name as Prometheus sees it."""
        return PREFIX + self.name


def latency_buckets(slo_s: float | None = None) -> tuple[float, ...]:
    """Return 10 bounds a decade from 0.5 ms to 60 s in seconds, with an SLO's target added as a bound."""
    low, high, per_decade = LATENCY_DECADES
    bounds = []
    step = 0
    while (bound := low * 10 ** (step / per_decade)) < high:
        bounds.append(float(f"{bound:.4g}"))
        step += 1
    return tuple(sorted({*bounds, high, *([] if slo_s is None else [slo_s])}))


def _gauge(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, Kind.GAUGE, labels, text)


def _counter(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, Kind.COUNTER, labels, text)


def _latency(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, Kind.HISTOGRAM, labels, text, latency_buckets())


DECLARED: tuple[Metric, ...] = (
    _gauge("gpu_info", (*GPU, "name", "architecture", "pci_bus_id", "driver_version", "node", "mig_profile"), "Identity of a GPU; always 1."),
    _gauge("gpu_up", GPU, "1 while the GPU answers, 0 once it is lost."),
    _gauge("gpu_utilization_ratio", GPU, "Share of the last sample period in which a kernel ran."),
    _gauge("gpu_memory_activity_ratio", GPU, "Share of the last sample period in which memory was read or written."),
    _gauge("gpu_memory_used_bytes", GPU, "Memory in use on the GPU."),
    _gauge("gpu_memory_size_bytes", GPU, "Memory the GPU has."),
    _gauge("gpu_memory_reserved_bytes", GPU, "Memory the driver keeps for itself."),
    _gauge("gpu_temperature_celsius", (*GPU, "sensor"), "Temperature by sensor."),
    _gauge("gpu_temperature_limit_celsius", (*GPU, "limit"), "Temperature at which the named limit acts."),
    _gauge("gpu_temperature_margin_celsius", GPU, "Degrees left before the nearest thermal slowdown."),
    _gauge("gpu_power_draw_watts", (*GPU, "window"), "Power drawn, by averaging window of the reading."),
    _gauge("gpu_power_limit_watts", (*GPU, "limit"), "Power limits in force and possible."),
    _counter("gpu_energy_joules_total", (*GPU, "source"), "Energy drawn: the GPU's own counter, or power integrated here."),
    _gauge("gpu_clock_hertz", (*GPU, "domain"), "Clock by domain."),
    _gauge("gpu_clock_max_hertz", (*GPU, "domain"), "Highest clock by domain."),
    _gauge("gpu_performance_state", GPU, "Performance state; 0 is the fastest."),
    _gauge("gpu_throttle_active", (*GPU, "reason"), "1 while the reason holds the clocks down."),
    _counter("gpu_throttle_seconds_total", (*GPU, "reason", "source"), "Time each reason held the clocks down."),
    _gauge("gpu_pcie_link_generation", (*GPU, "kind"), "PCIe generation, current and highest."),
    _gauge("gpu_pcie_link_width_lanes", (*GPU, "kind"), "PCIe lanes, current and highest."),
    _counter("gpu_pcie_replays_total", GPU, "PCIe packets sent again."),
    _counter("gpu_ecc_errors_total", (*GPU, "kind", "scope"), "ECC errors, corrected or uncorrected."),
    _gauge("gpu_remapped_rows", (*GPU, "cause"), "Memory rows remapped, by cause."),
    _gauge("gpu_row_remap_pending", GPU, "1 while a row remap waits for a reset."),
    _gauge("gpu_row_remap_failed", GPU, "1 once a row remap has failed."),
    _gauge("gpu_retired_pages", (*GPU, "cause"), "Memory pages retired, by cause."),
    _gauge("gpu_processes", (*GPU, "owner"), "Processes on the GPU: ours, others', unknown."),
    _gauge("gpu_process_memory_bytes", (*GPU, "owner"), "Memory held by processes on the GPU."),
    _gauge("gpu_persistence_mode", GPU, "1 when the driver stays loaded without clients."),
    _gauge("gpu_mig_mode", GPU, "1 when the GPU is partitioned by MIG."),
    _gauge("gpu_exporter_collect_success", ("tier",), "1 when the last collection of the tier succeeded."),
    _gauge("gpu_exporter_last_success_timestamp_seconds", ("tier",), "Unix time of the tier's last good collection."),
    _latency("gpu_exporter_collect_duration_seconds", ("tier",), "Time a collection of the tier took."),
    _counter("gpu_exporter_nvml_errors_total", ("call", "error"), "NVML calls that failed, by call and error."),
    _gauge("gpu_exporter_feature_supported", (*GPU, "feature"), "1 when the GPU reports the feature, 0 when it does not."),
    _latency("inference_request_duration_seconds", ARM, "Time from a request's arrival at the replica to its answer."),
    _latency("inference_queue_duration_seconds", ARM, "Time a request waited for an execution slot."),
    _latency("inference_execution_duration_seconds", (*ARM, "gpu_uuid"), "Time the engine took for the batch of a request."),
    Metric("inference_batch_size", Kind.HISTOGRAM, ARM, "Items in an executed batch.", BATCH_SIZES),
    _counter("inference_requests_total", (*ARM, "outcome"), "Requests by how they ended."),
    _counter("inference_requests_within_slo_total", ARM, "Good answers within the SLO's latency."),
    _counter("inference_items_total", ARM, "Items answered."),
    _counter("inference_nonfinite_outputs_total", ARM, "Samples whose output held NaN or Inf."),
    _gauge("inference_in_flight_requests", ARM, "Requests accepted and not yet answered."),
    _gauge("inference_queue_depth", ARM, "Requests waiting for a slot."),
    _gauge("inference_slo_seconds", ARM, "The SLO's latency target."),
    _gauge("inference_replica_gpu_info", (*ARM, "gpu_uuid", "exclusive"), "Which GPU a replica runs on; always 1."),
    _gauge("pool_gpu_hour_cost", ("pool", "currency"), "Price of one GPU hour in the pool."),
)  # fmt: skip

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in DECLARED}
