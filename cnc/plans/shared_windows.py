"""The windows that frames share by a plan, each with the streams that have frames in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm

from cnc.model import Plan, PortRef


@dataclass(frozen=True, slots=True)
class SharedWindow:
    """One window of a class at a port, from `opens_ns` to `closes_ns` of each cycle of `cycle_ns`.

    It opens within the cycle, and may close after its end. `streams` have frames in it, in the
    order of their names.
    """

    traffic_class: int
    opens_ns: int
    closes_ns: int
    cycle_ns: int
    streams: tuple[str, ...]


def shared_windows(plan: Plan) -> dict[PortRef, tuple[SharedWindow, ...]]:
    """By port the windows of one cycle in which frames leave with those of other streams, in the
    order in which they open. The cycle is that of the streams that share windows of the class."""
    sharing: defaultdict[tuple[PortRef, int], dict[tuple[str, int], tuple[int, int]]]
    sharing = defaultdict(dict)
    for name, planned in plan.streams.items():
        for hop in planned.hops:
            if hop.is_shared:
                period_ns = plan.intent.streams[name].period_ns
                its = sharing[hop.egress, hop.traffic_class]
                its[name, hop.offset_ns] = period_ns, hop.window_ns
    found: defaultdict[PortRef, list[SharedWindow]] = defaultdict(list)
    for (port, number), its in sharing.items():
        found[port] += _windows(number, its)
    return {port: tuple(sorted(its, key=_order)) for port, its in found.items()}


def _windows(number: int, sharing: Mapping[tuple[str, int], tuple[int, int]]) -> list[SharedWindow]:
    """Those of a class at a port; `sharing` has by stream and offset its period and window."""
    cycle_ns = lcm(*{period_ns for period_ns, _ in sharing.values()})
    members: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for (name, offset_ns), (period_ns, window_ns) in sharing.items():
        for opens_ns in range(offset_ns % period_ns, cycle_ns, period_ns):
            members[opens_ns, opens_ns + window_ns].add(name)
    return [
        SharedWindow(number, *times, cycle_ns, tuple(sorted(names)))
        for times, names in members.items()
    ]


def _order(window: SharedWindow) -> tuple[int, int, int]:
    return window.opens_ns, window.closes_ns, window.traffic_class
