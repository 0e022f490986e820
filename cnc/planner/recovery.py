"""Disturbances end: how long after one the streams of a plan may still be late.

A disturbance keeps a port from sending, or makes a frame miss its window. What the port could not
send leaves in spare room (`spare`), late, and may make others late there and on later ports. How
late a frame can be grows from port to port, until nothing changes any more. From the last port to
the first, each is back to the plan once the ports that feed it are, and its backlog is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cnc.model import ClassRole, GateControlList, Intent, Link, PortRef
from cnc.planner.backlog import Ahead, Backlog, Coming
from cnc.planner.chains import Passage, longest_chain_ns
from cnc.planner.gates import Lists
from cnc.planner.ports import longest_frame_ns, start_delay_ns
from cnc.planner.problem import Problem
from cnc.planner.route import Placement

_PASSES_MAX = 100  # of raising how late frames are: a path has fewer hops
_NAMED_MAX = 5


class Recovery(NamedTuple):
    """By stream, how long after a disturbance it may be late; by port, why it never recovers."""

    recovery_ns: dict[str, int]
    refused: dict[PortRef, str]


class _Visit(NamedTuple):
    """A frame of a placement on one gated link; `parent` is the visit before, if that is gated."""

    stream: str
    link: int
    traffic_class: int
    period_ns: int
    earliest_ns: int
    offset_ns: int
    busy_ns: int  # from the planned start to the latest end
    wire_ns: int  # of that, the frame itself
    parent: int | None
    way_ns: int  # from the end of its window on the port before to the latest arrival here


_Queue = tuple[int, int]  # link and class


def recovery(problem: Problem, placements: Iterable[Placement], lists: Lists) -> Recovery:
    """For placements that are sound with `lists`; nothing where the network need not recover, and
    where ports cannot run their lists anyway."""
    if problem.intent.network.disturbance_ns is None or lists.crowded():
        return Recovery({}, {})
    return _Search(problem, list(_visits(problem, placements)), lists.lists).run()


def _visits(problem: Problem, placements: Iterable[Placement]) -> Iterator[_Visit]:
    count = 0
    for route, offsets, number in placements:
        name = route.member.stream
        visit_of: dict[int, int] = {}
        for index, (leg, offset) in enumerate(zip(route.legs, offsets, strict=True)):
            if leg.parent is None:
                continue
            busy = problem.busy_ns(name, leg.link)
            before = route.legs[leg.parent]
            yield _Visit(
                name,
                leg.link,
                number,
                route.period_ns,
                offsets[leg.anchor] + leg.min_ns,
                offset,
                busy,
                busy - start_delay_ns(problem.intent, problem.links[leg.link]),
                visit_of.get(leg.parent),
                leg.max_ns - problem.busy_ns(name, before.link),
            )
            visit_of[index] = count
            count += 1


class _Search:
    def __init__(
        self, problem: Problem, visits: Sequence[_Visit], lists: Mapping[PortRef, GateControlList]
    ) -> None:
        self._problem = problem
        self._visits = visits
        self._lists = lists
        self._late = [0] * len(visits)
        self._crossing: defaultdict[int, list[int]] = defaultdict(list)
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        for number, visit in enumerate(visits):
            self._crossing[visit.link].append(number)
            if visit.parent is not None:
                self._children[visit.parent].append(number)

    def run(self) -> Recovery:
        backlogs = self._backlogs()
        if stuck := {queue for queue, its in backlogs.items() if its.stays}:
            return Recovery({}, self._never(stuck, _STUCK))
        recovered = self._recovered(backlogs)
        if stuck := backlogs.keys() - recovered.keys():
            return Recovery({}, self._never(stuck, _CIRCULAR))
        by_stream: dict[str, int] = {}
        for visit in self._visits:
            time = recovered[visit.link, visit.traffic_class]
            by_stream[visit.stream] = max(time, by_stream.get(visit.stream, 0))
        return Recovery(by_stream, {})

    def _recovered(self, backlogs: Mapping[_Queue, Backlog]) -> dict[_Queue, int]:
        """How long after a disturbance frames may leave each queue late: until those that feed it
        are back to the plan, and its backlog is gone. Queues that feed each other may take as long
        as the longest chain of late frames; they are missing, with all that they feed, if such a
        chain need not end."""
        feeders = self._feeders()
        recovered: dict[_Queue, int] = {}
        pending = list(feeders)
        while pending:
            ready = [queue for queue in pending if feeders[queue].keys() <= recovered.keys()]
            for queue in ready:
                fed = (recovered[feeder] + way for feeder, way in feeders[queue].items())
                recovered[queue] = max((0, *fed)) + backlogs[queue].longest_ns()
            if not ready:
                ring = _ring(feeders, pending)
                chain = self._chain_ns(ring, backlogs)
                if chain is None:
                    break
                ways = [(f, way) for queue in ring for f, way in feeders[queue].items()]
                fed = (recovered[f] + way for f, way in ways if f not in ring)
                within = max(backlogs[queue].longest_ns() for queue in ring)
                within += max(way for _, way in ways) + chain
                recovered |= dict.fromkeys(ring, max((0, *fed)) + within)
            pending = [queue for queue in pending if queue not in recovered]
        return recovered

    def _chain_ns(self, ring: set[_Queue], backlogs: Mapping[_Queue, Backlog]) -> int | None:
        of_link: defaultdict[int, list[int]] = defaultdict(list)
        for link, lowest in ring:
            of_link[link].append(lowest)
        below: dict[int, list[Backlog]] = {}
        for number, visit in enumerate(self._visits):
            classes = [n for n in of_link.get(visit.link, ()) if n <= visit.traffic_class]
            if classes:
                below[number] = [backlogs[visit.link, n] for n in classes]
        position = {number: index for index, number in enumerate(below)}
        passages = []
        for number, delayed in below.items():
            visit = self._visits[number]
            latest = visit.offset_ns + self._late[number]
            passages.append(
                Passage(
                    visit.link,
                    visit.traffic_class,
                    visit.period_ns,
                    visit.earliest_ns,
                    visit.offset_ns + visit.busy_ns,
                    partial(_gone_ns, delayed, latest),
                    [position[child] for child in self._children[number] if child in position],
                )
            )
        return longest_chain_ns(passages)

    def _backlogs(self) -> dict[_Queue, Backlog]:
        """What becomes of the backlog of each queue, if frames are as late as others make them."""
        backlogs: dict[_Queue, Backlog] = {}
        pending = set(self._crossing)
        for _ in range(_PASSES_MAX):
            pushed: set[int] = set()
            for link in sorted(pending):
                backlogs |= self._of_port(link)
            for link in sorted(pending):
                pushed |= self._push_on(link, backlogs)
            pending = pushed
            if not pending or any(its.stays for its in backlogs.values()):
                break
        for link in pending:  # lateness that still grows there has no bound
            numbers = {self._visits[number].traffic_class for number in self._crossing[link]}
            backlogs |= {(link, n): Backlog(1, (), (), Ahead(0, 0, 1, 0)) for n in numbers}
        return backlogs

    def _push_on(self, link: int, backlogs: Mapping[_Queue, Backlog]) -> set[int]:
        """Make frames that leave a link late as late on their next; the links that this changes."""
        changed = set()
        for number in self._crossing[link]:
            visit = self._visits[number]
            if not self._children[number] or (its := backlogs[link, visit.traffic_class]).stays:
                continue
            start = visit.offset_ns + self._late[number]
            late = (
                -visit.busy_ns
                - visit.offset_ns
                + max(
                    its.gone_ns(start + shift) - shift
                    for shift in range(0, its.cycle_ns, visit.period_ns)
                )
            )
            for child in self._children[number]:
                if late > self._late[child]:
                    self._late[child] = late
                    changed.add(self._visits[child].link)
        return changed

    def _of_port(self, number: int) -> dict[_Queue, Backlog]:
        """For each class of a port; frames of greater class numbers go ahead of its own."""
        intent, link = self._problem.intent, self._problem.links[number]
        gates = self._lists[link.source]
        visits = [(self._visits[n], self._late[n]) for n in self._crossing[number]]
        classes = sorted({visit.traffic_class for visit, _ in visits})
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        found = {}
        for lowest in classes:
            coming = [
                Coming(v.period_ns, v.earliest_ns, v.offset_ns + late, v.wire_ns)
                for v, late in visits
                if v.traffic_class >= lowest
            ]
            slower = [v.wire_ns for v, _ in visits if v.traffic_class < lowest]
            under_way = max([longest_frame_ns(intent, link, ClassRole.BEST_EFFORT), *slower])
            opened = sum(1 << n for n in classes if n >= lowest)
            shut = sum(1 << c.number for c in best_effort if c.number > lowest)
            found[number, lowest] = Backlog(
                gates.cycle_ns,
                _openings(gates, opened, shut),
                coming,
                _ahead(intent, link, under_way + max(c.wire_ns for c in coming)),
            )
        return found

    def _feeders(self) -> dict[_Queue, dict[_Queue, int]]:
        """Which queues feed each, or one that goes ahead of it, and how long the way is."""
        found: dict[_Queue, dict[_Queue, int]] = {}
        for link, numbers in self._crossing.items():
            visits = [self._visits[number] for number in numbers]
            for lowest in {visit.traffic_class for visit in visits}:
                ways: dict[_Queue, int] = {}
                for visit in visits:
                    if visit.parent is not None and visit.traffic_class >= lowest:
                        feeder = self._visits[visit.parent].link, visit.traffic_class
                        ways[feeder] = max(visit.way_ns, ways.get(feeder, visit.way_ns))
                found[link, lowest] = ways
        return found

    def _never(self, queues: Iterable[_Queue], why: str) -> dict[PortRef, str]:
        """What to say of ports that never recover, because of their `queues`."""
        found = {}
        for link, number in sorted(queues):
            names = dict.fromkeys(
                visit.stream
                for visit in (self._visits[n] for n in self._crossing[link])
                if visit.traffic_class <= number
            )
            shown = ", ".join(list(names)[:_NAMED_MAX])
            if len(names) > _NAMED_MAX:
                shown += f" and {len(names) - _NAMED_MAX} more"
            found[self._problem.links[link].source] = (
                f"after a disturbance {shown} would stay late for ever: {why}. Fewer streams, "
                "longer periods, a smaller max-frame of best effort or a shorter `recovery` would "
                "help; `recovery: none` under `defaults` accepts it"
            )
        return found


def _gone_ns(backlogs: Sequence[Backlog], latest_ns: int, begin_ns: int) -> int:
    """When the last of the queues is clear again of a frame of the period that begins then."""
    return max(its.gone_ns(begin_ns + latest_ns) for its in backlogs)


def _ring(feeders: Mapping[_Queue, Mapping[_Queue, int]], pending: Iterable[_Queue]) -> set[_Queue]:
    """Of queues that wait for each other, those that feed others of them."""
    ring = set(pending)
    while True:
        feeding = {feeder for queue in ring for feeder in feeders[queue]} & ring
        if feeding == ring:
            return ring
        ring = feeding


_STUCK = (
    "beside the planned windows the gate is never open for long enough to send what one "
    "disturbance leaves in the queue"
)
_CIRCULAR = "its frames make each other late around a ring of ports"


def _openings(gates: GateControlList, opened: int, shut: int) -> list[tuple[int, int]]:
    """When all gates of `opened` are open and none of `shut`; the last may end a cycle later."""
    found: list[tuple[int, int]] = []
    begin = 0
    for entry in gates.entries:
        end = begin + entry.interval_ns
        if entry.gate_states & (opened | shut) == opened:
            if found and found[-1][1] == begin:
                found[-1] = found[-1][0], end
            else:
                found.append((begin, end))
        begin = end
    if len(found) > 1 and found[0][0] == 0 and found[-1][1] == gates.cycle_ns:
        found[-1] = found[-1][0], gates.cycle_ns + found.pop(0)[1]
    return found


def _ahead(intent: Intent, link: Link, once_ns: int) -> Ahead:
    """What control, the gate's delay and `once_ns` of other frames take of an opening."""
    return Ahead(
        once_ns + start_delay_ns(intent, link),
        intent.control_rate_bps(link),
        link.rate_bps,
        intent.network.disturbance_ns or 0,
    )
