"""The default: the cheapest algorithm that places every stream of the network."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace

from cnc.planner import exact
from cnc.planner.algorithm import Algorithm, Budget, Result
from cnc.planner.capacity import crowded_link, crowded_queue, has_way_around
from cnc.planner.greedy import Dense, Greedy, NoWait, Waiting
from cnc.planner.neighbourhood import Neighbourhood
from cnc.planner.portfolio import Portfolio
from cnc.planner.problem import Problem
from cnc.planner.waves import Waves

# Proofs for more can take minutes, which not everybody wants to wait. Orders cost more than that:
# six streams of two periods with 10,700 orders took 20 s of CPU time, with 2,300 of them 3 s.
_EXACT_SIZE_MAX = exact.Size(members=60, orders=2_500)
_EXACT_PATIENCE = 0.2
_NO_WAIT_MISSES = 50  # one stream in so many may miss before waiting is tried for all


class Auto:
    """No-wait first; if some stream does not fit, waiting, and frames right behind each other; then
    links filled in waves, and ejection from there and from several other starts.

    A small network that is still not complete is searched exactly, which may show that it cannot
    be by the planner's rules. With an executor the starts run side by side.
    """

    name = "auto"

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        plain = Greedy(problem, budget, paced=False, waiting=False, beat=True)
        plain.run(unplaced_max=len(problem.members) // _NO_WAIT_MISSES)
        if plain.interrupted or not plain.unplaced:
            return plain.result(NoWait.name)
        waiting = Waiting().schedule(problem, budget)
        if waiting.interrupted or waiting.is_complete(problem) or not budget.ejections:
            return waiting
        missing = sum(member not in waiting.placements for member in problem.members)
        dense = Dense(unplaced_max=missing - 1).schedule(problem, budget)
        greedy = max(waiting, dense, key=lambda result: len(result.placements))
        if dense.interrupted or greedy.is_complete(problem):
            return replace(greedy, interrupted=dense.interrupted)
        conflict = crowded_link(problem)
        crowd = conflict or crowded_queue(problem)
        if crowd and not has_way_around(problem, crowd):
            return replace(greedy, impossible=conflict)
        found = Portfolio(_starts(problem), self._executor).schedule(problem, budget)
        if len(found.placements) <= len(greedy.placements):
            # No start came further, be it that the operator interrupted: streams start early here.
            return replace(greedy, impossible=found.impossible, interrupted=found.interrupted)
        return found


def _starts(problem: Problem) -> list[Algorithm]:
    first = problem.pays_to_pace
    starts: list[Algorithm] = [Waves()]
    starts += [
        Neighbourhood(paced=paced, seed=seed) for seed in range(2) for paced in (first, not first)
    ]
    if exact.is_available() and exact.size(problem).is_within(_EXACT_SIZE_MAX):
        starts.append(exact.Exact(patience=_EXACT_PATIENCE))
    return starts
