"""Whether a clock may run a schedule, and if not the figure that says why. Pure.

A controller judges by the same rules before it pushes; the agent does when it finds a stored
schedule at its start. Each function returns None where the clock has settled.
"""

from __future__ import annotations

from agent.kernel.clock_monitor import WINDOW_S, Measured
from agent.kernel.timex import KernelClock
from agent.model import PtpStatus


def managed(instance: int, measured: Measured, clock_error_ns: int) -> str | None:
    """A clock that a ptp4l of the agent keeps: within the plan's clock error for WINDOW_S."""
    kind = f"managed by PTP instance {instance}"
    if measured.offset_max_ns is None:
        return f"{kind}: it does not follow a grandmaster"
    figure = f"at most {measured.offset_max_ns} ns off in the last {measured.seconds} s"
    if measured.seconds < WINDOW_S:
        return f"{kind}: {figure}, of the {WINDOW_S} s that it takes"
    if measured.offset_max_ns > clock_error_ns:
        return f"{kind}: {figure}; the plan allows {clock_error_ns} ns"
    return None


def followed(status: PtpStatus, clock_error_ns: int) -> str | None:
    """A clock that another ptp4l of the machine keeps, by what that says now."""
    kind = "unmanaged: its ptp4l"
    if not status.is_locked:
        states = ", ".join(map(str, status.ports.values())) or "no port"
        return f"{kind} is not locked: {states}"
    offset_ns = abs(status.offset_from_master_ns or 0)
    if offset_ns > clock_error_ns:
        return f"{kind} is {offset_ns} ns off its master; the plan allows {clock_error_ns} ns"
    return None


def unmanaged(clock: KernelClock) -> str | None:
    """A clock that the operating system keeps, by what the kernel says of it."""
    if not clock.synchronised:
        return "unmanaged: the kernel says that no program synchronises it"
    if not clock.tai_offset_s:
        return "unmanaged: the kernel has no TAI offset"
    return None
