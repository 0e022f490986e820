"""Whether a clock may run a schedule now: which of three kinds it is, and the figure that says so.

A managed clock follows a ptp4l of the agent: it is settled once it was within the plan's clock
error for ten seconds. An unmanaged one is the operating system's: the kernel says whether a program
steers it. A shared one is that of all switches: a lab on one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from cnc.data_tree.tree import ClockReport, ClockSource
from cnc.support.format import duration

SETTLED_S = 10


@dataclass(frozen=True, slots=True)
class Trust:
    """`is_settled` is None where the switch cannot know; `text` begins with the kind of clock."""

    is_settled: bool | None
    text: str


def trust(clock: ClockReport, tai_offset_s: int | None, clock_error_ns: int) -> Trust:
    """What becomes of a plan that allows two clocks to differ by `clock_error_ns`."""
    match clock.source:
        case ClockSource.SHARED:
            return Trust(True, "shared: all switches have the clock of one machine")
        case ClockSource.MANAGED:
            return _of_managed(clock, clock_error_ns)
        case ClockSource.UNMANAGED:
            return _of_unmanaged(clock, tai_offset_s)


def _of_managed(clock: ClockReport, clock_error_ns: int) -> Trust:
    kind, allowed = f"managed by {_instance(clock)}", duration(clock_error_ns)
    if clock.offset_max_ns is None:
        return Trust(False, f"{kind}: it does not follow a grandmaster")
    figure = f"at most {duration(clock.offset_max_ns)} off in the last {clock.measured_s} s"
    if clock.measured_s < SETTLED_S:
        return Trust(False, f"{kind}: {figure}, of the {SETTLED_S} s that it takes")
    if clock.offset_max_ns > clock_error_ns:
        return Trust(False, f"{kind}: {figure}; the plan allows {allowed}")
    return Trust(True, f"{kind}: {figure}")


def _instance(clock: ClockReport) -> str:
    """The one that schedules follow, and those that they do not."""
    followed = f"PTP instance {clock.instance}"
    if not clock.others:
        return followed
    others = " and ".join(f"{index} (domain {domain})" for index, domain in clock.others)
    return f"{followed} (domain {clock.domain}), not by {others}"


def _of_unmanaged(clock: ClockReport, tai_offset_s: int | None) -> Trust:
    if clock.synchronised is None:
        return Trust(None, "unmanaged: the agent cannot ask the kernel whether it is synchronised")
    if not clock.synchronised:
        return Trust(False, "unmanaged: the kernel says that no program synchronises it")
    if not tai_offset_s:
        return Trust(False, "unmanaged: the kernel has no TAI offset")
    return Trust(True, f"unmanaged: synchronised, TAI offset {tai_offset_s} s")
