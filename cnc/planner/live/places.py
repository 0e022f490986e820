"""Places for streams whose frames have windows of their own, in a timetable held for changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import lcm
from threading import Lock
from typing import NamedTuple

from cnc.errors import Lack, Unschedulable
from cnc.model import Stream
from cnc.planner import explain
from cnc.planner.algorithm import DEFAULT_BUDGET
from cnc.planner.greedy import Greedy
from cnc.planner.live.changes import Movable
from cnc.planner.live.moving import make_room
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement
from cnc.planner.routing import Router
from cnc.planner.timetable import Timetable


class Placed(NamedTuple):
    """Where streams that come are placed, with those that move for them, and where the latter were
    `before`; the problem has them all."""

    problem: Problem
    come: dict[Member, Placement]
    before: dict[Member, Placement]


class Places:
    """The timetable of streams that run. `table` has what else is taken of links, too."""

    def __init__(
        self,
        problem: Problem,
        kept: Mapping[Member, Placement],
        router: Router,
        streams: Mapping[str, Stream],
    ) -> None:
        """`kept` are the placements of all `streams`."""
        self.table = Timetable(replace(problem, kept=kept))
        self.table.problem = problem  # which knows the times of their hops
        self._router = router
        self._streams = dict(streams)
        self._periods = Counter(stream.period_ns for stream in streams.values())

    @property
    def hyperperiod_ns(self) -> int:
        """After how long the frames of all streams repeat."""
        return lcm(*(+self._periods))

    def prepare(self, changing: Lock) -> None:
        """Fold what each link and queue is reserved for as a stream of each period sees it, which
        the first one would else wait for. The lock is held for one of them at a time."""
        with changing:
            resources, periods = self.table.resources(), sorted(+self._periods)
        for resource in resources:
            with changing:
                for period_ns in periods:
                    resource.circle(period_ns)

    def add(
        self, streams: Collection[Stream], undo: ExitStack, movable: Movable, most: int
    ) -> Placed:
        """Places for all of `streams` in the timetable, and for those that move; or
        `Unschedulable`. Until `accept` `undo` takes it back."""
        trees = self._router.route_all(streams)
        for stream in streams:
            undo.callback(self._router.carry, stream, trees.get(stream.name, ()), -1)
        problem = self._problem(streams, trees)
        self.table.problem = problem
        search = Greedy(
            problem, DEFAULT_BUDGET, paced=False, waiting=True, beat=True, table=self.table
        )
        refused = {
            member.stream: reason
            for member, route in search.routes.items()
            if (reason := explain.hopeless(problem, route))
        }
        lacks = {
            member.stream: Lack.TIME
            for member, route in search.routes.items()
            if explain.is_too_long(problem, route)
        }
        if not refused:
            search.run()
        refused |= {
            member.stream: explain.no_place(self.table, search.routes[member])
            for member in search.unplaced
        }
        apart = {
            stream.name: explain.no_second_path(stream, self._router.forwarding)
            for stream in streams
            if stream.name not in trees
        }
        refused |= apart
        before: dict[Member, Placement] = {}
        if most and search.unplaced and refused.keys() == {its.stream for its in search.unplaced}:
            moved = make_room(self.table, search, movable(), most)
            if moved is not None:
                before, refused, problem = moved, {}, self.table.problem
        come = {
            member: self.table.placements[member]
            for member in (*search.routes, *before)
            if member in self.table.placements
        }
        for placement in before.values():
            undo.callback(self.table.place, placement)
        for member in come:
            undo.callback(self.table.remove, member)
        if refused:
            raise Unschedulable(refused, lacks=lacks | dict.fromkeys(apart, Lack.SECOND_WAY))
        return Placed(problem, come, before)

    def accept(self, streams: Iterable[Stream]) -> None:
        """Make final what was added."""
        for stream in streams:
            self._streams[stream.name] = stream
            self._periods[stream.period_ns] += 1

    def of(self, names: Iterable[str]) -> list[Placement]:
        """The placements of streams, a sent copy of one by itself."""
        members = (
            Member(name, path) for name in names for path in range(self._streams[name].paths)
        )
        return [self.table.placements[member] for member in members]

    def forget_periods(self, names: Iterable[str], undo: ExitStack) -> None:
        """Count streams as gone, whose places `remove` takes out."""
        periods = [self._streams[name].period_ns for name in names]
        self._periods.subtract(periods)
        undo.callback(self._periods.update, periods)

    def remove(self, names: Iterable[str]) -> None:
        """Take streams out whose periods are forgotten."""
        for name in names:
            for placement in self.of([name]):
                self.table.remove(placement.route.member)
                self._router.carry(self._streams[name], [placement.route.tree], -1)
            del self._streams[name]

    def _problem(
        self, streams: Iterable[Stream], trees: Mapping[str, tuple[tuple[int, ...], ...]]
    ) -> Problem:
        """To place `streams` beside all others. It knows these by their reservations alone."""
        wanted = {stream.name: stream for stream in streams}
        return self.table.problem.only(wanted, trees, frozenset(+self._periods))
