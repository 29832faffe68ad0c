"""Count one arm's requests inside a replica, so that the node's exporter can serve them.

Set the environment variable PROMETHEUS_MULTIPROC_DIR to the folder shared with the exporter before anything imports
prometheus_client: the library decides at its first import whether values live in files or in memory. Without the variable
the series live in memory only, in `registry`.
"""

import os
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bakeoff.errors import ServingError
from bakeoff.metrics import ARM, BATCH_SIZES, BY_NAME, Outcome, latency_buckets
from monitoring.replicas import mark_alive

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class Latency:
    """Observe into one histogram by binary search: 53 bounds scanned in order cost several microseconds a call."""

    def __init__(self, child: Any, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [bucket.inc for bucket in child._buckets]  # noqa: SLF001 -- the library offers no faster way in
        self._add = child._sum.inc  # noqa: SLF001

    def observe(self, value: float) -> None:
        """Count one value, in the unit of the bounds."""
        self._add(value)
        self._counts[bisect_left(self._bounds, value)](1)


def counting(child: Any) -> Callable[[float], None]:
    """Return what adds to a counter or gauge without the library's checks of each call, a quarter of its cost."""
    add: Callable[[float], None] = child._value.inc  # noqa: SLF001 -- the library offers no faster way in
    return add


class ArmSeries:
    """Record how one arm's requests end; make one per arm and process. Methods may be called from any thread.

    `slo_s` is the SLO's latency target in seconds and becomes a bound of every latency histogram; None means no SLO.
    """

    def __init__(self, model: str, arm: str, precision: str, pool: str, slo_s: float | None = None) -> None:
        from prometheus_client import CollectorRegistry, disable_created_metrics

        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry: CollectorRegistry = CollectorRegistry()
        self._marker = _join_folder()
        self._slo_s = slo_s
        self._bounds = latency_buckets(slo_s)
        self._labels = dict(zip(ARM, (model, arm, precision, pool), strict=True))
        self._make_series()

    def accepted(self) -> None:
        """Count a request that came in and is not answered yet."""
        self._add_in_flight(1)

    def finished(
        self,
        outcome: Outcome,
        duration_s: float,
        *,
        queue_s: float | None = None,
        execution_s: float | None = None,
        items: int = 0,
        gpu_uuid: str | None = None,
    ) -> None:
        """Count how an accepted request ended; times are in seconds, and None where that never happened.

        Only good answers enter the latency histograms: a quick refusal would make an overloaded arm look fast.
        """
        self._add_in_flight(-1)
        self._outcomes[outcome](1)
        if outcome is not Outcome.OK:
            return
        self._duration.observe(duration_s)
        self._items(items)
        if self._within_slo is not None and self._slo_s is not None and duration_s <= self._slo_s:
            self._within_slo(1)
        if queue_s is not None:
            self._queue.observe(queue_s)
        if execution_s is not None:
            self._execution_on(gpu_uuid or "").observe(execution_s)

    def batch(self, size: int) -> None:
        """Count one executed batch of `size` items."""
        self._batches.observe(size)

    def nonfinite(self, samples: int) -> None:
        """Count samples whose output held NaN or Inf."""
        self._nonfinite(samples)

    def set_queue_depth(self, requests: int) -> None:
        """State how many requests wait for a slot."""
        self._queue_depth.set(requests)

    def set_in_flight(self, requests: int) -> None:
        """Correct the number of requests in flight, which `accepted` and `finished` otherwise keep."""
        self._in_flight.set(requests)

    def runs_on(self, gpu_uuid: str, *, exclusive: bool) -> None:
        """State which GPU the replica runs on, and whether no other arm shares it."""
        labels = {**self._labels, "gpu_uuid": gpu_uuid, "exclusive": str(exclusive).lower()}
        self._gauge("inference_replica_gpu_info", "livemax").labels(**labels).set(1)

    def _make_series(self) -> None:
        self._items = counting(self._counter("inference_items_total").labels(**self._labels))
        self._nonfinite = counting(self._counter("inference_nonfinite_outputs_total").labels(**self._labels))
        outcomes = self._counter("inference_requests_total")
        # Made at 0 at once: a rate cannot see a series' first step.
        self._outcomes = {outcome: counting(outcomes.labels(**self._labels, outcome=str(outcome))) for outcome in Outcome}
        self._duration = self._latency("inference_request_duration_seconds")
        self._queue = self._latency("inference_queue_duration_seconds")
        self._executions = self._histogram("inference_execution_duration_seconds", self._bounds)
        self._execution: dict[str, Latency] = {}
        self._batches = Latency(self._histogram("inference_batch_size", BATCH_SIZES).labels(**self._labels), BATCH_SIZES)
        self._in_flight = self._gauge("inference_in_flight_requests", "livesum").labels(**self._labels)
        self._add_in_flight = counting(self._in_flight)
        self._queue_depth = self._gauge("inference_queue_depth", "livesum").labels(**self._labels)
        self._within_slo = None
        if self._slo_s is not None:
            self._within_slo = counting(self._counter("inference_requests_within_slo_total").labels(**self._labels))
            self._gauge("inference_slo_seconds", "livemax").labels(**self._labels).set(self._slo_s)

    def _execution_on(self, gpu_uuid: str) -> Latency:
        known = self._execution.get(gpu_uuid)
        if known is None:
            known = Latency(self._executions.labels(**self._labels, gpu_uuid=gpu_uuid), self._bounds)
            self._execution[gpu_uuid] = known
        return known

    def _latency(self, name: str) -> Latency:
        return Latency(self._histogram(name, self._bounds).labels(**self._labels), self._bounds)

    def _histogram(self, name: str, bounds: tuple[float, ...]) -> Any:
        from prometheus_client import Histogram

        metric = BY_NAME[name]
        return Histogram(metric.full_name, metric.help, metric.labels, registry=self.registry, buckets=bounds)

    def _counter(self, name: str) -> Any:
        from prometheus_client import Counter

        metric = BY_NAME[name]
        return Counter(metric.full_name, metric.help, metric.labels, registry=self.registry)

    def _gauge(self, name: str, mode: Any) -> Any:
        from prometheus_client import Gauge

        metric = BY_NAME[name]
        return Gauge(metric.full_name, metric.help, metric.labels, registry=self.registry, multiprocess_mode=mode)


def _join_folder() -> Any:
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    from prometheus_client import values

    if not getattr(values.ValueClass, "_multiprocess", False):
        raise ServingError(
            f"{FOLDER_VARIABLE} was set to {folder} after prometheus_client had been imported, so its values stay in memory: "
            "set the variable before the process starts"
        )
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return mark_alive(path, os.getpid())
