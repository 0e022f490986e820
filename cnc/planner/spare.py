"""Spare room in gate control lists: where frames that missed their window catch up.

Between windows everything but the scheduled classes may send. There a scheduled class gets its gate
opened, too, for as long as none of its planned frames can be waiting. No frame in time is let out
early so, and none is in the way of best effort; but a backlog, which a disturbance left, goes ahead
of best effort at once. A window, which is as long as its frame, would never make it up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cnc.model import GateControlList, GateEntry, Link
from cnc.planner.circle import Circle
from cnc.planner.ports import interval_min_ns
from cnc.planner.route import Placement

Stays = Mapping[int, Iterable[tuple[int, int, int]]]  # by class: start, duration and period


def stays_by_port(
    placements: Iterable[Placement], only: Collection[int] | None = None
) -> dict[int, Stays]:
    """For each link that leaves a bridge, or those `only`, when frames of each class lie in the
    queue: from their earliest arrival to the end of their window."""
    found: defaultdict[int, defaultdict[int, list[tuple[int, int, int]]]]
    found = defaultdict(lambda: defaultdict(list))
    for route, offsets, number in placements:
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.parent is not None and (only is None or leg.link in only):
                earliest = offsets[leg.anchor] + leg.min_ns
                stay = earliest, offset + leg.window_ns - earliest, route.period_ns
                found[leg.link][number].append(stay)
    return dict(found)


def with_spare_room(
    gates: GateControlList, link: Link, stays: Stays, *, best_effort: int, limit: int | None
) -> GateControlList:
    """The list with the gates of the classes of `stays` open beside the mask `best_effort`.

    A gate that must shut before best effort's costs one more entry. Where the port cannot hold
    those, such a gate stays shut all that time.
    """
    busy = {number: Circle(gates.cycle_ns, its) for number, its in stays.items()}
    spared = _opened(gates, link, busy, best_effort=best_effort, may_split=True)
    if limit is not None and len(spared.entries) > limit:
        return _opened(gates, link, busy, best_effort=best_effort, may_split=False)
    return spared


def _opened(
    gates: GateControlList,
    link: Link,
    busy: Mapping[int, Circle],
    *,
    best_effort: int,
    may_split: bool,
) -> GateControlList:
    entries: list[GateEntry] = []
    start = 0
    for states, interval_ns in ((e.gate_states, e.interval_ns) for e in gates.entries):
        if states & best_effort == best_effort:
            rooms = {number: its.gap(start) for number, its in busy.items()}
            clear = {n: until for n, (waiting, until, _) in rooms.items() if not waiting}
            throughout = sum(1 << n for n, until in clear.items() if until >= interval_ns)
            until = min((u for u in clear.values() if u < interval_ns), default=0)
            first = _cut_ns(start, until, interval_ns, link) if may_split else 0
            if first:
                at_first = sum(1 << n for n in clear)
                entries.append(GateEntry(states | at_first, first))
            entries.append(GateEntry(states | throughout, interval_ns - first))
        else:
            entries.append(GateEntry(states, interval_ns))
        start += interval_ns
    return replace(gates, entries=tuple(entries))


def _cut_ns(start_ns: int, until_ns: int, length_ns: int, link: Link) -> int:
    """After how long to cut an entry in two that is to have a gate open for `until_ns` at most; 0
    where a part would be too short for the port."""
    shortest = interval_min_ns(link)
    end = start_ns + min(until_ns, length_ns - shortest)
    length = end - end % link.gate_tick_ns - start_ns
    return length if length >= shortest else 0
