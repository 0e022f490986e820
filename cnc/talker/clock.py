"""CLOCK_TAI, and waits that end at an instant of it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import time
from pathlib import Path

NS_PER_S = 1_000_000_000
TIMER_ABSTIME = 1
LIBC = ctypes.CDLL(None)
REAL_TIME_PRIORITY = 50


class Timespec(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def tai_ns() -> int:
    """CLOCK_TAI, in nanoseconds since 1970."""
    return time.clock_gettime_ns(time.CLOCK_TAI)


def tai_offset_ns() -> int:
    """TAI minus CLOCK_REALTIME, the clock of socket time stamps: a whole number of seconds."""
    return round((tai_ns() - time.time_ns()) / NS_PER_S) * NS_PER_S


def sleep_until(instant_ns: int) -> None:
    """Return at an instant of CLOCK_TAI, at once if it has passed.

    `time.sleep` takes a duration, for which the clock would be read twice: what passes between
    that and the wait makes a frame late, and in virtual time only reading the clock takes time.
    """
    until = Timespec(*divmod(instant_ns, NS_PER_S))
    deadline = ctypes.byref(until)
    while LIBC.clock_nanosleep(time.CLOCK_TAI, TIMER_ABSTIME, deadline, None) == errno.EINTR:
        pass


def be_punctual(*, go_first: bool) -> None:
    """Ask the kernel for exact timers and, to `go_first`, for the processor when they fire.

    Without CAP_SYS_NICE the latter is left out: less exact, not wrong. Garbage is not collected
    from then on.
    """
    Path("/proc/self/timerslack_ns").write_text("1")
    gc.disable()
    if go_first:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REAL_TIME_PRIORITY))
