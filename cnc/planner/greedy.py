"""One stream after the other, each where it first fits."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.planner.algorithm import Budget, Progress, Result
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement, Route
from cnc.planner.search import in_beat, with_waiting, without_waiting
from cnc.planner.timetable import Timetable

_REPORT_EVERY = 256
_COMMON_STARTS_MAX = 64  # tried for two copies: what needs more is all but full


class NoWait:
    """No-wait earliest fit: a frame leaves each bridge as soon as it surely lies in the queue."""

    name = "no-wait"

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        search = Greedy(problem, budget, paced=False, waiting=False, beat=True)
        search.run()
        return search.result(self.name)


class Waiting:
    """Earliest fit at one pace for frames of all sizes, where there are queues enough for that;
    what does not fit so waits at bridges."""

    name = "waiting"

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        search = Greedy(problem, budget, paced=problem.pays_to_pace, waiting=True)
        search.run()
        return search.result(self.name)


class Dense:
    """Earliest fit right behind each other for frames that share a route: what comes in by one
    port cannot change its order, so it need not be apart in the queue. In return no port is relied
    on to hold the frames back, so that they need more room beside those of other ports."""

    name = "dense"

    def __init__(self, unplaced_max: int | None = None) -> None:
        """More than `unplaced_max` members that do not fit end the pass."""
        self._unplaced_max = unplaced_max

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        search = Greedy(problem, budget, paced=False, waiting=True, dense=True)
        search.run(self._unplaced_max)
        return search.result(self.name)


class Greedy:
    """A pass over the streams. `unplaced` are the members that found no place.

    Without waiting the shortest periods come first: long ones fit into what they leave, and every
    search sees one mix of periods only. That is quick, and enough for a network with room. With
    waiting the most demanding come first: those with many hops, long frames and short periods.
    """

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        *,
        paced: bool,
        waiting: bool,
        beat: bool = False,
        dense: bool = False,
        table: Timetable | None = None,
    ) -> None:
        """With `beat`, a place that leaves room for later members is taken if there is
        one; if `dense`, frames that share their way follow each other, held back by no port,
        where there is room for that; with `table`, streams are added to what is there."""
        self.problem = problem
        self.table = table or Timetable(problem)
        self.routes: dict[Member, Route] = {
            member: problem.route(member, problem.trees[member.stream][member.path], paced=paced)
            for member in problem.members
        }
        self.demand = _demands(self.routes)
        self.unplaced: list[Member] = []
        self.interrupted = False
        self._detours: dict[Member, Route | None] = {}
        self._paced = paced
        self._waiting = waiting
        self._dense = dense
        self._first_try = in_beat if beat else without_waiting
        self._budget = budget

    def run(self, unplaced_max: int | None = None) -> None:
        """Place what fits. More than `unplaced_max` that do not, or an interrupt, end the pass."""
        order = [member for member in self._order() if member not in self.table.placements]
        try:
            for position, member in enumerate(order):
                if position % _REPORT_EVERY == 0:
                    placed = position - len(self.unplaced)
                    self._budget.watch(Progress("placing", placed, len(order)))
                if placement := self.fit(member):
                    self.table.place(placement)
                    continue
                if self._fit_before_other_copy(member) or self._fit_both_copies(member):
                    continue
                self.unplaced.append(member)
                if unplaced_max is not None and len(self.unplaced) > unplaced_max:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        self.unplaced = [member for member in order if member not in self.table.placements]

    def _order(self) -> list[Member]:
        """Both paths of a stream one after the other: the second has to lie near the first."""
        demand: dict[str, float] = {}
        for member, its in self.demand.items():
            demand[member.stream] = max(its, demand.get(member.stream, its))
        if self._waiting:
            return sorted(self.routes, key=lambda member: (-demand[member.stream], member))
        return sorted(
            self.routes,
            key=lambda member: (self.routes[member].period_ns, -demand[member.stream], member),
        )

    def fit(self, member: Member) -> Placement | None:
        """A free place for one member: without waiting if there is one, and rather on its first
        route than on the way around."""
        route = self.routes[member]
        if self._dense:
            early = self.problem.route(member, route.tree, held=False)
            if placement := without_waiting(self.table, early):
                return placement
        # From beat to beat there are few starts for two copies to have in common.
        is_copy = member.stream in self.table.not_before_ns
        first_try = without_waiting if is_copy else self._first_try
        if placement := first_try(self.table, route):
            return placement
        if not self._waiting:
            return None
        if placement := self._fit_waiting(route):
            return placement
        if member not in self._detours:
            self._detours[member] = self.problem.detour(member, paced=self._paced)
        detour = self._detours[member]
        if detour is None:
            return None
        return without_waiting(self.table, detour) or self._fit_waiting(detour)

    def _fit_before_other_copy(self, member: Member) -> bool:
        """Whether both copies of a stream have a place if this one is placed first."""
        other = self.table.other_copy(member)
        if other is None or other.route.member not in self.routes:
            return False
        self.table.remove(other.route.member)
        if placement := self.fit(member):
            self.table.place(placement)
            if near := self.fit(other.route.member):
                self.table.place(near)
                return True
            self.table.remove(member)
        self.table.place(other)
        return False

    def _fit_both_copies(self, member: Member) -> bool:
        """Whether both paths of a stream that start with one frame have places from some start;
        then they are placed there."""
        pair = Member(member.stream, 0), Member(member.stream, 1)
        if not self.problem.starts_with_copy(pair[1]) or not self.routes.keys() >= set(pair):
            return False
        before = [its for each in pair if (its := self.table.placements.get(each))]
        for its in before:
            self.table.remove(its.route.member)
        if self._place_from_common_start(*pair):
            return True
        for its in before:
            self.table.place(its)
        return False

    def _place_from_common_start(self, one: Member, other: Member) -> bool:
        """Each in turn is asked for its next place, and the other for one from the same start."""
        not_before_ns = self.table.not_before_ns
        step_ns = self.routes[one].legs[0].window_ns
        not_before_ns[one.stream] = 0
        try:
            for _ in range(_COMMON_STARTS_MAX):
                for first, second in ((one, other), (other, one)):
                    placement = self.fit(first)
                    if placement is None:
                        return False
                    self.table.place(placement)
                    if beside := self.fit(second):
                        self.table.place(beside)
                        return True
                    self.table.remove(first)
                    not_before_ns[one.stream] = placement.route.start_ns(placement.offsets_ns)
                not_before_ns[one.stream] += step_ns
            return False
        finally:
            del not_before_ns[one.stream]

    def _fit_waiting(self, route: Route) -> Placement | None:
        latency_max = self.problem.stream(route.member).max_latency_ns
        for number in self.table.classes(route):
            if placement := with_waiting(self.table, route, number, latency_max):
                return placement
        return None

    def result(self, algorithm: str) -> Result:
        return Result(algorithm, dict(self.table.placements), interrupted=self.interrupted)


def _demands(routes: Mapping[Member, Route]) -> dict[Member, float]:
    """How hard each member is to place, 1 on average.

    The share of the network that it takes, but short frames and above all short periods weigh
    more: they must find the same place free many times over. (Exponent and mean frame are from
    trials on rings, lines and grids at 75 %.)
    """
    legs = sum(len(route.legs) for route in routes.values())
    mean = sum(leg.window_ns for route in routes.values() for leg in route.legs) / max(1, legs)
    raw = {
        member: sum(leg.window_ns + mean for leg in route.legs) / route.period_ns**1.5
        for member, route in routes.items()
    }
    average = sum(raw.values()) / max(1, len(raw))
    return {member: value / average for member, value in raw.items()}
