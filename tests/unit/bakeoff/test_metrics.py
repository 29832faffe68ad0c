"""The metric declarations keep the naming rules that users rely on."""

from itertools import pairwise

import pytest

from bakeoff.metrics import BY_NAME, DECLARED, Kind, latency_buckets


@pytest.mark.parametrize("metric", DECLARED, ids=lambda m: m.name)
def test_names_follow_the_rules(metric):
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.full_name.startswith("bakeoff_")
    assert metric.help.endswith(".")
    assert not {"pid", "pod", "request_id"} & set(metric.labels)
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)


def test_every_name_is_declared_once():
    assert len(BY_NAME) == len(DECLARED)


def test_latency_buckets_are_ten_a_decade_from_half_a_millisecond_to_a_minute():
    bounds = latency_buckets()
    assert bounds[0] == 0.0005
    assert bounds[-1] == 60.0
    assert all(b / a < 1.27 for a, b in pairwise(bounds))


def test_the_slo_is_always_a_bound():
    assert 0.0437 in latency_buckets(0.0437)
