"""List scheduling along the ways of frames: each stream behind those that go before it."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from cnc.planner.algorithm import Budget, Progress, Result
from cnc.planner.greedy import Greedy
from cnc.planner.neighbourhood import Neighbourhood
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Route
from cnc.planner.search import next_without_waiting

_REPORT_EVERY = 256


class Waves:
    """Streams in the order in which the links of their ways come free, and of those that could
    start at once the one with the longest way (list scheduling; Graham 1966). Links that frames
    cross one after the other are counted from one moment, which goes along with the frames: so gaps
    that one stream leaves at a link are gaps on the next as well, and the next stream fills them.
    Ejection goes on from there.
    """

    name = "waves"

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        sweep = _Sweep(problem, budget, paced=problem.pays_to_pace, waiting=True)
        sweep.run()
        return replace(Neighbourhood().improve(sweep, budget), algorithm=self.name)


class _Sweep(Greedy):
    """A pass of shorter periods before longer ones, each from the beginning of the wave on. What
    is left, and streams with two paths, are placed one by one as in any other pass."""

    def run(self, unplaced_max: int | None = None) -> None:
        try:
            self._fill()
            super().run(unplaced_max)
        except KeyboardInterrupt:
            self.interrupted = True

    def _fill(self) -> None:
        begins_ns = _begins_ns(self.routes.values())
        by_period: defaultdict[int, list[_Next]] = defaultdict(list)
        for member, route in self.routes.items():
            if self.problem.stream(member).paths == 1:
                longest_ns = max(leg.window_ns for leg in route.legs)
                key = 0, -len(route.legs), -longest_ns, member
                by_period[route.period_ns].append(key)
        for period in sorted(by_period):
            self._fill_period(by_period[period], begins_ns)

    def _fill_period(self, waiting: list[_Next], begins_ns: Mapping[Member, int]) -> None:
        """Place each where it first fits. What is placed puts others off, never forward: so who was
        first when it was last looked at, and still fits there, is the first."""
        heapq.heapify(waiting)
        count = 0
        while waiting:
            if count % _REPORT_EVERY == 0:
                placed = len(self.table.placements)
                self._budget.watch(Progress("placing", placed, len(self.routes)))
            count += 1
            after_ns, hops, longest_ns, member = heapq.heappop(waiting)
            begin_ns = begins_ns[member]
            found = next_without_waiting(self.table, self.routes[member], begin_ns, after_ns)
            if found is None:
                continue
            its = found[0], hops, longest_ns, member
            if waiting and its > waiting[0]:
                heapq.heappush(waiting, its)
            else:
                self.table.place(found[1])


_Next = tuple[int, int, int, Member]  # when it may start, and of those the first to place


def _begins_ns(routes: Collection[Route]) -> dict[Member, int]:
    """When the wave comes to the talker of each member, in its period.

    Between links it goes as long as frames do. Where ways part, meet or go around not all of that
    can hold: it does for those by which most goes (a spanning tree; Kruskal 1956), and counts for
    a member where its way is fullest.
    """
    load: defaultdict[int, float] = defaultdict(float)
    turns: defaultdict[tuple[int, int], float] = defaultdict(float)
    lasts_ns: dict[tuple[int, int], int] = {}
    for route in routes:
        for leg, after in zip(route.legs, route.offsets_ns, strict=True):
            share = leg.window_ns / route.period_ns
            load[leg.link] += share
            if leg.parent is not None:
                turn = route.legs[leg.parent].link, leg.link
                turns[turn] += share
                lasts_ns.setdefault(turn, after - route.offsets_ns[leg.parent])
    comes_ns = dict.fromkeys(load, 0)
    together = {link: [link] for link in load}
    for turn in sorted(turns, key=lambda turn: (-turns[turn], turn)):
        before, behind = (together[link] for link in turn)
        if before is behind:
            continue
        later_ns = comes_ns[turn[0]] + lasts_ns[turn] - comes_ns[turn[1]]
        if len(before) < len(behind):
            before, behind, later_ns = behind, before, -later_ns
        for link in behind:
            comes_ns[link] += later_ns
            together[link] = before
        before += behind
    begins_ns = {}
    for route in routes:
        fullest = max(range(len(route.legs)), key=lambda leg: load[route.legs[leg].link])
        begin_ns = comes_ns[route.legs[fullest].link] - route.offsets_ns[fullest]
        begins_ns[route.member] = begin_ns % route.period_ns
    return begins_ns
