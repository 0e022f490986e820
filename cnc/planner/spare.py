"""Spare room in gate control lists: where frames that missed their window catch up.

Between windows everything but the scheduled classes may send. There a scheduled class gets its gate
opened, too, for as long as none of its planned frames can be waiting. No frame in time is let out
early so, and none is in the way of best effort; but a backlog, which a disturbance left, goes ahead
of best effort at once. A window, which is as long as its frame, would never make it up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cnc.model import GateControlList, GateEntry, Link
from cnc.planner.circle import Circle
from cnc.planner.edges import gate_entry
from cnc.planner.ports import interval_min_ns
from cnc.planner.route import Placement

Stays = Mapping[int, Iterable[tuple[int, int, int]]]  # by class: start, duration and period


def stays_by_port(links: Sequence[Link], placements: Iterable[Placement]) -> dict[int, Stays]:
    """For each link that leaves a bridge, when frames of each class lie in the queue: from their
    earliest arrival until they have left for sure.

    That is no later than their gate shuts. What a placement reserves may last longer: a window by
    what the tick rounds, and by the seam to another class.
    """
    found: defaultdict[int, defaultdict[int, list[tuple[int, int, int]]]]
    found = defaultdict(lambda: defaultdict(list))
    for placement in placements:
        for link, stay in stays_of(links, placement):
            found[link][placement.traffic_class].append(stay)
    return dict(found)


def stays_of(
    links: Sequence[Link], placement: Placement
) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """The same for the frames of one placement: start, duration and period, each with its link."""
    route, offsets, _ = placement
    for leg, offset in zip(route.legs, offsets, strict=True):
        if leg.parent is not None:
            earliest = offsets[leg.anchor] + leg.min_ns
            left = offset + leg.gate_ns - (links[leg.link].gate_tick_ns - 1)
            yield leg.link, (earliest, left - earliest, route.period_ns)


def with_spare_room(
    gates: GateControlList,
    link: Link,
    stays: Stays,
    *,
    best_effort: int,
    limit: int | None,
    guard: int | None = None,
) -> GateControlList:
    """The list with the gates of the classes of `stays` open beside the mask `best_effort`; and in
    guard bands, where the gates of the mask `guard` are open alone, if it is stated.

    A gate that must shut before best effort's costs one more entry. Where the port cannot hold
    those, such a gate stays shut all that time.
    """
    busy = {number: Circle(gates.cycle_ns, its) for number, its in stays.items()}
    for may_split in (True, False):
        spared = _opened(
            gates, link, busy, best_effort=best_effort, guard=guard, may_split=may_split
        )
        if limit is None or len(spared.entries) <= limit:
            break
    return spared


def without_spare_room(
    gates: GateControlList, scheduled: int, best_effort: int
) -> tuple[int, list[tuple[int, int]]]:
    """The cycle of a list, and what is open for how long, as it would be without spare room beside
    the mask `best_effort` for those of the mask `scheduled`."""
    found: list[tuple[int, int]] = []
    for entry in gates.entries:
        states, length = entry.gate_states, entry.interval_ns
        if best_effort and states & best_effort == best_effort:
            states &= ~scheduled
        if found and found[-1][0] == states:
            length += found.pop()[1]
        found.append((states, length))
    return gates.cycle_ns, found


def _opened(
    gates: GateControlList,
    link: Link,
    busy: Mapping[int, Circle],
    *,
    best_effort: int,
    guard: int | None,
    may_split: bool,
) -> GateControlList:
    entries: list[GateEntry] = []
    classes = [(1 << number, its) for number, its in busy.items()]
    start = 0
    for entry in gates.entries:
        length = entry.interval_ns
        if entry.gate_states & best_effort == best_effort or entry.gate_states == guard:
            at_first = throughout = entry.gate_states
            until = length
            for bit, its in classes:
                if free := its.free_ns(start):
                    at_first |= bit
                    if free >= length:
                        throughout |= bit
                    elif free < until:
                        until = free
            cut = _cut_ns(start, until, length, link) if may_split and until < length else 0
            if cut:
                entries.append(gate_entry(at_first, cut))
            entries.append(gate_entry(throughout, length - cut))
        else:
            entries.append(entry)
        start += length
    return replace(gates, entries=tuple(entries))


def _cut_ns(start_ns: int, until_ns: int, length_ns: int, link: Link) -> int:
    """After how long to cut an entry in two that is to have a gate open for `until_ns` at most; 0
    where a part would be too short for the port."""
    shortest = interval_min_ns(link)
    end = start_ns + min(until_ns, length_ns - shortest)
    length = end - end % link.gate_tick_ns - start_ns
    return length if length >= shortest else 0
