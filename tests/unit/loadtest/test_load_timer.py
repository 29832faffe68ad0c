"""The kernel timer fires at its time and not before."""

import select
import time

from loadtest.clock import Clock
from loadtest.timer import KernelTimer


def wait(timer, timeout_s):
    return bool(select.select([timer.fd], [], [], timeout_s)[0])


def test_it_fires_no_earlier_than_armed():
    timer = KernelTimer()
    due = time.monotonic_ns() + 5_000_000
    timer.arm(due)
    assert wait(timer, 30)
    assert time.monotonic_ns() >= due
    timer.close()


def test_a_time_in_the_past_fires_at_once_and_clearing_rearms():
    timer = KernelTimer()
    timer.arm(0)
    assert wait(timer, 30)
    timer.clear()
    assert not wait(timer, 0)
    timer.clear()
    timer.close()
    timer.close()


def test_clocks_with_one_offset_agree_and_start_at_unix_time():
    clock = Clock.started_now()
    assert abs(clock.now_ns() - time.time_ns()) < 1_000_000_000
    assert clock.monotonic_ns(clock.now_ns()) <= time.monotonic_ns()
    assert clock.until_s(clock.now_ns() - 1) == 0
    assert 9 < clock.until_s(clock.now_ns() + 10_000_000_000) <= 10
