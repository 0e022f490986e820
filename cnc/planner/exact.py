"""Exact search for small problems: a placement of everything, or the proof that the rules of
planner and judge leave none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import combinations_with_replacement
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

from cnc.errors import InputError
from cnc.planner.algorithm import Budget, Progress, Result
from cnc.planner.greedy import Dense, NoWait, Waiting
from cnc.planner.problem import Problem, complete
from cnc.planner.route import Member, Placement
from cnc.planner.timetable import Timetable

if TYPE_CHECKING:
    from cnc.planner.exact_model import Outcome

# In CP-SAT's deterministic time. Measured: a unit is 1 to 3 s of work when looking for a placement
# or a proof, and about 6 s when improving.
_FIND_LIMIT = 30.0
_IMPROVE_LIMIT = 2.0  # to make a placement tighter, or to place as many streams as possible
_NARROW_LIMIT = 30.0  # to find out who belongs to a conflict
_EACH_LIMIT = 2.0  # of this, for one stream that may or may not belong to it


class Size(NamedTuple):
    """How large a problem is: members to place, and in how many orders those that share a link can
    take turns there, added up over all pairs and links."""

    members: int
    orders: int

    def is_within(self, limit: Size) -> bool:
        return self.members <= limit.members and self.orders <= limit.orders


SIZE_MAX = Size(members=150, orders=20_000)


def size(problem: Problem) -> Size:
    """The size of a problem. Two kept members never count as a pair."""
    users: defaultdict[int, Counter[_User]] = defaultdict(Counter)
    for member in problem.members:
        stream = problem.stream(member)
        # Beyond its period each further period of latency is another place in each order.
        reach = max(stream.period_ns, stream.max_latency_ns)
        for link in problem.trees[member.stream][member.path]:
            users[link][_User(stream.period_ns, reach, is_kept=False)] += 1
    for placement in problem.kept.values():
        period = placement.route.period_ns
        for link in placement.route.tree:
            users[link][_User(period, period, is_kept=True)] += 1
    for link, windows in problem.given.items():
        for its in windows:
            users[link][_User(its.every_ns, its.every_ns, is_kept=True)] += 1
    orders = 0
    for on_link in users.values():
        for one, other in combinations_with_replacement(on_link, 2):
            if one.is_kept and other.is_kept:
                continue
            count = on_link[one]
            pairs = count * (count - 1) // 2 if one == other else count * on_link[other]
            repeat = gcd(one.period_ns, other.period_ns)
            orders += pairs * ((one.reach_ns + other.reach_ns) // repeat)
    return Size(len(problem.members), orders)


class _User(NamedTuple):
    """A member on a link: its frames may lie within `reach_ns` after its talker's window opens."""

    period_ns: int
    reach_ns: int
    is_kept: bool


def is_available() -> bool:
    """Whether OR-Tools is installed."""
    return find_spec("ortools") is not None


class Exact:
    """All rules as constraints for a solver (CP-SAT): it places all members and then makes their
    latency bounds as small as it can, or proves that no placement keeps the rules and names the
    conflict."""

    name = "exact"

    def __init__(self, patience: float = 1.0) -> None:
        """`patience` scales how long the solver may take."""
        self._patience = patience

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether the problem is small enough."""
        return size(problem).is_within(SIZE_MAX)

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        """Raises InputError for a problem that is too large, and where OR-Tools is missing."""
        if not self.fits(problem):
            its = size(problem)
            raise InputError(
                f"the problem is too large for the exact algorithm: {its.members} paths to place, "
                f"at most {SIZE_MAX.members}, that can take turns on links in {its.orders} orders, "
                f"at most {SIZE_MAX.orders}",
                hint="choose the algorithm auto",
            )
        if not is_available():
            raise InputError(
                "the exact algorithm needs OR-Tools, which is not installed",
                hint="pip install 'tsn-control-plane[exact]'",
            )
        return _Search(problem, budget, self._patience).run()


def _within_shares(
    problem: Problem, placements: Mapping[Member, Placement]
) -> dict[Member, Placement]:
    """Without those that would leave best effort less than its share of a link, of which the solver
    knows nothing."""
    table = Timetable(problem)
    for placement in placements.values():
        if not table.crowded(placement):
            table.place(placement)
    return complete(problem, {m: its for m, its in table.placements.items() if m in placements})


class _Search:
    """What is known so far: the best placements, and a conflict if one is proved."""

    def __init__(self, problem: Problem, budget: Budget, patience: float) -> None:
        self._problem = problem
        self._budget = budget
        self._patience = patience
        self._best: dict[Member, Placement] = {}
        self._conflict: Collection[str] = ()

    def run(self) -> Result:
        from cnc.planner.exact_model import PlacementModel, solve  # noqa: PLC0415

        interrupted = False
        try:
            self._solver = solve
            self._model = PlacementModel(self._problem)
            self._certain_model = partial(PlacementModel, self._problem, only_certain=True)
            self._search()
        except KeyboardInterrupt:
            interrupted = True
        placements = {**self._problem.kept, **self._best}
        return Result(Exact.name, placements, tuple(sorted(self._conflict)), interrupted)

    def _search(self) -> None:
        model = self._model
        values = self._start()
        if not self._budget.ejections:
            return
        if len(self._best) < len(self._problem.members):
            self._report("looking for a placement")
            found = self._solve(model.placing(model.placed), _FIND_LIMIT)
            if found.is_impossible:
                self._report("looking for a conflict")
                self._prove()
            if found.values is None:
                self._report("placing as many as possible")
                self._solve(model.most(values), _IMPROVE_LIMIT, improve=True)
                return
            values = found.values
        self._report("making it tight")
        self._solve(model.tightest(values), _IMPROVE_LIMIT, improve=True)

    def _start(self) -> Sequence[int]:
        """A solution to improve on: what is found without a solver."""
        results = [
            simple.schedule(self._problem, self._budget)
            for simple in (NoWait(), Waiting(), Dense())
        ]
        if any(result.interrupted for result in results):
            raise KeyboardInterrupt
        best = max(results, key=lambda result: len(result.placements))
        in_time = {
            member: placement
            for member, placement in best.placements.items()
            if member not in self._problem.kept and self._is_in_time(placement)
        }
        self._best = complete(self._problem, in_time)
        return self._solve(self._model.at(self._best), _FIND_LIMIT).values or ()

    def _is_in_time(self, placement: Placement) -> bool:
        latency_max_ns = self._problem.stream(placement.route.member).max_latency_ns
        return placement.route.latency_ns(placement.offsets_ns) <= latency_max_ns

    def _prove(self) -> None:
        """Find a set of streams that cannot be placed together, although fewer could be.

        Some rules of this planner are stricter than the judge's, and do not count here. What is
        left is still no proof for other plans: that each frame has margins of its own is a rule of
        both. Whoever is shown not to be needed for the conflict is left out, one by one.
        """
        certain = self._certain_model()
        left = _NARROW_LIMIT * self._patience
        outcome = self._ask(certain.assuming_all(), left)
        if not outcome.is_impossible:
            return
        self._conflict = certain.streams(outcome.core)
        left -= outcome.spent
        for name in sorted(self._conflict):
            if left <= 0:
                return
            others = [other for other in self._conflict if other != name]
            outcome = self._ask(certain.placing(others), min(left, _EACH_LIMIT * self._patience))
            left -= outcome.spent
            if outcome.is_impossible:
                self._conflict = others

    def _ask(self, constraints: Any, limit: float) -> Outcome:
        """What the solver finds out; it does not count as a placement."""
        outcome = self._solver(constraints, seed=self._problem.seed, limit=limit)
        if outcome.interrupted:
            raise KeyboardInterrupt
        return outcome

    def _solve(self, constraints: Any, limit: float, *, improve: bool = False) -> Outcome:
        seed = self._problem.seed
        outcome = self._solver(
            constraints, seed=seed, limit=limit * self._patience, improve=improve
        )
        if outcome.values is not None:
            placements = _within_shares(self._problem, self._model.placements(outcome.values))
            if len(placements) >= len(self._best):
                self._best = placements
        if outcome.interrupted:
            raise KeyboardInterrupt
        return outcome

    def _report(self, step: str) -> None:
        self._budget.watch(Progress(step, len(self._best), len(self._problem.members)))
