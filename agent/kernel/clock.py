"""The clocks a schedule can run on, how far they are from each other, and when they are set."""

from __future__ import annotations

import ctypes
import errno
import os
import time

from agent.model import Clock

NS_PER_S = 1_000_000_000

CLOCK_IDS = {
    Clock.TAI: time.CLOCK_TAI,
    Clock.MONOTONIC: time.CLOCK_MONOTONIC,
    Clock.REALTIME: time.CLOCK_REALTIME,
    Clock.BOOTTIME: time.CLOCK_BOOTTIME,
}
THAT_CAN_BE_SET = (Clock.TAI, Clock.REALTIME)
READINGS = 5

# linux/timerfd.h
TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET = 1, 2
LONG_MAX = ctypes.c_ulong(-1).value >> 1


def now_ns(clock: Clock) -> int:
    return time.clock_gettime_ns(CLOCK_IDS[clock])


def tai_offset_s() -> int:
    """TAI - UTC in seconds as this kernel knows it: 0 until ptp4l or chrony has set it."""
    difference_ns = now_ns(Clock.TAI) - now_ns(Clock.REALTIME)
    return round(difference_ns / NS_PER_S)


def offsets_ns() -> dict[Clock, int]:
    """How far each clock that can be set is ahead of CLOCK_MONOTONIC, which cannot.

    All are slewed alike, so that an offset changes only when its clock is set.
    """
    return {clock: _offset_ns(clock) for clock in THAT_CAN_BE_SET}


def _offset_ns(clock: Clock) -> int:
    """The quickest of a few readings is the one least disturbed."""
    readings = []
    for _ in range(READINGS):
        before_ns = now_ns(Clock.MONOTONIC)
        clock_ns = now_ns(clock)
        after_ns = now_ns(Clock.MONOTONIC)
        readings.append((after_ns - before_ns, clock_ns - (before_ns + after_ns) // 2))
    return min(readings)[1]


class MachineClocks:
    """This machine's clocks, as `agent.switch.Ports` offers them: those of ports in memory, too."""

    def now_ns(self, of: Clock) -> int:
        return now_ns(of)

    def clock_offsets_ns(self) -> dict[Clock, int]:
        return offsets_ns()

    def tai_offset_s(self) -> int:
        return tai_offset_s()


class ClockSetAlarm:
    """Readable when CLOCK_REALTIME was set: a timer that is cancelled by that.

    See timerfd_create(2). A new TAI offset alone does not cancel it: timerfd_clock_was_set compares
    CLOCK_REALTIME only.
    """

    def __init__(self) -> None:
        """Raises OSError."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.timerfd_create(time.CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC)
        never = _TimerSpec(value_s=LONG_MAX)
        flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET
        if self._fd < 0 or libc.timerfd_settime(self._fd, flags, ctypes.byref(never), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd: cannot watch CLOCK_REALTIME")

    def fileno(self) -> int:
        return int(self._fd)

    def acknowledge(self) -> bool:
        """Make it unreadable until the clock is set once more; whether it was set."""
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return False
        except OSError as error:
            return error.errno == errno.ECANCELED
        return False

    def close(self) -> None:
        os.close(self._fd)


class _TimerSpec(ctypes.Structure):
    """struct itimerspec"""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )
