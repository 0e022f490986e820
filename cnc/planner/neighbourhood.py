"""Large-neighbourhood search: a stream without a place takes one, and those in its way move."""

from __future__ import annotations

import heapq
from random import Random

from cnc.planner.algorithm import Budget, Progress, Result
from cnc.planner.ejection import cheapest_ejection
from cnc.planner.greedy import Greedy
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement

_REPORT_EVERY = 16
_GIVE_UP_AFTER = 1500  # ejections without a new best: this start leads nowhere


class Neighbourhood:
    """Ejection chains from a greedy start (Glover 1996; the prices are Nagata and Bräysy's 2009).

    Each time a stream finds no place even so, it becomes dearer to eject. So what is hard to place
    comes to rest, and what is easy to place moves around it.
    """

    name = "ejection"

    def __init__(self, *, paced: bool | None = None, seed: int = 0) -> None:
        """Starts from a pass that is paced where that pays, unless `paced` decides it."""
        self._paced = paced
        self._seed = seed

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        paced = problem.pays_to_pace if self._paced is None else self._paced
        greedy = Greedy(problem, budget, paced=paced, waiting=True)
        greedy.run()
        return self.improve(greedy, budget)

    def improve(self, greedy: Greedy, budget: Budget) -> Result:
        """Go on from a greedy pass; the best state on the way is the result."""
        if greedy.interrupted:
            return greedy.result(self.name)
        seed = f"{greedy.problem.seed}/{self._seed}"
        return _Search(greedy, budget, Random(seed)).run()  # noqa: S311  not for secrets


class _Search:
    def __init__(self, greedy: Greedy, budget: Budget, random: Random) -> None:
        self._greedy = greedy
        self._problem = greedy.problem
        self._table = greedy.table
        self._budget = budget
        self._random = random
        self._value = greedy.demand
        self._cost = dict(self._value)
        self._waiting = [(-self._value[m], m) for m in greedy.unplaced]
        heapq.heapify(self._waiting)
        self._best = dict(self._table.placements)
        self._fewest = len(self._waiting)
        self._stuck = 0
        self._interrupted = False

    def run(self) -> Result:
        since_best = 0
        try:
            for count in range(self._budget.ejections):
                if not self._waiting or since_best > _GIVE_UP_AFTER:
                    break
                if count % _REPORT_EVERY == 0:
                    self._report()
                self._place_next()
                since_best += 1
                if len(self._waiting) + self._stuck < self._fewest:
                    self._fewest = len(self._waiting) + self._stuck
                    self._best = dict(self._table.placements)
                    since_best = 0
        except KeyboardInterrupt:
            self._interrupted = True
        return Result(Neighbourhood.name, self._best, interrupted=self._interrupted)

    def _report(self) -> None:
        wanted = len(self._value)
        self._budget.watch(Progress("making room", wanted - self._fewest, wanted))

    def _place_next(self) -> None:
        """Place the largest member without a place, and eject the members in its way."""
        _, member = heapq.heappop(self._waiting)
        placement = self._greedy.fit(member)
        if placement is None:
            self._cost[member] += self._value[member]
            route = self._greedy.routes[member]
            ejection = cheapest_ejection(self._table, route, self._cost, self._random)
            if ejection is None and self._eject_other_copy(member):
                ejection = cheapest_ejection(self._table, route, self._cost, self._random)
            if ejection is None:
                self._stuck += 1  # behind kept streams: nobody who could leave would help
                return
            placement, leaving = ejection
            for other in sorted(leaving):
                self._eject(other)
            if not self._leave_share(placement):
                self._stuck += 1
                return
        self._table.place(placement)

    def _leave_share(self, placement: Placement) -> bool:
        """Eject members from links of which best effort would keep too little beside a placement,
        those that cost least; whether there were enough that could leave."""
        while crowded := self._table.crowded(placement):
            link = placement.route.legs[crowded[0]].link
            others = self._table.links[link].reservations.keys() & self._cost.keys()
            if not others:
                return False
            self._eject(min(others, key=lambda member: (self._cost[member], member)))
        return True

    def _eject_other_copy(self, member: Member) -> bool:
        """Let the stream's other path be placed again, if it is what leaves this one no room."""
        other = self._table.other_copy(member)
        if other is None or other.route.member not in self._value:
            return False
        self._eject(other.route.member)
        return True

    def _eject(self, member: Member) -> None:
        self._table.remove(member)
        heapq.heappush(self._waiting, (-self._value[member], member))
