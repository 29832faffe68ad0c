from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from bakeoff.metrics import BY_NAME, PREFIX
from monitoring.collector import GpuCollector
from monitoring.device import Discovery, FastReading, SlowReading
from monitoring.exporter import build_registry
from monitoring.perfanalyzer import PerfAnalyzerCollector
from monitoring.pools import Pools
from monitoring.prices import GpuHourPrice
from monitoring.replay import ReplayedDevice, load_capture, replay_source
from monitoring.sampler import Sampler, Tier
from monitoring.scrape import Sample, parse


def text_of(*collectors: Any) -> str:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry).decode()


def samples_of(sampler: Sampler) -> list[Sample]:
    return parse(text_of(GpuCollector(sampler)))


@pytest.fixture
def replayed(clock: Any) -> Sampler:
    """Have sampled the recorded H200 for 20 s, 15 of them under load."""
    sampler = Sampler(lambda: replay_source("h200", Pools(), node="node-1", clock=clock), clock=clock, wall=lambda: 1.7e9)
    sampler.collect(Tier.FAST)
    for _ in range(100):
        clock.advance(0.2)
        sampler.collect(Tier.FAST)
    sampler.collect(Tier.SLOW)
    return sampler


def test_the_replayed_cards_page_is_the_golden(replayed: Sampler, golden: Callable[[str, str], None]) -> None:
    registry = build_registry(replayed, None, [GpuHourPrice("h200", "USD", 3.5)])
    golden("exposition_h200_replay.txt", generate_latest(registry).decode())


def test_a_page_without_a_gpu_is_the_golden(clock: Any, golden: Callable[[str, str], None]) -> None:
    reason = "no NVIDIA driver library on this machine"
    sampler = Sampler(lambda: Discovery((), reason, lambda: {("nvmlInit", "library_not_found"): 1}), clock=clock)
    sampler.collect(Tier.FAST)
    sampler.collect(Tier.SLOW)
    golden("exposition_no_gpu.txt", text_of(GpuCollector(sampler), PerfAnalyzerCollector(sampler)))


def test_the_binding_and_the_page_agree_on_four_cards(shim: Any, golden: Callable[[str, str], None]) -> None:
    text = shim("T4,L4,A100,H200").run("""
        from prometheus_client import CollectorRegistry, generate_latest
        from monitoring.collector import GpuCollector
        from monitoring.sampler import Sampler, Tier
        sampler = Sampler(lambda: discover(node="node-1", own_pids=set), clock=lambda: 0.0, wall=lambda: 1.7e9)
        sampler.collect(Tier.FAST)
        sampler.collect(Tier.SLOW)
        registry = CollectorRegistry()
        registry.register(GpuCollector(sampler))
        answer(generate_latest(registry).decode())
    """)
    golden("exposition_four_cards.txt", text)


def test_without_a_gpu_there_is_no_series_of_a_device(clock: Any) -> None:
    sampler = Sampler(lambda: Discovery((), "none"), clock=clock)
    sampler.collect(Tier.FAST)
    names = {sample.metric.removeprefix(PREFIX) for sample in samples_of(sampler)}
    assert names
    assert all(name.startswith("gpu_exporter_") for name in names)


def test_every_series_is_declared_with_these_labels(replayed: Sampler) -> None:
    for family in GpuCollector(replayed, [GpuHourPrice("p", "USD", 1)]).collect():
        declared = next(m for m in BY_NAME.values() if m.full_name in (family.name, f"{family.name}_total"))
        assert (family.type, family.documentation) == (str(declared.kind), declared.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(declared.labels)


def test_a_stale_reading_is_absent_and_its_gpu_is_down(replayed: Sampler, clock: Any) -> None:
    clock.advance(3.1)
    names = {s.metric.removeprefix(PREFIX): s.value for s in samples_of(replayed)}
    assert names["gpu_up"] == 0
    assert "gpu_power_draw_watts" not in names
    assert "gpu_energy_joules_total" not in names
    assert "gpu_power_limit_watts" in names
    clock.advance(30)
    assert "gpu_power_limit_watts" not in {s.metric.removeprefix(PREFIX) for s in samples_of(replayed)}


def test_a_reading_of_3_s_ago_still_counts(replayed: Sampler, clock: Any) -> None:
    clock.advance(2.9)
    assert "bakeoff_gpu_power_draw_watts" in {s.metric for s in samples_of(replayed)}


class Bare(ReplayedDevice):
    """Report nothing at all."""

    def read_fast(self) -> FastReading:
        return FastReading()

    def read_slow(self) -> SlowReading:
        return SlowReading()


def test_what_a_card_does_not_report_is_absent_and_named(clock: Any) -> None:
    sampler = Sampler(lambda: Discovery((Bare(load_capture("h200")),)), clock=clock)
    sampler.collect(Tier.FAST)
    sampler.collect(Tier.SLOW)
    samples = samples_of(sampler)
    device = {s.metric for s in samples if not s.metric.startswith("bakeoff_gpu_exporter_")}
    assert device == {"bakeoff_gpu_info", "bakeoff_gpu_up"}
    features = {s.labels["feature"]: s.value for s in samples if s.metric == "bakeoff_gpu_exporter_feature_supported"}
    assert set(features.values()) == {0}


def test_a_scrape_reads_no_device(replayed: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a scrape called the device")

    for name in ("read_fast", "read_slow", "reopen"):
        monkeypatch.setattr(ReplayedDevice, name, fail)
    assert samples_of(replayed)


def test_no_created_series_is_served(replayed: Sampler) -> None:
    assert "_created" not in text_of(GpuCollector(replayed))


def test_perf_analyzer_finds_its_names_with_the_uuid_alone(replayed: Sampler) -> None:
    samples = parse(text_of(PerfAnalyzerCollector(replayed)))
    assert {s.metric for s in samples} == {
        "nv_gpu_utilization", "nv_gpu_power_usage", "nv_gpu_memory_used_bytes", "nv_gpu_memory_total_bytes",
    }  # fmt: skip
    assert all(set(s.labels) == {"gpu_uuid"} for s in samples)


def test_the_collection_time_is_counted_in_its_bucket() -> None:
    from monitoring.health import BOUNDS_S, TierHealth

    health = TierHealth()
    for duration_s in (0.0004, 0.0005, 1e9):
        health = health.after(success=True, unix_s=1.0, duration_s=duration_s)
    assert (health.counts[0], health.counts[-1], sum(health.counts)) == (2, 1, 3)
    assert replace(health, counts=()).total_s == pytest.approx(1e9)
    assert BOUNDS_S[0] == 0.0005
