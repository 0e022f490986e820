"""How long queues of frames that share windows may be busy after a disturbance.

A queue is as planned again when it has once been empty after all that feed it are. While it is not,
each cycle of its gates makes up for what they let go beside what comes: so long a busy time lasts
at most. The ports are gone through from the talkers on; those around a ring have no bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import lcm
from typing import NamedTuple

from cnc.mechanisms.terms import (
    control_backlog_ns,
    control_share,
    late_interference_ns,
    longest_frame_ns,
    may_be_dropped,
)
from cnc.model import FRAMES_IN_ONE_GO, ClassRole, GateControlList, PortRef
from cnc.planner.backlog import openings
from cnc.planner.floor import us
from cnc.planner.gates import Window
from cnc.planner.problem import Problem

Queue = tuple[int, int]
"""A link and a class."""


class Crossing(NamedTuple):
    """The frames of each period of a stream on a link of a switch: they keep it for `work_ns`, each
    for `frame_ns`; the first may be there `varies_ns` before the last has left. `before` is the
    number of the crossing before, or None behind the link `came_by` of a talker; there they take
    `came_work_ns`, and from its end, or from when the talker sends, `takes_ns` until they have left
    here."""

    stream: str
    link: int
    traffic_class: int
    period_ns: int
    work_ns: int
    frame_ns: int
    varies_ns: int
    before: int | None
    came_by: int
    came_work_ns: int
    takes_ns: int


class _Busy(NamedTuple):
    lasts_ns: int
    holds_ns: int
    with_before_ns: int  # what late frames may take here and on the way to here
    back_ns: int  # how long after a disturbance it is as planned again


class _Talker(NamedTuple):
    """For how long a talker's link is behind its plan after a frame at any time, and how much."""

    over_ns: int
    late_ns: int


class BusyTimes:
    """Those of all queues; `sent` has the windows of each talker's link, with their periods."""

    def __init__(
        self,
        problem: Problem,
        crossings: Sequence[Crossing],
        sent: Mapping[int, Sequence[tuple[int, Window]]],
        lists: Mapping[PortRef, GateControlList],
    ) -> None:
        self._problem = problem
        self._crossings = crossings
        self._lists = lists
        self._queues: defaultdict[Queue, list[int]] = defaultdict(list)
        for number, each in enumerate(crossings):
            self._queues[each.link, each.traffic_class].append(number)
        self._late_ns = [0] * len(crossings)
        names = {its.number: its.name for its in problem.intent.classes.values()}
        self._is_dropped = {
            each.stream: may_be_dropped(problem.intent, each.stream, names[each.traffic_class])
            for each in crossings
        }
        frames: defaultdict[int, int] = defaultdict(int)
        for each in crossings:
            if each.before is None:
                frames[each.came_by] += problem.intent.streams[each.stream].frames
        self._talkers = {link: self._talker(link, its, frames[link]) for link, its in sent.items()}
        self.endless: dict[PortRef, str] = {}
        self._busy: dict[Queue, _Busy] = {}
        for queue in self._in_order():
            if found := self._reached(queue):
                self._busy[queue] = found

    def recovery_ns(self) -> dict[str, int]:
        """How long after a disturbance streams may be late; those without a bound are missing."""
        found: dict[str, int] = {}
        endless = set()
        for each in self._crossings:
            queue = each.link, each.traffic_class
            if queue not in self._busy:
                endless.add(each.stream)
                continue
            talker = self._talkers.get(each.came_by) if each.before is None else None
            back_ns = max(self._busy[queue].back_ns, talker.over_ns if talker else 0)
            found[each.stream] = max(back_ns, found.get(each.stream, 0))
        return {name: ns for name, ns in found.items() if name not in endless}

    def _talker(self, link: int, sent: Sequence[tuple[int, Window]], frames: int) -> _Talker | None:
        """None where it never makes up for a late frame: it has to in the pauses of its windows."""
        problem, its = self._problem, self._problem.links[link]
        cycle = lcm(*{period for period, _ in sent})
        lasts = [(period, window.close_ns - window.open_ns) for period, window in sent]
        pauses_ns = cycle - sum(cycle // period * ns for period, ns in lasts)
        beside_ns = late_interference_ns(problem.intent, its)
        share, whole = control_share(problem.intent, its)
        extra_ns = max(ns for _, ns in lasts) + beside_ns
        extra_ns += longest_frame_ns(problem.intent, its, ClassRole.SCHEDULED)
        extra_ns += 2 * frames // FRAMES_IN_ONE_GO * problem.intent.network.gate_margin_ns
        extra_ns = -(-extra_ns * whole // max(whole - share, 1))
        if pauses_ns <= 0:
            return None
        over_ns = (extra_ns // pauses_ns + 1) * cycle + extra_ns + beside_ns
        is_one_class = len({window.traffic_class for _, window in sent}) == 1
        return _Talker(over_ns, extra_ns if is_one_class else over_ns)

    def _feeding(self, queue: Queue) -> set[Queue]:
        before = (self._crossings[n].before for n in self._queues[queue])
        links = {self._crossings[b].link for b in before if b is not None}
        return {(link, queue[1]) for link in links} | set(self._above(queue))

    def _above(self, queue: Queue) -> list[Queue]:
        link, number = queue
        return [its for its in self._queues if its[0] == link and its[1] > number]

    def _in_order(self) -> Iterable[Queue]:
        feeding = {queue: self._feeding(queue) for queue in self._queues}
        known: set[Queue] = set()
        left = list(feeding)
        while left:
            ready = [queue for queue in left if feeding[queue] <= known]
            if not ready:
                break
            yield from ready
            known.update(ready)
            left = [queue for queue in left if queue not in known]
        for link, _ in left:
            port = self._problem.links[link].source
            self.endless[port] = f"{ENDLESS}: they may make each other late around a ring of ports"

    def _reached(self, queue: Queue) -> _Busy | None:
        """The busy time of a queue; None where it, or one that feeds it, has no bound."""
        its, above = self._queues[queue], self._above(queue)
        if not self._feeding(queue) <= self._busy.keys():
            return None
        fed_ns = 0
        for number in its:
            each = self._crossings[number]
            if each.before is None:
                talker = self._talkers[each.came_by]
                if talker is None:
                    self.endless[self._problem.links[each.came_by].source] = (
                        f"{ENDLESS}: the talker sends without a pause to make up for a late frame"
                    )
                    return None
                late_ns, back_ns = talker.late_ns, talker.over_ns
                if self._is_dropped[each.stream]:
                    switch = self._problem.links[each.link].source.node
                    late_ns = self._problem.intent.network.bridges[switch].processing_max_ns
            else:
                before = self._busy[each.came_by, each.traffic_class]
                back_ns = before.back_ns
                late_ns = self._late_ns[each.before] + before.lasts_ns + each.came_work_ns
            self._late_ns[number] = late_ns
            fed_ns = max(fed_ns, back_ns + each.takes_ns + each.came_work_ns)
        cycle_ns, serves_ns, begins_ns = self._served(queue, above)
        planned_ns, varies_ns = self._planned(queue, cycle_ns)
        late_ns = self._late_before(queue)
        lost_ns = (self._problem.intent.network.disturbance_ns or 0) + 2 * begins_ns
        holds_ns = planned_ns + varies_ns + late_ns + lost_ns + self._unexpected_ns(queue)
        for other in above:
            more_ns, varies_ns = self._planned(other, cycle_ns)
            planned_ns += more_ns
            holds_ns += more_ns + varies_ns + 2 * self._busy[other].holds_ns
        if serves_ns <= planned_ns:
            self.endless[self._problem.links[queue[0]].source] = (
                f"{ENDLESS}: in {us(cycle_ns)} its gates let go {us(serves_ns)} of late frames at "
                f"least, and what is planned takes {us(planned_ns)}"
            )
            return None
        lasts_ns = (-(-holds_ns // (serves_ns - planned_ns)) + 1) * cycle_ns
        return _Busy(lasts_ns, holds_ns, late_ns + holds_ns, fed_ns + lasts_ns)

    def _served(self, queue: Queue, above: Sequence[Queue]) -> tuple[int, int, int]:
        """A cycle, what a queue is served in it, and what is lost where that begins."""
        (number, traffic_class), intent = queue, self._problem.intent
        link, network = self._problem.links[number], intent.network
        gates = self._lists[link.source]
        crossing = [self._crossings[n] for each in (queue, *above) for n in self._queues[each]]
        cycle = lcm(gates.cycle_ns, *{each.period_ns for each in crossing})
        own = [self._crossings[n] for n in self._queues[queue]]
        longest, shortest = max(e.frame_ns for e in own), min(e.frame_ns for e in own)
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        shut = sum(1 << c.number for c in best_effort if c.number > traffic_class)
        others = (ClassRole.BEST_EFFORT, ClassRole.SCHEDULED)
        begins = network.gate_margin_ns + control_backlog_ns(intent, link)
        begins += max(longest_frame_ns(intent, link, role) for role in others)
        share, whole = control_share(intent, link)
        early = link.gate_tick_ns - 1 + link.gate_early_ns
        total = 0
        for start, end in openings(gates, 1 << traffic_class, shut, early):
            goes = ((end - start) // (shortest // 2) + 1) // FRAMES_IN_ONE_GO
            lasts = max(0, end - start - goes * network.gate_margin_ns)
            open_ns = lasts * max(0, whole - share) // whole
            if end - start + early >= gates.cycle_ns:
                total += open_ns  # it never shuts, and begins once
            else:
                total += max(0, open_ns - begins - longest)
        return cycle, total * (cycle // gates.cycle_ns), begins + longest

    def _planned(self, queue: Queue, cycle_ns: int) -> tuple[int, int]:
        """What is planned in a cycle, and what may come beside that of other cycles."""
        its = [self._crossings[n] for n in self._queues[queue]]
        planned = sum(each.work_ns * (cycle_ns // each.period_ns) for each in its)
        return planned, sum(e.work_ns * (e.varies_ns // e.period_ns + 1) for e in its)

    def _unexpected_ns(self, queue: Queue) -> int:
        works: defaultdict[str, int] = defaultdict(int)
        for each in (self._crossings[n] for n in self._queues[queue]):
            works[each.stream] += 0 if self._is_dropped[each.stream] else each.work_ns
        return max(works.values())

    def _late_before(self, queue: Queue) -> int:
        """What comes late: no more of a stream than it sends in the time by which it is late, and
        no more than is held on the way to the queue."""
        by_stream_ns = by_link_ns = 0
        ways: dict[int, tuple[int, int, int]] = {}
        for number in self._queues[queue]:
            each = self._crossings[number]
            late_ns = -(-self._late_ns[number] // each.period_ns) * each.work_ns
            by_stream_ns += late_ns
            if each.before is None:
                by_link_ns += late_ns
                continue
            takes, work, came = ways.get(each.came_by, (0, 0, 1))
            if each.work_ns * came > work * each.came_work_ns:
                work, came = each.work_ns, each.came_work_ns
            ways[each.came_by] = max(takes, each.takes_ns + each.came_work_ns), work, came
        for link, (takes, work, came) in ways.items():
            held_ns = self._busy[link, queue[1]].with_before_ns + takes
            by_link_ns += -(-held_ns * work // came)
        return min(by_stream_ns, by_link_ns)


ENDLESS = "no bound is found on how long frames that share windows are late after a disturbance"
