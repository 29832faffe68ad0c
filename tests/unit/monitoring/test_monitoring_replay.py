from collections.abc import Callable

import pytest

from bakeoff.errors import DeviceError
from monitoring.pools import Pools
from monitoring.replay import ReplayedDevice, load_capture, replay_source

LENGTH_S = load_capture("h200").length_s


def test_a_replayed_card_is_marked_simulated(clock: Callable[[], float]) -> None:
    [device] = replay_source("h200", Pools(), clock=clock).devices
    assert device.identity.simulated
    assert device.identity.name == "NVIDIA H200 (SIMULATED)"
    assert device.identity.pool == "h200"


def test_it_answers_what_was_recorded_at_this_moment(clock) -> None:
    device = ReplayedDevice(load_capture("h200"), clock=clock)
    idle = device.read_fast()
    clock.advance(30)
    load = device.read_fast()
    assert (idle.power_average_w, idle.throttle_mask) == (78.173, 1)
    assert load.throttle_mask == 4
    assert load.power_average_w == pytest.approx(690, rel=0.02)
    assert load.clock_hz["sm"] == pytest.approx(1440e6, rel=0.03)


def test_its_energy_counter_never_falls_when_the_recording_repeats(clock) -> None:
    device = ReplayedDevice(load_capture("h200"), clock=clock)
    energies = []
    for _ in range(400):
        energies.append(device.read_fast().energy_j)
        clock.advance(0.5)
    assert energies == sorted(energies)
    recorded = load_capture("h200").fast
    once = recorded[-1].energy_j - recorded[0].energy_j
    assert energies[-1] - energies[0] == pytest.approx(199.5 / LENGTH_S * once, rel=0.1)


def test_two_replayed_cards_differ_in_uuid_and_index() -> None:
    capture = load_capture("h200")
    first, second = (ReplayedDevice(capture, index=i).identity for i in (0, 1))
    assert first.uuid != second.uuid
    assert (first.index, second.index) == (0, 1)


def test_what_was_recorded_only_once_while_idle_is_not_played_as_if_it_changed(clock) -> None:
    device = ReplayedDevice(load_capture("h200"), clock=clock)
    assert device.read_fast().memory_temperature_c is None
    assert device.read_fast().performance_state is None
    assert device.read_slow().temperature_margin_c is None


def test_an_unknown_recording_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(DeviceError, match=r"'b200'.*h200"):
        load_capture("b200")
