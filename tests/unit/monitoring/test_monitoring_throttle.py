import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring import throttle
from monitoring.replay import load_capture


@pytest.mark.parametrize(
    ("constant", "name"),
    [
        ("nvmlClocksEventReasonGpuIdle", "gpu_idle"),
        ("nvmlClocksEventReasonApplicationsClocksSetting", "applications_clocks_setting"),
        ("nvmlClocksEventReasonSwPowerCap", "sw_power_cap"),
        ("nvmlClocksEventReasonHwSlowdown", "hw_slowdown"),
        ("nvmlClocksEventReasonSyncBoost", "sync_boost"),
        ("nvmlClocksEventReasonSwThermalSlowdown", "sw_thermal_slowdown"),
        ("nvmlClocksEventReasonHwThermalSlowdown", "hw_thermal_slowdown"),
        ("nvmlClocksEventReasonHwPowerBrakeSlowdown", "hw_power_brake_slowdown"),
        ("nvmlClocksEventReasonDisplayClockSetting", "display_clock_setting"),
    ],
)
def test_each_reason_has_the_bindings_bit(constant: str, name: str) -> None:
    import pynvml

    assert throttle.decode(getattr(pynvml, constant)) == {name}


def test_no_bit_is_no_reason() -> None:
    assert throttle.decode(0) == frozenset()


def test_a_bit_without_a_name_is_unknown() -> None:
    assert throttle.decode(0x4 | 0x8000) == {"sw_power_cap", "unknown"}


@given(masks=st.lists(st.integers(0, 0x1FF), max_size=40), elapsed_s=st.floats(0.01, 3))
def test_no_reason_is_counted_longer_than_time_passed(masks: list[int], elapsed_s: float) -> None:
    totals = throttle.no_time()
    for mask in masks:
        totals = throttle.accumulate(totals, mask, elapsed_s)
    assert all(0 <= total <= len(masks) * elapsed_s * (1 + 1e-9) for total in totals.values())


@pytest.mark.parametrize("elapsed_s", [3.1, 0, -1])
def test_a_gap_or_a_clock_that_stands_adds_nothing(elapsed_s: float) -> None:
    assert throttle.accumulate(throttle.no_time(), 0x4, elapsed_s) == throttle.no_time()


def test_sampled_time_of_the_recorded_card_agrees_with_its_driver() -> None:
    capture = load_capture("h200")
    totals, times = throttle.no_time(), capture.times_s[::10]
    readings = capture.fast[::10]
    for i in range(1, len(times)):
        totals = throttle.accumulate(totals, readings[i - 1].throttle_mask or 0, times[i] - times[i - 1])
    assert totals["sw_power_cap"] == pytest.approx(readings[-1].driver_power_cap_s, rel=0.02)
    assert totals["hw_thermal_slowdown"] == 0


def test_a_driver_counter_is_believed_once_it_kept_pace_with_time() -> None:
    count = throttle.DriverCount().after(0, 10).after(4, 14)
    assert count.seconds is None
    assert count.after(6, 16).seconds == 16


def test_a_driver_counter_that_outruns_time_is_dropped_for_good() -> None:
    count = throttle.DriverCount().after(0, 10).after(10, 30)
    assert count.dropped
    assert count.after(20, 31).after(40, 32).seconds is None


def test_a_driver_counter_starts_anew_after_a_reload() -> None:
    count = throttle.DriverCount().after(0, 10).after(6, 16).after(7, 0)
    assert count.seconds is None
    assert count.after(13, 5).seconds == 5


def test_a_card_without_a_driver_counter_has_none() -> None:
    assert throttle.DriverCount().after(0, None).after(10, None).seconds is None
