"""Room for a stream that has none: a few that run move, each of them as long as nothing is worse.

One takes the place that makes fewest leave (`ejection`), and those that leave take another on their
ways, in their classes, within the latency that was stated of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from cnc.model import Stream
from cnc.planner.ejection import cheapest_ejection
from cnc.planner.greedy import Greedy
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement, Route
from cnc.planner.search import without_waiting
from cnc.planner.timetable import Timetable

_TRIES_MAX = 24


def may_move(stream: Stream) -> bool:
    """Whether a stream may be placed anew by itself: both copies of one would have to agree, and
    where jitter is limited a promise would."""
    return stream.paths == 1 and stream.max_jitter_ns is None


def make_room(
    table: Timetable, search: Greedy, movable: Mapping[str, Stream], most: int
) -> dict[Member, Placement] | None:
    """Place what `search` found no place for, and move at most so many streams for it; the former
    placements of those. None, and nothing is changed, where that does not do.

    `movable` are the streams that may, each with what was promised as its greatest latency.
    """
    near = _near(table, search, movable)
    before = table.problem
    table.problem = _beside(before, search, {name: movable[name] for name in near}, near)
    leaving: dict[Member, Placement] = {}
    room = _Room(table, search, near, leaving, most)
    if room.make():
        return {m: its for m, its in leaving.items() if table.placements[m] != its}
    for member in [*search.routes, *leaving]:
        if member in table.placements:
            table.remove(member)
    for placement in leaving.values():
        table.place(placement)
    table.problem = before
    return None


def _near(table: Timetable, search: Greedy, movable: Mapping[str, Stream]) -> dict[str, Placement]:
    """The streams that may move and meet those without a place on their ways."""
    links = {leg.link for member in search.unplaced for leg in search.routes[member].legs}
    members = {member for link in links for member in table.links[link].reservations}
    return {
        member.stream: table.placements[member]
        for member in sorted(members)
        if member.stream in movable and member not in search.routes
    }


def _beside(
    before: Problem,
    search: Greedy,
    streams: Mapping[str, Stream],
    placements: Mapping[str, Placement],
) -> Problem:
    """The problem of all that is to be placed, or may be placed anew on its way."""
    trees = {name: (its.route.tree,) for name, its in placements.items()}
    return before.only(
        {**search.problem.intent.streams, **streams},
        {**search.problem.trees, **trees},
        before.other_periods_ns,
    )


class _Room:
    """A search for it; `leaving` gets the former placements of all that had to leave once."""

    def __init__(
        self,
        table: Timetable,
        search: Greedy,
        near: Mapping[str, Placement],
        leaving: dict[Member, Placement],
        most: int,
    ) -> None:
        self._table = table
        self._search = search
        self._near = near
        self._leaving = leaving
        self._most = most
        self._cost = {its.route.member: its.route.legs[0].window_ns for its in near.values()}
        self._random = Random(table.problem.seed)  # noqa: S311  not for secrets

    def make(self) -> bool:
        """Whether all have a place in the end."""
        waiting = list(self._search.unplaced)
        for _ in range(_TRIES_MAX):
            if not waiting:
                return True
            member = waiting.pop()
            route = self._route(member)
            placement, gone = without_waiting(self._table, route), set[Member]()
            if placement is None:
                found = cheapest_ejection(self._table, route, self._costs(), self._random)
                if found is None:
                    return False
                placement, gone = found
            for other in sorted(gone):
                self._leaving.setdefault(other, self._table.placements[other])
                self._table.remove(other)
                waiting.append(other)
            if self._table.crowded(placement) or not self._table.is_steady(placement):
                return False
            self._table.place(placement)
            # Who has just got a place is not the first to lose it again.
            self._cost[member] = 2 * self._cost.get(member, route.legs[0].window_ns)
        return False

    def _route(self, member: Member) -> Route:
        if member in self._search.routes:
            return self._search.routes[member]
        return self._table.problem.route(member, self._near[member.stream].route.tree)

    def _costs(self) -> Mapping[Member, float]:
        """Of those that may leave: once enough have, no other."""
        if len(self._leaving) < self._most:
            return {m: ns for m, ns in self._cost.items() if m not in self._search.routes}
        return {member: self._cost[member] for member in self._leaving}
