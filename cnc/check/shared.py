"""Windows that frames share: have all left by the time that the plan states, in whatever order?

A FIFO does not know for which window a frame is meant, and a frame that is early joins an earlier
one. So all frames count that may be in the queue while its gate is open: those planned for this
time, and those of later windows that may be there already. Frames of earlier windows have left: for
each of those this is shown as well, and so, by induction over time, it holds for all, also where
ports feed each other around a ring.

Take the last moment `t0` before a frame starts at which none of the queue was waiting. Since then
the link has sent control and frames of this queue alone, and of these only such as come before that
frame, and not before `t0`. So the frame, which is there by `latest`, has left by the greatest of

    t0 + control + the work that may come from `t0` on, of all that may be there by `latest`

over the instants `t0` at which the gate opens, late by the margin, or a frame may come later. A
gate that has been open for longer than the margin holds nothing up. What comes in by one link comes
no faster than that sends: from `t0`, or from when the first of them may come, until `latest` one
frame, and as many more as the link sends in that time; the switch may have held those before `t0`
for its greatest processing time, and the last for its least. Where the kernel sends more frames
from one opening than it does in one go, the margin counts once more for each such number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import lcm
from typing import NamedTuple

from cnc.account.frames import Transmission
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.account.wire import ControlOnLink, best_effort_ns, guard_ns, held_up_ns
from cnc.check.arrivals import Turn, arrivals_of, batches_of, coming
from cnc.model import FRAMES_IN_ONE_GO, ClassRole, GateMode, Intent, Link, Plan, PortRef

_LONG_AGO_NS = -(1 << 62)
_NAMED_MAX = 3


def judge_shared(
    plan: Plan, lists: Mapping[PortRef, GateCycle], transmissions: Iterable[Transmission]
) -> Iterator[Violation]:
    """Frames that may not have left by the end of their window, one violation for each opening."""
    network = plan.intent.network
    queues: defaultdict[tuple[PortRef, int], list[Transmission]] = defaultdict(list)
    known = {c.number for c in plan.intent.classes.values()}
    delays: dict[tuple[object, ...], _Delays] = {}  # there are many links, of few kinds
    for t in transmissions:
        if t.is_shared and t.traffic_class in known:  # another is reported as a wrong class
            queues[t.egress, t.traffic_class].append(t)
    for (port, number), sharing in queues.items():
        link, talker = network.links[port], network.end_stations.get(port.node)
        its = talker and (talker.lateness_ns, talker.interference)
        kind = link.rate_bps, link.preemption, its
        if kind not in delays:
            delays[kind] = _Delays.of(plan.intent, link)
        queue = _Queue(plan.intent, link, number, sharing, delays[kind])
        if talker:
            yield from queue.judge_talker()
        elif port in lists:  # another has none, which is reported
            yield from queue.judge_gate(lists[port])


def openings_of(
    intent: Intent, link: Link, number: int, gates: GateCycle, cycle_ns: int
) -> list[tuple[int, int]]:
    """When the gate of a class is open alone, control apart, and none of best effort is on the link
    any more, even if gates close early: (begin, end) in ns, in order, of one cycle."""
    others = [c for c in intent.classes.values() if c.number != number]
    shut = sum(1 << c.number for c in others if c.role is not ClassRole.CONTROL)
    found = []
    guards = [(c.number, guard_ns(intent, link, c)) for c in intent.unplanned_classes()]
    for start, end in gates.stretches(opened=1 << number, shut=shut, within_ns=cycle_ns):
        begin = start
        for unplanned, lasts_ns in guards:
            closed = gates.gate(unplanned).last_open_ns(start)
            if gates.open_ns(unplanned, closed - 1, closed):
                begin = max(begin, closed + lasts_ns)
        if begin < end - gates.early_ns:
            found.append((begin, end - gates.early_ns))
    return found


def goes_ns(intent: Intent, link: Link, frames: int) -> int:
    """How late timers may be for those of several frames that a port sends from one opening, but
    not in the first go."""
    network = intent.network
    if network.gate_mode(link.source.node) is not GateMode.SOFTWARE:
        return 0
    return (frames - 1) // FRAMES_IN_ONE_GO * network.gate_margin_ns


class _Delays(NamedTuple):
    """What holds frames up on a link beside those that share their windows: control, for `held_ns`
    what else there is when their gate opens, and for `ahead_ns` best effort before any of them,
    where no gate keeps it back."""

    control: ControlOnLink
    held_ns: int
    ahead_ns: int

    @classmethod
    def of(cls, intent: Intent, link: Link) -> _Delays:
        control = ControlOnLink.of(intent, link)
        return cls(control, held_up_ns(intent, link), best_effort_ns(intent, link))


class _Queue:
    """The frames of one class on one port, in windows that they share."""

    def __init__(
        self,
        intent: Intent,
        link: Link,
        number: int,
        sharing: Sequence[Transmission],
        delays: _Delays,
    ) -> None:
        self._intent = intent
        self._link = link
        self._number = number
        self._sharing = sharing
        self._arrivals = arrivals_of(sharing, intent.network.lateness_ns(link.source.node))
        self._delays = delays
        self._periods_ns = lcm(*{t.period_ns for t in sharing})
        bridge = intent.network.bridges.get(link.source.node)
        self._varies_ns = bridge.processing_max_ns - bridge.processing_min_ns if bridge else 0

    def judge_talker(self) -> Iterator[Violation]:
        """On the link of a talker, which starts to send at the offset or late. Each stretch of time
        in which its frames may be there stands for itself."""
        # One cycle more, where what is there in the first may be for longer than its beginning.
        coming = sorted(
            (earliest + by, latest + by, end + by, opens + by, number, by)
            for number, its in enumerate(self._arrivals)
            for earliest, latest, end, opens, *_ in [its]
            for by in its.turns(2 * self._periods_ns)
        )
        together: list[Turn] = []
        until_ns = _LONG_AGO_NS
        for earliest, _, end, _, number, by in coming:
            if together and earliest >= until_ns:
                yield from self._late(together, together, _LONG_AGO_NS)
                together = []
            together.append((end, number, by, self._arrivals[number]))
            until_ns = max(until_ns, end)
        yield from self._late(together, together, _LONG_AGO_NS)

    def judge_gate(self, gates: GateCycle) -> Iterator[Violation]:
        """On a port of a switch: each opening of the gate for itself."""
        cycle_ns = lcm(self._periods_ns, gates.cycle_ns)
        coming = sorted(
            (its.end_ns + by_ns, number, by_ns, its)
            for number, its in enumerate(self._arrivals)
            for by_ns in its.turns(cycle_ns)
        )
        openings = openings_of(self._intent, self._link, self._number, gates, cycle_ns)
        planned, shut = _by_opening(coming, openings, cycle_ns)
        for batch in batches_of(shut):
            yield self._shut(batch)
        if openings:
            coming = self._with_early(coming, cycle_ns, max([end for _, end in openings]))
        all_ends = [turn[0] for turn in coming]
        # Of each and all that end later.
        earliest = [its.earliest_ns + by_ns for _, _, by_ns, its in reversed(coming)]
        earliest = [*accumulate(earliest, min)][::-1]
        for which, turns in sorted(planned.items()):
            begin, end = openings[which]
            first = bisect_right(all_ends, begin)
            last = bisect_right(all_ends, end)
            # Those that are meant for this opening are there even if they come after it.
            there = coming[first:last]
            while last < len(earliest) and earliest[last] < end:
                there += _come_by(end - 1, coming[last : last + 1])
                last += 1
            yield from self._late(turns, there, begin + self._delays.held_ns)

    def _with_early(self, coming: list[Turn], cycle_ns: int, until_ns: int) -> list[Turn]:
        """With those of later cycles that may be there before `until_ns`, or are to have left by
        then: of as many as their latency has, or it is refused anyway."""
        streams = self._intent.streams
        most = 2 + max([streams[t.stream].max_latency_ns for t in self._sharing]) // cycle_ns
        later = [
            (end_ns + cycle * cycle_ns, number, by_ns + cycle * cycle_ns, its)
            for end_ns, number, by_ns, its in coming
            for since_ns in [min(its.earliest_ns + by_ns, end_ns - 1)]
            if since_ns + cycle_ns < until_ns
            for early in [-(-(until_ns - since_ns) // cycle_ns)]
            for cycle in range(1, min(most, early))
        ]
        return sorted([*coming, *later]) if later else coming

    def _late(
        self, planned: Sequence[Turn], there: Sequence[Turn], from_ns: int
    ) -> Iterator[Violation]:
        """If any of `planned`, among all that may be `there`, may not have left by its end: nothing
        but control and others of them holds frames up any more at `from_ns`."""
        # Who comes later leaves no sooner.
        last_ns = max([its.latest_ns + by_ns for _, _, by_ns, its in planned])
        end_ns = min([turn[0] for turn in planned])
        before = _come_by(last_ns, there)
        at_once_ns = sum([its.work_ns for _, _, _, its in before])
        # Most windows are long enough for all of it to come at the last moment.
        if self._leaving(before)(max(from_ns, last_ns), at_once_ns) <= end_ns:
            return
        all_left_ns = self._left_ns(before, last_ns, from_ns)
        if all_left_ns <= end_ns:
            return
        for batch in batches_of(planned):
            end_ns, _, by_ns, its = batch[0]
            if all_left_ns <= end_ns:
                continue
            latest_ns = its.latest_ns + by_ns
            left_ns = self._left_ns(_come_by(latest_ns, before), latest_ns, from_ns)
            if left_ns > end_ns:
                text = (
                    f"frames of class {self._number} may keep the link until {left_ns} ns, of "
                    f"which {self._names(batch)} are to have left by {end_ns} ns"
                )
                yield Violation("window-full", str(self._link.source), text)
                return

    def _left_ns(self, before: Sequence[Turn], latest_ns: int, from_ns: int) -> int:
        """When the last frame has left of those that may come `before` the `latest_ns`."""
        total_ns, since = coming(before, from_ns, latest_ns, self._varies_ns)
        if from_ns > _LONG_AGO_NS:
            since.append((from_ns, total_ns))
        left_ns = self._leaving(before)
        return max([left_ns(since_ns, work_ns) for since_ns, work_ns in since])

    def _leaving(self, turns: Sequence[Turn]) -> Callable[[int, int], int]:
        """When the last frame of these has left, if none is waiting at an instant, and then so much
        of their work comes."""
        shortest = min([its.shortest_ns for _, _, _, its in turns])
        again_ns = goes_ns(self._intent, self._link, sum([its.frames for _, _, _, its in turns]))
        delays = self._delays

        def left_ns(since_ns: int, work_ns: int) -> int:
            # Control that comes while the gate is late is sent meanwhile: no more than its burst,
            # and what came behind the frame before, waits when it opens.
            control_ns = delays.control.keeps_ns(again_ns + work_ns - shortest)
            return since_ns + delays.ahead_ns + control_ns + again_ns + work_ns

        return left_ns

    def _shut(self, batch: Sequence[Turn]) -> Violation:
        end_ns, _, by_ns, its = batch[0]
        text = (
            f"the gate of class {self._number} is not open, and no other, for all the time from "
            f"{its.opens_ns + by_ns} to {end_ns} ns, in which {self._names(batch)} "
            "are to leave"
        )
        return Violation("gate-window", str(self._link.source), text)

    def _names(self, batch: Iterable[Turn]) -> str:
        numbers = sorted(number for _, _, _, its in batch for number in its.numbers)
        return ", ".join(self._sharing[number].stream for number in numbers[:_NAMED_MAX])


def _by_opening(
    coming: Iterable[Turn], openings: Sequence[tuple[int, int]], cycle_ns: int
) -> tuple[Mapping[int, list[Turn]], list[Turn]]:
    """What is to leave in each of the openings, by its number, and what in none of them."""
    begins = [begin for begin, _ in openings]
    planned: defaultdict[int, list[Turn]] = defaultdict(list)
    shut: list[Turn] = []
    for turn in coming:
        which = bisect_left(begins, turn[0]) - 1
        its = turn
        if which < 0:  # what is before the first of them has the last one of the cycle before
            end_ns, number, by_ns, arrival = turn
            its = end_ns + cycle_ns, number, by_ns + cycle_ns, arrival
        if (
            openings
            and openings[which][0] <= its[3].opens_ns + its[2]
            and its[0] <= openings[which][1]
        ):
            planned[which % len(openings)].append(its)
        else:
            shut.append(turn)
    return planned, shut


def _come_by(time_ns: int, turns: Iterable[Turn]) -> list[Turn]:
    """Those that may have come."""
    return [turn for turn in turns if turn[3].earliest_ns + turn[2] <= time_ns]
