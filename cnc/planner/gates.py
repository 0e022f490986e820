"""Gate control lists: when each class may leave each bridge port that scheduled frames cross.

Around each planned frame its class is open, with control alone beside it. Before that, for as long
as a best-effort frame may still be on the wire, nothing but control is open. In all other time
everything but the scheduled classes is open; where the network must recover from disturbances,
these too, as `spare` describes. Where classes have windows by share, these are as they are given.

A loose port has a shorter list: its class stays open over the smallest gaps between its frames and
over the guard bands. Its frames may leave early, which the placement has allowed for.

Ports of talkers with gates have lists that keep best effort back alone (`talker_gates`).

All gates of a port change at multiples of its tick, and an entry longer than the port takes is cut
into several with the same states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, repeat
from math import lcm
from types import MappingProxyType
from typing import NamedTuple

from cnc.mechanisms.terms import longest_frame_ns
from cnc.model import ClassRole, GateControlList, Intent, Link, PortRef, TrafficClass
from cnc.planner.edges import cut, list_from_edges
from cnc.planner.explain import LIST_FULL
from cnc.planner.floor import us
from cnc.planner.ports import (
    CYCLE_MAX_NS,
    guard_band_ns,
    interval_max_ns,
    interval_min_ns,
    slot_ns,
)
from cnc.planner.problem import Problem
from cnc.planner.route import Placement
from cnc.planner.shares import WHOLE_PPB, kept_ns, percent, wanted_ppb
from cnc.planner.spare import Stays, stays_by_port, with_spare_room
from cnc.planner.talker_gates import talker_list


class Lists(NamedTuple):
    """Gate control lists by port; the ports whose list is too long while their gates hold every
    frame back; and why other ports cannot do what is asked of them."""

    lists: dict[PortRef, GateControlList]
    too_long: frozenset[PortRef]
    refused: dict[PortRef, str]

    def crowded(self) -> dict[PortRef, str]:
        """The ports that cannot run what they are to, in order, and why."""
        return dict(sorted((dict.fromkeys(self.too_long, LIST_FULL) | self.refused).items()))


class Window(NamedTuple):
    """When a gate must be open for one frame, and for which class."""

    open_ns: int
    close_ns: int
    traffic_class: int


def gated_links(problem: Problem) -> frozenset[int]:
    """The links of ports that have a list where scheduled frames leave by them."""
    network = problem.intent.network
    return frozenset(
        number for number, link in enumerate(problem.links) if network.gate_mode(link.source.node)
    )


def windows_by_port(
    problem: Problem, placements: Iterable[Placement]
) -> dict[int, list[tuple[int, Window]]]:
    """For each gated link the windows of its frames, each with its period."""
    found: defaultdict[int, list[tuple[int, Window]]] = defaultdict(list)
    gated = gated_links(problem)
    for placement in placements:
        for link, window in windows_of(placement):
            if link in gated:
                found[link].append((placement.route.period_ns, window))
    return found


def windows_of(placement: Placement) -> Iterator[tuple[int, Window]]:
    """The windows of a placement's frames, each with the link that they leave by."""
    route, offsets, number = placement
    for leg, offset in zip(route.legs, offsets, strict=True):
        if not leg.is_copied:
            yield leg.link, Window(offset, offset + leg.gate_ns, number)


def gate_control_lists(problem: Problem, placements: Iterable[Placement]) -> Lists:
    """One list for each gated port that a placement crosses."""
    placements = tuple(placements)
    recovers = problem.intent.network.disturbance_ns is not None
    stays = stays_by_port(problem.links, placements) if recovers else {}
    return lists_of(problem, windows_by_port(problem, placements), stays)


def lists_of(
    problem: Problem,
    windows: Mapping[int, Sequence[tuple[int, Window]]],
    stays: Mapping[int, Stays] = MappingProxyType({}),
    *,
    in_guards: bool = False,
) -> Lists:
    """One list for each link that `windows` names, which must be gated.

    `windows` have the period of their frames with them. Ports with `stays` get spare room, in guard
    bands too if it is to be `in_guards`.
    """
    lists: dict[PortRef, GateControlList] = {}
    too_long = set()
    refused = {}
    for number in sorted(windows):
        link = problem.links[number]
        given = [
            (its.every_ns, Window(its.start_ns, its.start_ns + its.window_ns, its.number))
            for its in problem.given.get(number, ())
        ]
        every = [*windows[number], *given]
        periods = {period for period, _ in every}
        cycle = lcm(*periods)
        limit = problem.intent.network.gate_entries_max(link)
        if reason := _cannot_run(link, cycle, periods, limit):
            refused[link.source] = reason
            continue
        frames = unrolled(every, cycle, link.gate_tick_ns)
        if link.source.node in problem.intent.network.end_stations:
            gates = talker_list(problem.intent, link, cycle, frames, limit)
        elif link.source in problem.loose:
            gates = _shortened(problem.intent, link, cycle, frames, limit)
            if limit is not None and len(gates.entries) > limit:
                refused[link.source] = _list_too_long(link, gates, limit)
                continue
        else:
            gates = _exact(problem.intent, link, cycle, frames, limit)
            if limit is not None and len(gates.entries) > limit:
                too_long.add(link.source)
        if number in stays:
            gates = _spared(problem, link, gates, stays[number], limit, in_guards=in_guards)
        if reason := Others(problem.intent, link).objection(gates):
            if link.source in problem.loose:
                reason = (
                    f"a list of {limit} entries leaves the gate open over gaps, and so {reason}"
                )
            refused[link.source] = reason
        lists[link.source] = gates
    return Lists(lists, frozenset(too_long), refused)


def _spared(
    problem: Problem,
    link: Link,
    gates: GateControlList,
    stays: Stays,
    limit: int | None,
    *,
    in_guards: bool,
) -> GateControlList:
    """`gates` with spare room for backlogs, unless the port could not do its work then."""
    if link.source in problem.loose:
        # Its frames may leave early, which the placement has allowed for.
        stays = dict.fromkeys(stays, ())
    best_effort = _mask(problem.intent.classes_with(ClassRole.BEST_EFFORT))
    guard = _mask(problem.intent.classes_with(ClassRole.CONTROL)) if in_guards else None
    spared = with_spare_room(gates, link, stays, best_effort=best_effort, limit=limit, guard=guard)
    return gates if Others(problem.intent, link).objection(spared) else spared


def shortened_list(
    intent: Intent, link: Link, windows: Sequence[tuple[int, Window]], limit: int
) -> GateControlList:
    """A list of at most `limit` entries, if the gaps between `windows` allow it.

    `windows` have the period of their frames with them.
    """
    cycle_ns = lcm(*{period for period, _ in windows})
    frames = unrolled(windows, cycle_ns, link.gate_tick_ns)
    return _shortened(intent, link, cycle_ns, frames, limit)


# When a gate must be open for one frame of the cycle, and for which class: as a Window, which takes
# too long to make where there are very many.
_Frame = tuple[int, int, int]


def unrolled(windows: Iterable[tuple[int, Window]], cycle_ns: int, tick_ns: int) -> list[_Frame]:
    """Every window of one cycle, in order, with its edges moved to the tick before.

    The placement has made windows longer by what the closing edge may lose so; and as all edges
    move the same way, windows that do not overlap never will.
    """
    frames: list[_Frame] = []
    for period, (opens, closes, traffic_class) in windows:
        length = closes - opens
        starts = range(opens % period, cycle_ns, period)
        ends = range(starts.start + length, cycle_ns + length, period)
        frames += zip(starts, ends, repeat(traffic_class))
    if tick_ns > 1:
        frames = [(start - start % tick_ns, end - end % tick_ns, c) for start, end, c in frames]
    frames.sort()
    return frames


def _exact(
    intent: Intent, link: Link, cycle_ns: int, frames: Sequence[_Frame], limit: int | None
) -> GateControlList:
    """A list that holds every frame back until its time; it may be longer than `limit`."""
    ports = (_Port(intent, each, cycle_ns) for each in _guarded(link))
    return _first_fitting((port.exact(frames) for port in ports), limit)


def _shortened(
    intent: Intent, link: Link, cycle_ns: int, frames: Sequence[_Frame], limit: int | None
) -> GateControlList:
    """A list of at most `limit` entries, if the gaps between `frames` allow it."""
    ports = (_Port(intent, each, cycle_ns) for each in _guarded(link))
    return _first_fitting((port.shortened(frames, limit) for port in ports), limit)


def _guarded(link: Link) -> Iterator[Link]:
    """The link, and as it would be if its guard bands had to be as long as best effort's largest
    frame: best effort then has no turn in small gaps between frames, each of which takes entries of
    the list."""
    yield link
    if link.fits_only:
        yield replace(link, fits_only=False)


def _first_fitting(lists: Iterable[GateControlList], limit: int | None) -> GateControlList:
    """The first list of at most `limit` entries; the last one if there is none."""
    for gates in lists:
        if limit is None or len(gates.entries) <= limit:
            break
    return gates


def _mask(classes: Iterable[TrafficClass]) -> int:
    return sum(1 << c.number for c in classes)


class _Port:
    """What a list is made of on one port."""

    def __init__(self, intent: Intent, link: Link, cycle_ns: int) -> None:
        self._cycle_ns = cycle_ns
        self._control = _mask(intent.classes_with(ClassRole.CONTROL))
        self._everyone = self._control | _mask(intent.classes_with(ClassRole.BEST_EFFORT))
        # Nothing is planned in their windows, before which no guard band is.
        self._given = {c.number for c in intent.classes.values() if c.windows_are_given}
        self._shortest_ns = interval_min_ns(link)
        self._guard_ns = guard_band_ns(intent, link)
        self._link = link

    def exact(self, frames: Sequence[_Frame]) -> GateControlList:
        """A gate that holds every frame back until its time."""
        return self._list(frames, lead=False)

    def shortened(self, unrolled: Sequence[_Frame], limit: int | None) -> GateControlList:
        """The gate stays open over the smallest gaps: as few of them as bring the list down to
        `limit` entries. Gaps of one length, as periodic streams leave, are taken one by one and
        all over the cycle, so that best effort gets its turn in every part of it."""
        frames = [Window(*frame) for frame in unrolled]
        mergeable = self._mergeable(frames)
        low, high = 0, len(mergeable)
        while low < high:
            middle = (low + high) // 2
            gates = self._list(self._merged(frames, mergeable[:middle]), lead=True)
            if limit is None or len(gates.entries) <= limit:
                high = middle
            else:
                low = middle + 1
        return self._list(self._merged(frames, mergeable[:low]), lead=True)

    def _mergeable(self, frames: Sequence[Window]) -> list[int]:
        """The gaps between windows of one class, smallest first, each as the index of the window
        before it."""
        bits = len(frames).bit_length()
        gaps = [
            (opens - close, int(f"{index:0{bits}b}"[::-1], 2), index)
            for index, ((_, close, number), (opens, _, next_number)) in enumerate(
                self._pairs(frames)
            )
            if number == next_number and number not in self._given
        ]
        return [index for _, _, index in sorted(gaps)]

    def _pairs(self, frames: Sequence[_Frame]) -> Iterator[tuple[_Frame, _Frame]]:
        """Each window with the one after it, the last with the first of the next cycle."""
        opens, closes, traffic_class = frames[0]
        again = opens + self._cycle_ns, closes + self._cycle_ns, traffic_class
        return pairwise([*frames, again])

    def _merged(self, frames: Sequence[Window], gaps: Collection[int]) -> list[Window]:
        """The windows on both sides of each of `gaps` made one."""
        joined = set(gaps)
        breaks = [index for index in range(len(frames)) if index not in joined]
        if not breaks:
            first = frames[0]
            return [first._replace(close_ns=first.open_ns + self._cycle_ns)]
        turn = breaks[-1] + 1  # begin after a gap: no merged window then crosses the seam
        turned = [*frames[turn:], *(self._next_cycle(w) for w in frames[:turn])]
        merged: list[Window] = []
        for index, w in enumerate(turned, turn - 1):  # of the gap before `w`, modulo all
            if index % len(frames) in joined:
                merged[-1] = merged[-1]._replace(close_ns=max(merged[-1].close_ns, w.close_ns))
            else:
                merged.append(w)
        return merged

    def _next_cycle(self, window: Window) -> Window:
        return window._replace(
            open_ns=window.open_ns + self._cycle_ns, close_ns=window.close_ns + self._cycle_ns
        )

    def _list(self, windows: Sequence[_Frame], *, lead: bool) -> GateControlList:
        """The list around `windows`. With `lead` a class opens over its own guard band."""
        times: list[int] = []  # in order
        states: list[int] = []  # which gates are open from then on
        control, everyone = self._control, self._everyone
        shortest, guard = self._shortest_ns, self._guard_ns
        cleared = self._cycle_ns - shortest
        for (opens, close, number), (following, _, next_number) in self._pairs(windows):
            opened = control | 1 << number
            if following - close < shortest:
                # Too short for an entry. Nobody's frame can be in this queue: it stays open.
                times.append(opens)
                states.append(opened)
                continue
            if next_number in self._given:
                times += opens, close
                states += opened, everyone
                continue
            ahead = control | 1 << next_number if lead else control
            shut = following - guard
            if not shortest <= shut <= cleared:
                shut = clear_of_seam(shut, self._cycle_ns, shortest)
            if shut - close < shortest:
                times += opens, close
                states += opened, ahead
            else:
                times += opens, close, shut
                states += opened, everyone, ahead
        return cut(list_from_edges(times, states, self._cycle_ns), self._link)


def clear_of_seam(edge_ns: int, cycle_ns: int, shortest_ns: int) -> int:
    """`edge_ns`, or earlier if the end of the cycle would cut off too short an entry there."""
    phase = edge_ns % cycle_ns
    if phase > cycle_ns - shortest_ns:
        return edge_ns - (phase - (cycle_ns - shortest_ns))
    if 0 < phase < shortest_ns:
        return edge_ns - phase
    return edge_ns


class Others:
    """What a port's list must leave to frames that are not scheduled, found once for all lists."""

    def __init__(self, intent: Intent, link: Link) -> None:
        self._intent, self._link = intent, link
        self._best_effort = _mask(intent.classes_with(ClassRole.BEST_EFFORT))
        self._slot_ns = slot_ns(intent, link)
        self._wanted_ppb = wanted_ppb(intent, link)
        self._control_ns = longest_frame_ns(intent, link, ClassRole.CONTROL)
        scheduled = intent.classes_with(ClassRole.SCHEDULED)
        self._above_control = {
            control.name: _mask(c for c in scheduled if c.number > control.number)
            for control in intent.classes_with(ClassRole.CONTROL)
        }

    def objection(self, gates: GateControlList) -> str | None:
        """Why the port cannot do its work with this list, if so."""
        slot = self._slot_ns
        longest = _longest_run(gates, wanted=self._best_effort, unwanted=0, enough_ns=slot)
        if longest < slot:
            frame = longest_frame_ns(self._intent, self._link, ClassRole.BEST_EFFORT)
            off = f", and its gate may be off by {us(slot - frame)}" if slot > frame else ""
            return (
                f"best effort would starve: its largest frame takes {us(frame)}{off}; the longest "
                f"time left for it in the cycle of {us(gates.cycle_ns)} is {us(longest)}. Fewer or "
                f"longer periods, or a smaller max-frame of best effort, would help"
            )
        wanted = self._wanted_ppb
        kept = kept_ns(self._intent, self._link, gates) if wanted else 0
        if kept * WHOLE_PPB < wanted * gates.cycle_ns:
            return (
                f"best effort would keep {percent(kept * WHOLE_PPB // gates.cycle_ns)} of the "
                f"cycle of {us(gates.cycle_ns)} in turns of its largest frame or longer, its "
                f"min-share is {percent(wanted)}"
            )
        early_ns = self._link.gate_early_ns
        enough = self._control_ns + early_ns
        for name, above in self._above_control.items():
            longest = _longest_run(gates, wanted=0, unwanted=above, enough_ns=enough)
            if longest < enough:
                return (
                    f"class {name} would starve: it has lower priority than the scheduled frames, "
                    f"and they leave it {us(longest - early_ns)} at a time, less than its largest "
                    f"frame's {us(self._control_ns)}. Give it the highest traffic class"
                )
        return None


def _longest_run(gates: GateControlList, *, wanted: int, unwanted: int, enough_ns: int) -> int:
    """The longest time, across the cycle's end too, with every wanted gate open, no unwanted; or
    the first that lasts for `enough_ns`."""
    longest = run = 0
    for entry in gates.entries * 2:
        fits = entry.gate_states & (wanted | unwanted) == wanted
        run = run + entry.interval_ns if fits else 0
        longest = max(longest, run)
        if longest >= enough_ns:
            break
    return min(longest, gates.cycle_ns)


def _list_too_long(link: Link, gates: GateControlList, limit: int) -> str:
    longest = interval_max_ns(link)
    parts = f", none longer than {us(longest)}," if longest and longest < gates.cycle_ns else ""
    return (
        f"needs {len(gates.entries)} gate entries{parts} even with the smallest gaps left open, "
        f"the port has {limit}. Fewer streams or classes, or periods that divide each other (the "
        f"cycle is {us(gates.cycle_ns)}), would help"
    )


def _cannot_run(
    link: Link, cycle_ns: int, periods_ns: Iterable[int], limit: int | None
) -> str | None:
    """Why the port can run no list of this cycle, whatever is in it, if so."""
    periods = ", ".join(us(period) for period in sorted(periods_ns))
    together = f"the periods {periods} only repeat together every {us(cycle_ns)}"
    if cycle_ns > CYCLE_MAX_NS:
        return (
            f"{together}; the kernel's cycle ends at {us(CYCLE_MAX_NS)}. Choose periods that "
            "divide each other"
        )
    if link.gate_cycle_max_ns and cycle_ns > link.gate_cycle_max_ns:
        return (
            f"{together}; the port's cycle ends at {us(link.gate_cycle_max_ns)}. Choose periods "
            "that divide each other, or shorter ones"
        )
    if cycle_ns % link.gate_tick_ns:
        return (
            f"{together}; the port's gates change at multiples of {us(link.gate_tick_ns)} only, "
            "and so must its cycle. Choose periods that are multiples of that"
        )
    shortest, longest = interval_min_ns(link), interval_max_ns(link)
    if 0 < longest < 2 * shortest:
        # Cutting an entry that is hardly too long leaves parts of half the greatest length.
        return (
            f"its gate intervals may last from {us(shortest)} to {us(longest)}: to cut longer "
            "ones, the greatest must be twice the least"
        )
    if longest and limit is not None and cycle_ns > limit * longest:
        return (
            f"{together}; that is more than the port's {limit} gate entries of at most "
            f"{us(longest)} can fill. Choose periods that divide each other, or shorter ones"
        )
    return None
