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

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm
from typing import NamedTuple

from cnc.account.frames import Transmission
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.account.wire import ControlOnLink, best_effort_ns, guard_ns, held_up_ns
from cnc.model import FRAMES_IN_ONE_GO, ClassRole, GateMode, Intent, Link, Plan, PortRef

_LONG_AGO_NS = -(1 << 62)
_NEVER_NS = 1 << 62
_PARTS = 1 << 20  # of a nanosecond, in which what comes in by a link is reckoned
_NAMED_MAX = 3


def judge_shared(
    plan: Plan, lists: Mapping[PortRef, GateCycle], transmissions: Iterable[Transmission]
) -> Iterator[Violation]:
    """Frames that may not have left by the end of their window, one violation for each opening."""
    network = plan.intent.network
    queues: defaultdict[tuple[PortRef, int], list[Transmission]] = defaultdict(list)
    known = {c.number for c in plan.intent.classes.values()}
    for t in transmissions:
        if t.is_shared and t.traffic_class in known:  # another is reported as a wrong class
            queues[t.egress, t.traffic_class].append(t)
    for (port, number), sharing in queues.items():
        queue = _Queue(plan.intent, network.links[port], number, sharing)
        if port.node in network.end_stations:
            yield from queue.judge_talker()
        elif port in lists:  # another has none, which is reported
            yield from queue.judge_gate(lists[port])


class _Batch(NamedTuple):
    """Frames that come to a queue by the link `ingress`: from `earliest_ns` on, the last by
    `latest_ns`; all have left by `end_ns`. They keep the link that they leave by busy for
    `work_ns`; the longest of them does for `frame_ns`, the shortest for `shortest_ns`, and they
    come as `flow` parts of that in each nanosecond."""

    earliest_ns: int
    latest_ns: int
    end_ns: int
    opens_ns: int
    ingress: PortRef | None
    work_ns: int
    frame_ns: int
    shortest_ns: int
    frames: int
    flow: int
    streams: tuple[str, ...]

    def later(self, by_ns: int) -> _Batch:
        return self._replace(
            earliest_ns=self.earliest_ns + by_ns,
            latest_ns=self.latest_ns + by_ns,
            end_ns=self.end_ns + by_ns,
            opens_ns=self.opens_ns + by_ns,
        )

    def with_frames(self, t: Transmission) -> _Batch:
        """The batch with those of one more stream."""
        return self._replace(
            work_ns=self.work_ns + t.work_ns,
            frame_ns=max(self.frame_ns, t.frame_ns),
            shortest_ns=min(self.shortest_ns, t.frame_ns),
            frames=self.frames + t.work_ns // t.frame_ns,
            flow=max(self.flow, _flow(t)),
            streams=(*self.streams, t.stream)[:_NAMED_MAX],
        )


def openings_of(
    intent: Intent, link: Link, number: int, gates: GateCycle, cycle_ns: int
) -> list[tuple[int, int]]:
    """When the gate of a class is open alone, control apart, and none of best effort is on the link
    any more, even if gates close early: (begin, end) in ns, in order, of one cycle."""
    others = [c for c in intent.classes.values() if c.number != number]
    shut = sum(1 << c.number for c in others if c.role is not ClassRole.CONTROL)
    found = []
    for start, end in gates.stretches(opened=1 << number, shut=shut, within_ns=cycle_ns):
        begin = start
        for c in intent.unplanned_classes():
            closed = gates.gate(c.number).last_open_ns(start)
            if gates.open_ns(c.number, closed - 1, closed):
                begin = max(begin, closed + guard_ns(intent, link, c))
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


def _flow(t: Transmission) -> int:
    """How many parts of a nanosecond of work come in one by the link before, at most; from its
    talker a stream's frames may come all at once."""
    return -(-t.frame_ns * _PARTS // t.ahead_ns) if t.ahead_ns else 0


class _Queue:
    """The frames of one class on one port, in windows that they share."""

    def __init__(
        self, intent: Intent, link: Link, number: int, sharing: Sequence[Transmission]
    ) -> None:
        self._intent = intent
        self._link = link
        self._number = number
        self._sharing = sharing
        self._control = ControlOnLink.of(intent, link)
        self._periods_ns = lcm(*{t.period_ns for t in sharing})
        bridge = intent.network.bridges.get(link.source.node)
        self._varies_ns = bridge.processing_max_ns - bridge.processing_min_ns if bridge else 0

    def judge_talker(self) -> Iterator[Violation]:
        """On the link of a talker, which starts to send at the offset or late. Each stretch of time
        in which its frames may be there stands for itself."""
        ahead_ns = best_effort_ns(self._intent, self._link)
        late_ns = held_up_ns(self._intent, self._link)
        together: list[_Batch] = []
        for batch in sorted(self._batches(self._periods_ns, twice=True)):
            if together and batch.earliest_ns >= max(its.end_ns for its in together):
                yield from self._late(together, together, _LONG_AGO_NS, ahead_ns, late_ns)
                together = []
            together.append(batch)
        yield from self._late(together, together, _LONG_AGO_NS, ahead_ns, late_ns)

    def judge_gate(self, gates: GateCycle) -> Iterator[Violation]:
        """On a port of a switch: each opening of the gate for itself."""
        cycle_ns = lcm(self._periods_ns, gates.cycle_ns)
        batches = sorted(self._batches(cycle_ns), key=lambda its: its.end_ns)
        openings = openings_of(self._intent, self._link, self._number, gates, cycle_ns)
        begins = [begin for begin, _ in openings]
        # Of some, those of several later cycles may be there before the last opening ends: of as
        # many as their latency has, or it is refused anyway.
        until_ns = max((end for _, end in openings), default=0)
        streams = self._intent.streams
        most = 2 + max(streams[t.stream].max_latency_ns for t in self._sharing) // cycle_ns
        every = [
            its.later(cycle * cycle_ns)
            for its in batches
            for early in [-(-(until_ns - its.earliest_ns) // cycle_ns)]
            for cycle in range(-1, max(1, min(most, early)))
        ]
        planned: defaultdict[int, list[_Batch]] = defaultdict(list)
        for batch in batches:
            which = bisect_left(begins, batch.end_ns) - 1
            # What is before the first of them has the last one of the cycle before.
            its = batch if which >= 0 else batch.later(cycle_ns)
            if openings and openings[which][0] <= its.opens_ns and its.end_ns <= openings[which][1]:
                planned[which % len(openings)].append(its)
            else:
                yield self._shut(batch)
        held_ns = held_up_ns(self._intent, self._link)
        for which, meant in sorted(planned.items()):
            begin, end = openings[which]
            # Those that are meant for this opening are there even if they come after it.
            there = [
                each
                for each in every
                if each.end_ns > begin and (each.earliest_ns < end or each.end_ns <= end)
            ]
            yield from self._late(meant, there, begin, 0, held_ns)

    def _batches(self, cycle_ns: int, *, twice: bool = False) -> Iterable[_Batch]:
        """What comes in one cycle, or in two; of each the end lies in it."""
        found: dict[tuple[PortRef | None, int, int, int, int], _Batch] = {}
        lateness_ns = self._intent.network.lateness_ns(self._link.source.node)
        for t in self._sharing:
            latest_ns = t.offset_ns + lateness_ns if t.ingress is None else t.latest_ns
            since_ns = t.busy_until_ns % t.period_ns - t.busy_until_ns
            for by_ns in range(since_ns, since_ns + (1 + twice) * cycle_ns, t.period_ns):
                # A window before may end too soon for its frames, which is reported there.
                latest = max(t.earliest_ns, latest_ns)
                times = t.earliest_ns, latest, t.busy_until_ns, t.offset_ns
                earliest, latest, end, opens = (each + by_ns for each in times)
                key = t.ingress, earliest, latest, end, opens
                if key in found:
                    found[key] = found[key].with_frames(t)
                else:
                    by = t.ingress
                    empty = _Batch(earliest, latest, end, opens, by, 0, 0, _NEVER_NS, 0, 0, ())
                    found[key] = empty.with_frames(t)
        return found.values()

    def _late(
        self,
        planned: Sequence[_Batch],
        there: Sequence[_Batch],
        begin_ns: int,
        ahead_ns: int,
        late_ns: int,
    ) -> Iterator[Violation]:
        """Whether `planned`, among all that may be `there`, have left by their ends: the gate opens
        at `begin_ns`, `late_ns` is for how long frames may be held up while control is not, and
        `ahead_ns` what best effort may take before any of them."""
        known: dict[int, int] = {}

        def left_ns(latest_ns: int) -> int:
            if latest_ns not in known:
                before = [each for each in there if each.earliest_ns <= latest_ns]
                known[latest_ns] = self._left_ns(before, latest_ns, begin_ns, ahead_ns, late_ns)
            return known[latest_ns]

        # Who comes later leaves no sooner: most windows are as long as the last frame needs.
        all_left_ns = left_ns(max(its.latest_ns for its in planned))
        for its in planned:
            if all_left_ns > its.end_ns and left_ns(its.latest_ns) > its.end_ns:
                names = ", ".join(its.streams)
                text = (
                    f"frames of class {self._number} may keep the link until "
                    f"{left_ns(its.latest_ns)} ns, of which {names} are to have left by "
                    f"{its.end_ns} ns"
                )
                yield Violation("window-full", str(self._link.source), text)
                return

    def _left_ns(
        self,
        before: Sequence[_Batch],
        latest_ns: int,
        begin_ns: int,
        ahead_ns: int,
        late_ns: int,
    ) -> int:
        """When the last frame has left of those that may come `before` the `latest_ns`."""
        shortest = min(its.shortest_ns for its in before)
        again_ns = goes_ns(self._intent, self._link, sum(its.frames for its in before))

        def left(since_ns: int, work_ns: int) -> int:
            # Control that comes while the gate is late is sent meanwhile: no more than its burst,
            # and what came behind the frame before, waits when it opens.
            control = self._control.keeps_ns(again_ns + work_ns - shortest)
            return since_ns + ahead_ns + control + again_ns + work_ns

        from_ns = begin_ns
        found = _LONG_AGO_NS
        coming = _coming(before, latest_ns, self._varies_ns)
        if begin_ns > _LONG_AGO_NS:
            from_ns += late_ns
            found = left(from_ns, coming[-1][1])
        for since_ns, work_ns in coming:
            if from_ns < since_ns <= latest_ns:
                found = max(found, left(since_ns, work_ns))
        return found

    def _shut(self, its: _Batch) -> Violation:
        names = ", ".join(its.streams)
        text = (
            f"the gate of class {self._number} is not open, and no other, for all the time from "
            f"{its.opens_ns} to {its.end_ns} ns, in which {names} are to leave"
        )
        return Violation("gate-window", str(self._link.source), text)


def _most(its: _Batch, until_ns: int) -> int:
    """How much of a batch may come until an instant, in parts of a nanosecond: all, or one frame
    and what its link sends from its earliest arrival on."""
    if not its.flow:
        return its.work_ns * _PARTS
    sent = its.flow * (min(its.latest_ns, until_ns) - its.earliest_ns)
    return min(its.work_ns * _PARTS, its.frame_ns * _PARTS + sent)


def _together(link: Iterable[_Batch], one: int, flow: int, until_ns: int) -> int:
    """How much of batches that come by one link may come until an instant, in parts: of those that
    come from any time on no more than one frame and what the link sends from then on."""
    first = sorted(link, key=lambda its: its.earliest_ns)
    before, found = 0, _NEVER_NS * _PARTS
    for its in first:
        found = min(found, before + one + flow * max(until_ns - its.earliest_ns, 0))
        before += _most(its, until_ns)
    return max(one, min(found, before))


def _coming(batches: Iterable[_Batch], until_ns: int, varies_ns: int) -> list[tuple[int, int]]:
    """For the instants that matter, the last first, how much work may come from then until
    `until_ns`; for the first instant that is all. The switch takes up to `varies_ns` longer for
    one frame than for another.

    By each link it is a sum that some instant ends, after which it lasts no longer than the link
    takes for it: together straight lines, which are greatest where one of them begins or ends.
    """
    by_link: defaultdict[tuple[PortRef | None, int], list[_Batch]] = defaultdict(list)
    for its in batches:
        by_link[its.ingress, min(its.latest_ns, until_ns + varies_ns)].append(its)
    changes: list[tuple[int, int, int, int]] = []  # when, and what all, slope and rest become
    for (_, latest), link in by_link.items():
        work, frame = sum(its.work_ns for its in link), max(its.frame_ns for its in link)
        flow = max(its.flow for its in link)
        if flow and work > frame:
            one, rest = frame * _PARTS, frame * _PARTS + flow * latest
            most = _together(link, one, flow, min(latest, until_ns))
            whole = latest - (most - one) // flow
            changes += (latest, 0, flow, rest), (whole, most, -flow, -rest)
        else:
            changes.append((latest, work * _PARTS, 0, 0))
    changes.sort(reverse=True)
    whole = slope = rest = 0
    found = []
    for index, (since_ns, work, its_slope, its_rest) in enumerate(changes):
        if slope:
            found.append((since_ns + 1, -(-(whole + rest - slope * (since_ns + 1)) // _PARTS)))
        whole, slope, rest = whole + work, slope + its_slope, rest + its_rest
        if index + 1 == len(changes) or changes[index + 1][0] < since_ns:
            found.append((since_ns, -(-(whole + rest - slope * since_ns) // _PARTS)))
    return found
