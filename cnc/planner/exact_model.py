"""The rules of a placement as constraints for CP-SAT. Only `exact` imports this: it needs OR-Tools.

Reservations of periods P and Q never meet if and only if there is an integer k with which, shifted
by k times gcd(P, Q), the one ends before the other starts, and the other before the one starts
again. That is linear, as in periodic event scheduling (Serafini and Ukovich 1989), and no larger
for periods that hardly ever repeat together.

Each k that there can be has a literal of its own. From one variable k the solver learns little:
that 8 frames do not fit on a link they would fill to 96 % it proves in 1.3 s with literals, and not
in 8 s with variables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from math import gcd
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from cnc.planner import jitter
from cnc.planner.given_windows import reservations
from cnc.planner.graph import Tree
from cnc.planner.problem import Problem
from cnc.planner.route import Leg, Member, Placement, Route

_Literal = Any  # OR-Tools has no types that a checker without it could read
_Linear = Any


class _Offset(NamedTuple):
    """When a window starts: a variable and its range, or a number if the placement is kept."""

    at_ns: _Linear
    least_ns: int
    most_ns: int


class _Span(NamedTuple):
    """A reservation [start, end) of every period, which counts if all `conditions` hold.

    It is at least `duration_least_ns` long. `start_most_ns` and `end_least_ns` are the last start
    and the first end there can be.
    """

    period_ns: int
    start_ns: _Linear
    end_ns: _Linear
    start_most_ns: int
    end_least_ns: int
    duration_least_ns: int
    conditions: tuple[_Literal, ...]


class Outcome(NamedTuple):
    """What the solver found: the values of all variables in order, None without a solution; or
    that there surely is none, and the `core` of assumptions, by index, that alone rule it out.

    `spent` is in the solver's deterministic time, as its limit.
    """

    values: Sequence[int] | None
    is_impossible: bool
    core: tuple[int, ...]
    spent: float
    interrupted: bool


class PlacementModel:
    """Every rule of a problem, with one literal for each stream in `placed` left to decide.

    `only_certain` leaves out the rules that the judge does not share: that frames are alone in
    their queue, and that windows keep room for gate entries. What the others rule out, the judge
    refuses.
    """

    def __init__(self, problem: Problem, *, only_certain: bool = False) -> None:
        self._only_certain = only_certain
        self.placed: dict[str, _Literal] = {}
        self._cp = cp_model.CpModel()
        self._problem = problem
        self._waits_ns: list[_Linear] = []
        self._classes: dict[str, dict[int, _Literal]] = {}
        self._members: dict[Member, tuple[Route, list[_Offset]]] = {}
        self._links: defaultdict[int, list[_Span]] = defaultdict(list)
        self._queues: defaultdict[tuple[int, int], list[_Span]] = defaultdict(list)
        if not only_certain:
            self._reserve_given()
        for placement in problem.kept.values():
            route, times, number = placement
            kept = [_Offset(t, t, t) for t in times]
            self._reserve(self._ruled(route), kept, (), {number: ()})
        for member in problem.members:
            self._add(self._ruled(self._route(member)))
        for member in self._members:
            self._bound_jitter(member, member)
            if (twin := member._replace(path=1 - member.path)) in self._members:
                self._bound_after(twin, member)
                self._bound_jitter(twin, member)
                if self._problem.starts_with_copy(member):
                    self._start_together(twin, member)
        for spans in (*self._links.values(), *self._queues.values()):
            for one, other in combinations(spans, 2):
                if one.conditions or other.conditions:  # else both are kept
                    self._keep_apart(one, other)

    def _reserve_given(self) -> None:
        """The windows that classes have by share, and the guard bands behind them."""
        problem = self._problem
        for link, windows in problem.given.items():
            taken = reservations(problem.intent, problem.links[link], windows)
            for start, lasts, period in taken.values():
                span = _Span(period, start, start + lasts, start, start + lasts, lasts, ())
                self._links[link].append(span)

    def _can_hold(self, route: Route) -> bool:
        return route.is_held and route.tree == self._tree(route.member)

    def _tree(self, member: Member) -> Tree:
        return self._problem.trees[member.stream][member.path]

    def _route(self, member: Member) -> Route:
        """The route of a member; where only certain rules count, one that no plan can undercut."""
        route = self._problem.quickest if self._only_certain else self._problem.route
        return route(member, self._tree(member))

    def _ruled(self, route: Route) -> Route:
        """The route with no longer windows than the rules in force ask for."""
        if not self._only_certain:
            return route
        name = route.member.stream
        legs = (
            leg._replace(window_ns=self._problem.busy_ns(name, leg.link), edge_min_ns=0, seam_ns=0)
            for leg in route.legs
        )
        return replace(route, legs=tuple(legs))

    def placing(self, streams: Collection[str]) -> Any:
        """The constraints when exactly `streams` are placed."""
        cp = self._cp.clone()
        for name, placed in self.placed.items():
            cp.add(placed == (name in streams))
        return cp

    def at(self, placements: Mapping[Member, Placement]) -> Any:
        """With those streams that `placements` hold all paths of, just there. Left out are those on
        a detour, as the model has no variables for its links, and those no port holds back, as it
        keeps frames of one ingress port apart too.

        There is no solution if they break a rule.
        """
        missing = {
            member.stream
            for member in self._problem.members
            if member not in placements or not self._can_hold(placements[member].route)
        }
        cp = self.placing(self.placed.keys() - missing)
        for member, (_, offsets) in self._members.items():
            if member.stream not in missing:
                _, times, number = placements[member]
                for its_number, chosen in self._classes[member.stream].items():
                    cp.add(chosen == (its_number == number))
                for offset, time in zip(offsets, times, strict=True):
                    cp.add(offset.at_ns == time)
        return cp

    def assuming_all(self) -> Any:
        """As if all streams were placed, in a way that lets the solver say which cannot be."""
        cp = self._cp.clone()
        cp.add_assumptions(list(self.placed.values()))
        return cp

    def most(self, values: Sequence[int]) -> Any:
        """With as many streams as possible, from a solution with fewer on."""
        cp = self._cp.clone()
        _hint(cp, values)
        cp.maximize(sum(self.placed.values()))
        return cp

    def tightest(self, values: Sequence[int]) -> Any:
        """With all streams and the least latency in sum, from a solution with more on."""
        cp = self.placing(self.placed)
        _hint(cp, values)
        cp.minimize(sum(self._waits_ns))
        return cp

    def placements(self, values: Sequence[int]) -> dict[Member, Placement]:
        """The placements of a solution, for members whose stream it places."""
        found = {}
        for member, (route, offsets) in self._members.items():
            if not values[self.placed[member.stream].index]:
                continue
            times = tuple(values[offset.at_ns.index] for offset in offsets)
            literals = self._classes[member.stream].items()
            number = next(number for number, chosen in literals if values[chosen.index])
            found[member] = Placement(route, times, number)
        return found

    def streams(self, core: Collection[int]) -> list[str]:
        """The streams whose literals have these indices."""
        return [name for name, placed in self.placed.items() if placed.index in core]

    def _add(self, route: Route) -> None:
        stream = route.member.stream
        if stream not in self.placed:
            self.placed[stream] = self._cp.new_bool_var("")
        placed = self.placed[stream]
        window = self._problem.window_ns(route.member)
        latency_max = self._problem.stream(route.member).max_latency_ns
        domains = _domains(route, window, latency_max)
        if any(domain.is_empty() for domain in domains):
            self._cp.add(placed == 0)
            return
        offsets = [
            _Offset(self._cp.new_int_var_from_domain(domain, ""), domain.min(), domain.max())
            for domain in domains
        ]
        self._members[route.member] = route, offsets
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.parent is not None:
                arrival = offsets[leg.parent].at_ns + leg.max_ns
                self._cp.add(offset.at_ns >= arrival).only_enforce_if(placed)
                if self._only_certain:
                    continue
                # A frame must be gone before the next of its stream comes.
                stay = offset.at_ns + leg.hold_ns - offsets[leg.anchor].at_ns - leg.min_ns
                self._cp.add(stay <= route.period_ns).only_enforce_if(placed)
        self._bound_latency(route, offsets, latency_max)
        by_class = {number: (chosen,) for number, chosen in self._choose_class(route).items()}
        self._reserve(route, offsets, (placed,), by_class)

    def _bound_latency(self, route: Route, offsets: Sequence[_Offset], latency_max_ns: int) -> None:
        placed = self.placed[route.member.stream]
        wait = self._cp.new_int_var(0, latency_max_ns - route.least_latency_ns, "")
        self._waits_ns.append(wait)
        roots = [offsets[i] for i, leg in enumerate(route.legs) if leg.parent is None]
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.delivery_ns is None:
                continue
            for root in roots:
                latency = offset.at_ns + leg.delivery_ns - root.at_ns
                self._cp.add(latency <= route.least_latency_ns + wait).only_enforce_if(placed)

    def _bound_after(self, first: Member, second: Member) -> None:
        """The second copy arrives in time, counted from the start of the first as well."""
        (first_route, first_offsets), (route, offsets) = self._members[first], self._members[second]
        latency_max = self._problem.stream(second).max_latency_ns
        for leg, offset in zip(route.legs, offsets, strict=True):
            if leg.delivery_ns is None:
                continue
            for root, start in zip(first_route.legs, first_offsets, strict=True):
                if root.parent is None:
                    arrives_in_time = offset.at_ns + leg.delivery_ns <= start.at_ns + latency_max
                    self._cp.add(arrives_in_time).only_enforce_if(self.placed[second.stream])

    def _bound_jitter(self, one: Member, other: Member) -> None:
        """Arrivals by one path are within the jitter of the other's."""
        (route, offsets), (its_route, others) = self._members[one], self._members[other]
        most = None if self._only_certain else self._problem.stream(one).max_jitter_ns
        for limit in jitter.limits(self._problem.links, route, its_route, most) if most else ():
            apart = offsets[limit.later].at_ns - others[limit.sooner].at_ns
            self._cp.add(apart <= limit.most_ns).only_enforce_if(self.placed[one.stream])

    def _start_together(self, first: Member, second: Member) -> None:
        """Both paths start with one frame."""
        one, other = (self._members[member][1][0].at_ns for member in (first, second))
        self._cp.add(one == other).only_enforce_if(self.placed[second.stream])

    def _choose_class(self, route: Route) -> Mapping[int, _Literal]:
        """A literal for each class, one of which is true if the stream is placed.

        All paths of a stream use one class, so it must be open to each of them.
        """
        stream, numbers = route.member.stream, self._problem.classes(route)
        if stream not in self._classes:
            self._classes[stream] = {number: self._cp.new_bool_var("") for number in numbers}
            literals = self._classes[stream].values()
            self._cp.add_exactly_one([~self.placed[stream], *literals])
        for number, chosen in self._classes[stream].items():
            if number not in numbers:
                self._cp.add(chosen == 0)
        return self._classes[stream]

    def _reserve(
        self,
        route: Route,
        offsets: Sequence[_Offset],
        conditions: tuple[_Literal, ...],
        by_class: Mapping[int, tuple[_Literal, ...]],
    ) -> None:
        period = route.period_ns
        for leg, offset in zip(route.legs, offsets, strict=True):
            at, least, most = offset
            window = leg.window_ns
            span = _Span(period, at, at + window, most, least + window, window, conditions)
            if not leg.is_copied:
                self._links[leg.link].append(span)
            if leg.parent is None or self._only_certain:
                continue
            anchor = offsets[leg.anchor]
            for number, chosen in by_class.items():
                stay = _Span(
                    period,
                    anchor.at_ns + leg.min_ns,
                    at + leg.hold_ns,
                    anchor.most_ns + leg.min_ns,
                    least + leg.hold_ns,
                    leg.hold_ns,
                    chosen,
                )
                self._queues[leg.link, number].append(stay)

    def _keep_apart(self, one: _Span, other: _Span) -> None:
        repeat = gcd(one.period_ns, other.period_ns)
        conditions = (*one.conditions, *other.conditions)
        first = -((one.start_most_ns - other.end_least_ns) // repeat) - 1
        last = (other.start_most_ns - one.end_least_ns) // repeat
        has_room = one.duration_least_ns + other.duration_least_ns <= repeat
        shifts = range(first * repeat, last * repeat + 1, repeat) if has_room else ()
        orders = [self._in_order(one, other, shift, repeat) for shift in shifts]
        self._cp.add_bool_or([*orders, *(~condition for condition in conditions)])

    def _in_order(self, one: _Span, other: _Span, shift_ns: int, repeat_ns: int) -> _Literal:
        """True only if the other fits between the one, shifted, and its next repetition."""
        literal = self._cp.new_bool_var("")
        again = one.start_ns + shift_ns + repeat_ns
        self._cp.add(one.end_ns + shift_ns <= other.start_ns).only_enforce_if(literal)
        self._cp.add(other.end_ns <= again).only_enforce_if(literal)
        return literal


def _hint(cp: Any, values: Sequence[int]) -> None:
    for index, value in enumerate(values):
        cp.add_hint(cp.get_int_var_from_proto_index(index), value)


def _domains(route: Route, window_ns: tuple[int, int], latency_max_ns: int) -> list[Any]:
    """When each leg may start; some are empty if the member has no place even alone."""
    earliest, latest = window_ns
    most = [
        latest if leg.parent is None else latest + latency_max_ns - (leg.delivery_ns or 0)
        for leg in route.legs
    ]
    for index in reversed(range(len(most))):
        leg = route.legs[index]
        if leg.parent is not None:
            most[leg.parent] = min(most[leg.parent], most[index] - leg.max_ns)
    if route.least_latency_ns > latency_max_ns:
        return [cp_model.Domain.from_intervals([])]
    return [
        _clear_of_edges(leg, route.period_ns, earliest + after, last)
        for leg, after, last in zip(route.legs, route.offsets_ns, most, strict=True)
    ]


def _clear_of_edges(leg: Leg, period_ns: int, least_ns: int, most_ns: int) -> Any:
    """Starts in [least, most] at which both ends of the window keep clear of the cycle's end."""
    if least_ns > most_ns or leg.window_ns > period_ns:
        return cp_model.Domain.from_intervals([])
    window = leg.gate_ns
    starts = _edges(leg.edge_min_ns, period_ns, least_ns, most_ns)
    ends = _edges(leg.edge_min_ns, period_ns, least_ns + window, most_ns + window)
    return starts.intersection_with(ends.addition_with(cp_model.Domain(-window, -window)))


def _edges(margin_ns: int, period_ns: int, least_ns: int, most_ns: int) -> Any:
    """Times in [least, most] that are a multiple of the period, or `margin_ns` away from any."""
    allowed = []
    for cycle in range(least_ns - least_ns % period_ns, most_ns + 1, period_ns):
        allowed.append([cycle, cycle])
        if 2 * margin_ns <= period_ns:
            allowed.append([cycle + margin_ns, cycle + period_ns - margin_ns])
    domain = cp_model.Domain.from_intervals(allowed)
    return domain.intersection_with(cp_model.Domain(least_ns, most_ns))


def solve(cp: Any, *, seed: int, limit: float, improve: bool = False) -> Outcome:
    """Run the solver within `limit` units of its deterministic time.

    One worker and no clock: the outcome is the same on every machine. Left alone, the worker keeps
    to the search that proves most quickly; to `improve` a solution it takes turns with others.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.max_deterministic_time = limit
    solver.parameters.interleave_search = improve
    solver.parameters.cp_model_presolve = improve  # for proofs it takes longer than it saves
    solver.parameters.catch_sigint_signal = False
    interrupted = False
    # In a thread of its own, since a call into the solver does not let Python see a Ctrl-C.
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(solver.solve, cp)
        try:
            status = running.result()
        except KeyboardInterrupt:
            interrupted = True
            solver.stop_search()
            status = running.result()
    is_impossible = status == cp_model.INFEASIBLE
    is_solved = status in {cp_model.OPTIMAL, cp_model.FEASIBLE}
    return Outcome(
        values=tuple(solver.response_proto.solution) if is_solved else None,
        is_impossible=is_impossible,
        core=tuple(solver.sufficient_assumptions_for_infeasibility()) if is_impossible else (),
        spent=solver.deterministic_time,
        interrupted=interrupted,
    )
