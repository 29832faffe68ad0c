import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.energy import counter_energy, disagreement, integrated_energy
from monitoring.replay import load_capture

STEADY = [(float(t), 100.0 * t) for t in range(11)]


def test_the_counter_gives_its_advance_over_the_window() -> None:
    energy = counter_energy(STEADY, 2, 7)
    assert energy is not None
    assert (energy.joules, energy.covered_s, energy.method, energy.mean_power_w) == (500, 5, "counter", 100)


def test_window_ends_between_samples_are_interpolated() -> None:
    energy = counter_energy(STEADY, 2.5, 3.25)
    assert energy is not None
    assert energy.joules == pytest.approx(75)


def test_a_counter_that_fell_gives_no_energy() -> None:
    reloaded = [(0.0, 900.0), (1.0, 1000.0), (2.0, 5.0), (3.0, 1200.0)]
    assert counter_energy(reloaded, 0, 3) is None


def test_a_fall_outside_the_window_does_no_harm() -> None:
    energy = counter_energy([(0.0, 900.0), (1.0, 5.0), (2.0, 7.0), (3.0, 9.0)], 1, 3)
    assert energy is not None
    assert energy.joules == 4


@pytest.mark.parametrize(("start_s", "end_s"), [(-1, 5), (5, 11), (4, 4), (6, 5)])
def test_a_window_that_samples_do_not_surround_gives_no_energy(start_s: float, end_s: float) -> None:
    assert counter_energy(STEADY, start_s, end_s) is None


def test_a_window_that_ends_inside_a_long_gap_gives_no_counter_energy() -> None:
    assert counter_energy([(0.0, 0.0), (1.0, 100.0), (5.0, 500.0), (6.0, 600.0)], 0, 3) is None


def test_unread_samples_are_no_zeros() -> None:
    energy = integrated_energy([(0.0, 50.0), (1.0, None), (2.0, 50.0)], 0, 2)
    assert energy is not None
    assert energy.joules == 100


def test_the_integral_does_not_bridge_a_gap_over_3_s() -> None:
    energy = integrated_energy([(0.0, 50.0), (1.0, 50.0), (4.5, 50.0), (5.5, 50.0)], 0, 5.5)
    assert energy is not None
    assert (energy.joules, energy.covered_s, energy.complete) == (100, 2, False)


def test_no_samples_in_the_window_give_no_integral() -> None:
    assert integrated_energy([(0.0, 50.0), (1.0, 50.0)], 2, 3) is None


def test_sources_are_not_compared_when_one_does_not_cover_the_window() -> None:
    part = integrated_energy([(0.0, 50.0), (1.0, 50.0)], 0, 2)
    assert disagreement(counter_energy(STEADY, 0, 2), part) is None


@given(
    gaps=st.lists(st.floats(0.01, 2.999), min_size=2, max_size=30),
    power_w=st.floats(1, 1000),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_both_sources_agree_on_constant_power(gaps: list[float], power_w: float, ends: tuple[float, float]) -> None:
    times = np.cumsum([0.0, *gaps])
    start_s, end_s = sorted(float(e * times[-1]) for e in ends)
    if end_s - start_s < 1e-6:
        return
    counter = counter_energy([(float(t), float(power_w * t)) for t in times], start_s, end_s)
    integrated = integrated_energy([(float(t), power_w) for t in times], start_s, end_s)
    assert counter is not None
    assert integrated is not None
    assert integrated.complete
    assert counter.joules == pytest.approx(power_w * (end_s - start_s), rel=1e-6, abs=1e-6)
    assert integrated.joules == pytest.approx(counter.joules, rel=1e-6, abs=1e-6)


@given(cut=st.floats(0.5, 9.5), powers=st.lists(st.floats(0, 700), min_size=11, max_size=11))
def test_the_integral_over_two_parts_is_the_integral_over_both(cut: float, powers: list[float]) -> None:
    samples = [(float(t), p) for t, p in enumerate(powers)]
    parts = [integrated_energy(samples, 0, cut), integrated_energy(samples, cut, 10)]
    whole = integrated_energy(samples, 0, 10)
    assert whole is not None
    assert sum(part.joules for part in parts if part) == pytest.approx(whole.joules)


def test_the_integral_equals_numpys_on_the_recorded_card() -> None:
    capture = load_capture("h200")
    power = [reading.power_average_w for reading in capture.fast]
    energy = integrated_energy(list(zip(capture.times_s, power, strict=True)), capture.times_s[0], capture.times_s[-1])
    assert energy is not None
    assert energy.joules == pytest.approx(np.trapezoid(power, capture.times_s))


@pytest.mark.parametrize("rate_hz", [50, 5, 1])
def test_the_recorded_cards_counter_and_power_agree_within_5_percent_under_load(rate_hz: int) -> None:
    capture = load_capture("h200")
    step = 50 // rate_hz
    times, fast = capture.times_s[::step], capture.fast[::step]
    counter = counter_energy([(t, r.energy_j) for t, r in zip(times, fast, strict=True)], 10, 50)
    integrated = integrated_energy([(t, r.power_w) for t, r in zip(times, fast, strict=True)], 10, 50)
    apart = disagreement(counter, integrated)
    assert counter is not None
    assert apart is not None
    assert apart < 0.05
    assert 650 < counter.mean_power_w < 700
