"""The clocks a schedule can run on, and how far the kernel's TAI is from UTC."""

from __future__ import annotations

import time

from agent.model import Clock

NS_PER_S = 1_000_000_000

CLOCK_IDS = {
    Clock.TAI: time.CLOCK_TAI,
    Clock.MONOTONIC: time.CLOCK_MONOTONIC,
    Clock.REALTIME: time.CLOCK_REALTIME,
    Clock.BOOTTIME: time.CLOCK_BOOTTIME,
}


def now_ns(clock: Clock) -> int:
    return time.clock_gettime_ns(CLOCK_IDS[clock])


def tai_offset_s() -> int:
    """TAI - UTC in seconds as this kernel knows it: 0 until ptp4l or chrony has set it."""
    difference_ns = now_ns(Clock.TAI) - now_ns(Clock.REALTIME)
    return round(difference_ns / NS_PER_S)
