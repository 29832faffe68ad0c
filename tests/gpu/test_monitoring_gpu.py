"""Read the real card of this machine, idle and under matrix products."""

import time

import pytest

from bakeoff.gpus import lookup
from monitoring.energy import counter_energy, disagreement, integrated_energy
from monitoring.nvml import discover
from monitoring.pools import catalogue_name
from monitoring.sampler import Sampler, Tier
from monitoring.tracking import DeviceState

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    found = discover()
    if not found.devices:
        pytest.skip(f"no GPU: {found.reason}")
    sampler = Sampler(lambda: found)
    sampler.collect(Tier.FAST)
    sampler.collect(Tier.SLOW)
    return sampler


def first(sampler: Sampler) -> DeviceState:
    return sampler.snapshot.devices[0]


def test_the_card_is_in_the_catalogue_with_its_memory_and_power(sampler: Sampler) -> None:
    state = first(sampler)
    assert state.fast is not None
    assert state.slow is not None
    card = lookup(catalogue_name(state.identity.name) or "")
    assert state.fast.reading.memory_size_bytes == pytest.approx(card.memory_bytes, rel=0.1)
    assert state.slow.reading.power_limit_w["default"] == pytest.approx(card.tdp_w, rel=0.01)


def test_the_core_figures_are_there_and_plausible(sampler: Sampler) -> None:
    state = first(sampler)
    assert state.fast is not None
    fast = state.fast.reading
    assert fast.power_w is not None
    assert 5 < fast.power_w < 1500
    assert fast.temperature_c is not None
    assert 10 < fast.temperature_c < 100
    assert fast.throttle_mask is not None
    assert fast.energy_j is not None
    assert 1e8 < fast.clock_hz["sm"] < 4e9


def test_one_fast_collection_takes_less_than_a_tenth_of_its_period(sampler: Sampler) -> None:
    took = []
    for _ in range(30):
        began = time.perf_counter()
        sampler.collect(Tier.FAST)
        took.append(time.perf_counter() - began)
    assert sorted(took)[15] < 0.02


def test_counter_and_integral_agree_within_5_percent_under_load() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    sampler = Sampler(discover)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    sampler.start()
    try:
        counter, power = _under_load(torch, a, sampler, seconds=12)
    finally:
        sampler.stop()
    start_s, end_s = counter[0][0] + 3, counter[-1][0] - 1
    apart = disagreement(counter_energy(counter, start_s, end_s), integrated_energy(power, start_s, end_s))
    assert apart is not None
    assert apart < 0.05


def _under_load(torch, a, sampler, seconds):
    counter, power = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(50):
            torch.matmul(a, a)
        torch.cuda.synchronize()
        taken = first(sampler).fast
        if taken is not None and (not counter or taken.at_s > counter[-1][0]):
            counter.append((taken.at_s, taken.reading.energy_j))
            power.append((taken.at_s, taken.reading.power_w))
    return counter, power
