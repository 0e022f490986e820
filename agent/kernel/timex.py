"""What the kernel knows of its clock (adjtimex(2)): whether it is synchronised, and TAI - UTC."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

# linux/timex.h
ADJ_TAI = 0x0080
STA_UNSYNC = 0x0040
TIME_ERROR = 5


class _Timex(ctypes.Structure):
    """struct timex"""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


@dataclass(frozen=True, slots=True)
class KernelClock:
    """`synchronised`: a program has steered the clock lately. `max_error_us` is what it stated,
    and grows by 500 us a second since."""

    synchronised: bool
    max_error_us: int
    tai_offset_s: int


def read() -> KernelClock:
    """Raises OSError where system calls are filtered."""
    timex = _Timex()
    state = _adjtimex(timex)
    return KernelClock(
        synchronised=state != TIME_ERROR and not timex.status & STA_UNSYNC,
        max_error_us=timex.maxerror,
        tai_offset_s=timex.tai,
    )


def set_tai_offset(offset_s: int) -> None:
    """Needs CAP_SYS_TIME; raises OSError."""
    _adjtimex(_Timex(modes=ADJ_TAI, constant=offset_s))


def _adjtimex(timex: _Timex) -> int:
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    if state < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"adjtimex: {os.strerror(error)}")
    return int(state)
