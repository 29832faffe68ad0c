import logging
from collections.abc import Callable
from typing import Any

import pytest

from bakeoff.errors import DeviceError
from monitoring.device import Discovery, FastReading, Identity, SlowReading
from monitoring.sampler import Sampler, Tier

CARD = Identity("GPU-1", 0, "NVIDIA L4", "l4")


class ScriptedDevice:
    """Answer until `lost` is set; count calls."""

    def __init__(self) -> None:
        self.identity = CARD
        self.lost = False
        self.power_w: float | None = 50.0
        self.mask: int | None = 0x4
        self.reads = 0
        self.reopened = 0

    def read_fast(self) -> FastReading:
        self.reads += 1
        self._check()
        return FastReading(throttle_mask=self.mask, power_average_w=self.power_w)

    def read_slow(self) -> SlowReading:
        self._check()
        return SlowReading(pcie_replays=1)

    def reopen(self) -> None:
        self.reopened += 1
        self._check()

    def _check(self) -> None:
        if self.lost:
            raise DeviceError("GPU-1 is lost")


@pytest.fixture
def device() -> ScriptedDevice:
    return ScriptedDevice()


@pytest.fixture
def sampler(device: ScriptedDevice, clock: Any) -> Sampler:
    return Sampler(lambda: Discovery((device,)), clock=clock, wall=lambda: 1.7e9)


def step(sampler: Sampler, clock: Any, times: int, seconds: float = 0.2) -> None:
    for _ in range(times):
        clock.advance(seconds)
        sampler.collect(Tier.FAST)


def test_the_newest_reading_is_kept_with_its_time(sampler: Sampler, device: ScriptedDevice, clock: Any) -> None:
    step(sampler, clock, 1)
    device.power_w = 60
    step(sampler, clock, 1)
    [state] = sampler.snapshot.devices
    assert state.fast is not None
    assert (state.fast.reading.power_average_w, state.fast.at_s) == (60, clock.now_s)


def test_asking_for_the_state_reads_no_device(sampler: Sampler, device: ScriptedDevice, clock: Any) -> None:
    step(sampler, clock, 3)
    for _ in range(100):
        assert sampler.snapshot.devices
    assert device.reads == 3


def test_throttle_time_and_energy_add_up_between_samples(sampler: Sampler, clock: Any) -> None:
    step(sampler, clock, 11)
    [state] = sampler.snapshot.devices
    assert state.throttle_s is not None
    assert state.throttle_s["sw_power_cap"] == pytest.approx(2)
    assert state.throttle_s["hw_slowdown"] == 0
    assert state.integrated_j == pytest.approx(100)


def test_a_pause_over_3_s_adds_neither_energy_nor_throttle_time(sampler: Sampler, clock: Any) -> None:
    step(sampler, clock, 2, seconds=3.5)
    [state] = sampler.snapshot.devices
    assert (state.integrated_j, state.throttle_s and state.throttle_s["sw_power_cap"]) == (0, 0)


def test_figures_that_were_never_read_are_absent(sampler: Sampler, device: ScriptedDevice, clock: Any) -> None:
    device.mask = device.power_w = None
    step(sampler, clock, 3)
    [state] = sampler.snapshot.devices
    assert (state.throttle_s, state.integrated_j, state.driver_power_cap_s) == (None, None, None)


def test_a_lost_gpu_is_down_and_its_readings_are_gone(sampler: Sampler, device: ScriptedDevice, clock: Any) -> None:
    step(sampler, clock, 2)
    sampler.collect(Tier.SLOW)
    device.lost = True
    step(sampler, clock, 1)
    [state] = sampler.snapshot.devices
    assert (state.up, state.fast, state.slow) == (False, None, None)
    assert sampler.snapshot.tiers[Tier.FAST].success is False


def test_a_lost_gpu_is_reopened_after_growing_pauses(sampler: Sampler, device: ScriptedDevice, clock: Any) -> None:
    step(sampler, clock, 1)
    device.lost = True
    step(sampler, clock, 1)
    attempts = []
    for _ in range(160):
        step(sampler, clock, 1, seconds=0.5)
        attempts.append(device.reopened)
    # Pauses of 1, 2, 4, 8, 16, 32 s end after 1, 3, 7, 15, 31 and 63 s.
    assert [attempts.index(n) // 2 for n in range(1, 7)] == [0, 2, 6, 14, 30, 62]
    assert device.reads == 2


def test_a_gpu_that_comes_back_is_up_again_and_its_totals_go_on(sampler: Sampler, device: ScriptedDevice, clock: Any) -> None:
    step(sampler, clock, 11)
    device.lost = True
    step(sampler, clock, 1)
    device.lost = False
    step(sampler, clock, 11)
    [state] = sampler.snapshot.devices
    assert state.up
    assert state.integrated_j is not None
    assert 100 < state.integrated_j < 200


def test_without_a_gpu_collection_does_not_succeed_and_says_why(clock: Any) -> None:
    sampler = Sampler(lambda: Discovery((), "no NVIDIA driver library on this machine"), clock=clock)
    sampler.collect(Tier.FAST)
    assert sampler.snapshot.devices == ()
    assert sampler.snapshot.reason == "no NVIDIA driver library on this machine"
    assert sampler.snapshot.tiers[Tier.FAST].success is False
    assert sampler.snapshot.tiers[Tier.FAST].last_success_unix_s is None


def test_a_gpu_whose_driver_comes_later_is_found_later(device: ScriptedDevice, clock: Any) -> None:
    found = [Discovery((), "no driver yet"), Discovery((device,))]
    sampler = Sampler(lambda: found.pop(0), clock=clock)
    sampler.collect(Tier.FAST)
    step(sampler, clock, 4)
    assert not sampler.snapshot.devices
    step(sampler, clock, 2)
    assert [d.identity for d in sampler.snapshot.devices] == [CARD]


def test_the_thread_samples_until_it_is_stopped(device: ScriptedDevice, eventually: Callable[[Callable[[], bool]], None]) -> None:
    sampler = Sampler(lambda: Discovery((device,)))
    sampler.start()
    try:
        eventually(lambda: device.reads >= 4)
    finally:
        sampler.stop()
    reads = device.reads
    assert reads >= 4
    assert sampler._thread is None


def test_the_thread_survives_an_error_nobody_foresaw(
    device: ScriptedDevice, eventually: Callable[[Callable[[], bool]], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "monitoring.sampler")
    sampler = Sampler(lambda: Discovery((device,)))
    sampler.start()
    try:
        device.mask = "no mask"  # type: ignore[assignment]
        before = device.reads
        eventually(lambda: device.reads >= before + 3)
        device.mask = 0x4
        device.power_w = 77
        eventually(lambda: _power(sampler) == 77)
    finally:
        sampler.stop()


def _power(sampler: Sampler) -> float | None:
    fast = sampler.snapshot.devices[0].fast
    return None if fast is None else fast.reading.power_average_w
