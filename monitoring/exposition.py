"""Build exposition families from the metrics' declarations: what is not declared cannot be served."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bakeoff.metrics import BY_NAME, Kind

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

Labels = Mapping[str, str]


class Page:
    """Gather samples of declared metrics, in the order of first use."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def add(self, name: str, labels: Labels, value: float | bool | None) -> None:
        """Add one sample of a gauge or a counter; None adds nothing, as an unreadable value is an absent series."""
        if value is None:
            return
        family = self._family(name)
        family.add_metric([labels[label] for label in BY_NAME[name].labels], float(value))  # type: ignore[attr-defined]

    def add_each(self, name: str, labels: Labels, key: str, values: Mapping[str, float | int] | None) -> None:
        """Add one sample for each value, its key as the label `key`."""
        for label, value in (values or {}).items():
            self.add(name, {**labels, key: label}, value)

    def add_histogram(self, name: str, labels: Labels, bounds: Sequence[float], counts: Sequence[int], total: float) -> None:
        """Add one histogram from counts that are not cumulative, one a bound and one for beyond."""
        ends = [*(str(bound) for bound in bounds), "+Inf"]
        running, buckets = 0, []
        for end, count in zip(ends, counts, strict=True):
            running += count
            buckets.append((end, float(running)))
        values = [labels[label] for label in BY_NAME[name].labels]
        self._family(name).add_metric(values, buckets, total)  # type: ignore[attr-defined]

    def families(self) -> Iterable["Family"]:
        """Return the families that have samples."""
        return self._families.values()

    def _family(self, name: str) -> "Family":
        if name not in self._families:
            self._families[name] = _new_family(name)
        return self._families[name]


def _new_family(name: str) -> "Family":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    metric = BY_NAME[name]
    if metric.kind is Kind.HISTOGRAM:
        return HistogramMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    if metric.kind is Kind.COUNTER:
        return CounterMetricFamily(metric.full_name.removesuffix("_total"), metric.help, labels=metric.labels)
    return GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
