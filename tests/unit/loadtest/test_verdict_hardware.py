import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.hardware import NOT_MEASURED, Window, counter_difference, hardware_figures, power_integral
from loadtest.telemetry_checks import longest_gap_s
from loadtest.telemetry_series import Series

S = 1_000_000_000


def series(values: Callable[[float], float], seconds: int = 100) -> Series:
    return Series({}, np.arange(seconds, dtype=np.int64) * S, np.array([values(float(t)) for t in range(seconds)]))


def frame(*rows: tuple[str, dict[str, str], Callable[[float], float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"t_unix_ns": t * S, "metric": metric, "labels": json.dumps({"gpu_uuid": "G", **labels}), "value": value(float(t))}
            for metric, labels, value in rows
            for t in range(100)
        ]
    )


@given(st.floats(3, 40), st.floats(50, 95))
def test_constant_power_gives_power_times_time_from_counter_and_integral_alike(start: float, end: float) -> None:
    window = (int(start * S), int(end * S))
    expected = pytest.approx(200 * (window[1] - window[0]) / S)
    assert counter_difference(series(lambda t: 7e6 + 200 * t), *window) == expected
    assert power_integral(series(lambda _: 200.0), *window) == expected


def test_rising_power_is_integrated_by_trapezoids() -> None:
    assert power_integral(series(lambda t: 10 * t), 20 * S, 40 * S) == pytest.approx(10 * (40**2 - 20**2) / 2)


def test_a_counter_that_was_reset_gives_no_energy() -> None:
    assert counter_difference(series(lambda t: 100 * t if t < 30 else 100 * (t - 30)), 10 * S, 50 * S) is None


def test_samples_that_end_before_the_window_does_give_no_energy() -> None:
    assert counter_difference(series(lambda t: 100 * t, seconds=40), 10 * S, 60 * S) is None
    assert power_integral(series(lambda _: 100.0, seconds=40), 10 * S, 60 * S) is None


POWER = ("gpu_power_draw_watts", {"window": "instant"}, lambda _: 150.0)
COUNTER = ("gpu_energy_joules_total", {"source": "counter"}, lambda t: 150.0 * t)
WINDOWS = [Window(0, "x", 10 * S, 30 * S, ("G",)), Window(3, "x", 50 * S, 70 * S, ("G",))]


def test_the_counter_is_preferred_and_named_as_the_method() -> None:
    found = hardware_figures(frame(POWER, COUNTER), WINDOWS, frozenset())
    assert (found.method, found.energy_j, found.mean_power_w) == ("counter", pytest.approx(6000), pytest.approx(150))
    assert found.integrated_energy_j == pytest.approx(6000)
    assert "shorter than 60 s" in found.note


def test_without_a_counter_energy_is_integrated_and_says_so() -> None:
    assert hardware_figures(frame(POWER), WINDOWS, frozenset()).method == "integrated"


def test_a_card_that_serves_both_arms_has_no_attributable_energy() -> None:
    found = hardware_figures(frame(POWER, COUNTER), WINDOWS, frozenset({"G"}))
    assert found.energy_j is None
    assert found.mean_power_w is None
    assert "shared" in found.note


def test_without_gpu_series_nothing_is_measured() -> None:
    found = hardware_figures(frame(POWER), [Window(0, "x", 10 * S, 30 * S, ())], frozenset())
    assert (found.energy_j, found.temperature_max_c, found.note) == (None, None, NOT_MEASURED)


def test_temperature_and_clock_come_from_the_windows_alone() -> None:
    heat = ("gpu_temperature_celsius", {"sensor": "gpu"}, lambda t: 60.0 if 50 <= t <= 70 else 90.0 if t < 5 else 50.0)
    clock = ("gpu_clock_hertz", {"domain": "sm"}, lambda t: 1e9 if t < 40 else 2e9)
    found = hardware_figures(frame(POWER, heat, clock), WINDOWS, frozenset())
    assert found.temperature_max_c == 60
    assert found.sm_clock_mean_hz == pytest.approx(1.5e9)


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 1),
        ([0, 4, 12], 8),  # touches the window although most of it lies outside
        ([6], 4),
        ([], 7),
        ([0, 1, 20, 21], 19),
    ],
)
def test_the_longest_gap_is_between_samples_that_touch_the_window_or_its_edges(times: list[int], gap: int) -> None:
    assert longest_gap_s(np.array(times, dtype=np.int64) * S, 2 * S, 9 * S) == gap
