"""Wake at an exact time: a Linux kernel timer, because the event loops' own timers round to whole milliseconds."""

import ctypes
import os
import time
from functools import cache
from typing import Any

from bakeoff.errors import LoadError

_ABSOLUTE = 1
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class _TimeSpec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _TimerSpec(ctypes.Structure):
    _fields_ = [("interval", _TimeSpec), ("value", _TimeSpec)]


class KernelTimer:
    """Own a timerfd on the monotonic clock; its descriptor turns readable when the armed time comes."""

    def __init__(self) -> None:
        self.fd: int = _libc().timerfd_create(time.CLOCK_MONOTONIC, _FLAGS)
        if self.fd < 0:
            raise LoadError(f"cannot create a kernel timer: {os.strerror(ctypes.get_errno())}; raise the limit of open files")

    def arm(self, monotonic_ns: int) -> None:
        """Set the time, in nanoseconds of time.monotonic_ns(); a time in the past fires at once."""
        seconds, nanoseconds = divmod(max(1, monotonic_ns), 1_000_000_000)
        spec = _TimerSpec(_TimeSpec(0, 0), _TimeSpec(seconds, nanoseconds))
        if _libc().timerfd_settime(self.fd, _ABSOLUTE, ctypes.byref(spec), None):
            raise LoadError(f"cannot arm a kernel timer for {monotonic_ns} ns: {os.strerror(ctypes.get_errno())}")

    def clear(self) -> None:
        """Take note of a firing, so that the descriptor waits for the next."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Give the descriptor back."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
