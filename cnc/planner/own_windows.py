"""Windows of their own for all frames, with gate control lists that ports can run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from cnc.errors import Unschedulable
from cnc.model import Intent, PortRef, Stream, StreamPlan
from cnc.planner import explain, incremental
from cnc.planner.algorithm import DEFAULT_BUDGET, Algorithm, Budget, Result
from cnc.planner.capacity import has_way_around, overload
from cnc.planner.gates import Lists, gate_control_lists
from cnc.planner.greedy import Waiting
from cnc.planner.problem import Problem, complete, jitter_bounds, stream_plans
from cnc.planner.recovery import Recovery, recovery
from cnc.planner.route import Member, Placement
from cnc.planner.timetable import Timetable

HINT = (
    "change what the reasons name, remove a stream, or accept a plan without these streams with "
    "--best-effort; nothing was planned"
)
ROUNDS_MAX = 8  # of giving ports shorter lists: from half of them on, every port in use


class Found(NamedTuple):
    """Streams with places, and why others have none. `crowded` are the ports that cannot do their
    work, or recover, with all that found a place; what is left out for them is not in the rest."""

    streams: dict[str, StreamPlan]
    lists: Lists
    algorithm: str
    refused: dict[str, str]
    crowded: dict[PortRef, str]
    recovery_ns: Mapping[str, int]
    jitter_ns: Mapping[str, Mapping[str, int]]
    is_interrupted: bool = False

    @property
    def is_complete(self) -> bool:
        return not self.refused and not self.crowded

    def recovers(self, intent: Intent) -> bool:
        """Whether it has a bound of how long after a disturbance each stream may be late, if that
        is asked for."""
        is_asked = intent.network.disturbance_ns is not None
        return not is_asked or self.recovery_ns.keys() == self.streams.keys()


def in_own_windows(
    problem: Problem,
    impossible: Mapping[str, str],
    chosen: Algorithm,
    budget: Budget,
    *,
    best_effort: bool,
) -> Found:
    problem, result, lists = _with_fitting_lists(problem, chosen, budget)
    refused = reasons_for(problem, result, impossible)
    recovering = recovery(problem, complete(problem, result.placements).values(), lists)
    crowded = lists.crowded() | recovering.refused(problem.intent)
    placements = complete(problem, result.placements)
    if crowded and (best_effort or result.interrupted):
        placements, lists, recovering, out = _without_crowded_ports(
            problem, result, lists, recovering
        )
        refused |= out
    return Found(
        stream_plans(problem, placements),
        lists,
        result.algorithm,
        refused,
        crowded,
        recovering.recovery_ns,
        jitter_bounds(problem, complete(problem, placements)),
        is_interrupted=result.interrupted,
    )


def _with_fitting_lists(
    problem: Problem, algorithm: Algorithm, budget: Budget
) -> tuple[Problem, Result, Lists]:
    """Place and derive the lists; where lists come out too long for ports, again with shorter ones.

    A port with a shorter list lets frames leave early, which requires another placement, in which
    other ports may have longer lists. The set of such ports only grows. A long search is worth it
    only when that has settled, so at first there is none. Ports that cannot have a shorter list
    because of kept streams are among the too long ones of the result.
    """
    allowed = replace(budget, ejections=0)
    rigid: frozenset[PortRef] = frozenset()  # they cannot be loose, because of kept streams
    for attempt in range(ROUNDS_MAX):
        result = algorithm.schedule(problem, allowed)
        lists = gate_control_lists(problem, complete(problem, result.placements).values())
        if result.interrupted or attempt == ROUNDS_MAX - 1:
            break  # what is placed is sound only with the lists that it was placed for
        crowded = lists.too_long - rigid
        if crowded and attempt >= ROUNDS_MAX // 2:
            bridges = problem.intent.network.bridges
            crowded = frozenset(port for port in lists.lists if port.node in bridges) - rigid
        loosened = loosen(problem, crowded)
        rigid |= crowded - loosened.loose
        if loosened.loose != problem.loose:
            problem = loosened
        elif allowed is budget or result.is_complete(problem):
            break
        else:
            allowed = budget
    return problem, result, lists


def _without_crowded_ports(
    problem: Problem, result: Result, lists: Lists, recovering: Recovery
) -> tuple[dict[Member, Placement], Lists, Recovery, dict[str, str]]:
    """Take out the greatest stream of a port that cannot run its list, or of which no bound is
    found on how long it takes to recover, until all ports can and there is one.

    What others were given stays sound. Raises `Unschedulable` where only kept streams are left.
    """
    placements = complete(problem, result.placements)
    out: dict[str, str] = {}
    while crowded := lists.crowded() | recovering.refused(problem.intent):
        relieved: set[PortRef] = set()
        for port, why in crowded.items():
            if port in relieved:
                continue
            crossing = _crossing(problem, placements.values(), port)
            if not crossing:
                raise Unschedulable({f"port {port}": why}, hint=HINT)
            name = max(crossing)[1]
            out[name] = f"left out for port {port}: {why}"
            for member in [member for member in placements if member.stream == name]:
                route = placements.pop(member).route
                relieved.update(problem.links[leg.link].source for leg in route.legs)
        lists = gate_control_lists(problem, placements.values())
        recovering = recovery(problem, placements.values(), lists)
    return placements, lists, recovering, out


def _crossing(
    problem: Problem, placements: Iterable[Placement], port: PortRef
) -> list[tuple[float, str]]:
    """The streams that leave by a port and may be moved, each with its share of the port."""
    return [
        (leg.window_ns / placement.route.period_ns, placement.route.member.stream)
        for placement in placements
        if placement.route.member not in problem.kept
        for leg in placement.route.legs
        if problem.links[leg.link].source == port
    ]


def loosen(problem: Problem, ports: Collection[PortRef]) -> Problem:
    """With `ports` loose: as many as keep kept streams in their order, which do not move and may be
    early then."""
    ports = frozenset(ports) - problem.loose
    if not ports:
        return problem
    for some in (ports, *({port} for port in sorted(ports) if len(ports) > 1)):
        loosened = replace(problem, loose=problem.loose | some)
        loosened = replace(loosened, kept=incremental.anew(loosened, problem.kept))
        links = {n for n, link in enumerate(problem.links) if link.source in some}
        if not incremental.conflicts(loosened.kept.values(), links) and _steady(loosened):
            problem = loosened
            if some == ports:
                break
    return problem


def _steady(problem: Problem) -> bool:
    """Whether streams whose jitter is limited keep within it: those to place where none of their
    frames waits, those that are kept where they lie."""
    limited = [member for member in problem.members if problem.stream(member).max_jitter_ns]
    routes = [problem.route(its, problem.trees[its.stream][its.path]) for its in limited]
    placed = {route.member: Placement(route, route.offsets_ns, 0) for route in routes}
    placed |= {
        member: placement
        for member, placement in problem.kept.items()
        if problem.stream(member).max_jitter_ns
    }
    table = Timetable(replace(problem, kept={}))
    table.placements.update(placed)
    return all(map(table.is_steady, placed.values()))


def reasons_for(problem: Problem, result: Result, impossible: Mapping[str, str]) -> dict[str, str]:
    """Why each stream without a place has none."""
    placed = complete(problem, result.placements)
    wanted = problem.trees.keys() | impossible.keys()
    names = (name for name in problem.intent.streams if name in wanted)
    missing = [name for name in names if Member(name, 0) not in placed]
    if not missing:
        return {}
    table = Timetable(replace(problem, kept=placed))
    overfull = overload(problem)
    if overfull and has_way_around(problem, overfull.shares):
        overfull = None
    reasons = {}
    for name in missing:
        if name in impossible:
            reasons[name] = impossible[name]
        elif result.interrupted:
            reasons[name] = explain.INTERRUPTED
        else:
            route = problem.route(Member(name, 0), problem.trees[name][0])
            reasons[name] = _copies_apart(problem, name) or explain.no_place(table, route)
            if overfull and name in overfull.shares:
                reasons[name] += f". {explain.proved_overload(overfull)}"
            elif name in result.impossible:
                beside_kept = bool(problem.kept)
                excluded = explain.excluded_together(result.impossible, beside_kept=beside_kept)
                reasons[name] += f". {excluded}"
    return reasons


def _copies_apart(problem: Problem, name: str) -> str | None:
    """Why the two copies of a stream have no place if that is so even without any other stream."""
    stream = problem.intent.streams[name]
    if stream.paths == 1 or stream.max_jitter_ns is None or _alone(problem, stream):
        return None

    def fits(max_jitter_ns: int) -> bool:
        return _alone(problem, replace(stream, max_jitter_ns=max_jitter_ns))

    allowed = range(stream.max_jitter_ns, stream.period_ns)
    found = bisect_left(allowed, True, key=fits)
    return explain.copies_apart(stream, allowed[found]) if found < len(allowed) else None


def _alone(problem: Problem, stream: Stream) -> bool:
    """Whether all paths of a stream find a place in an empty network."""
    intent = replace(problem.intent, streams={stream.name: stream})
    trees = {stream.name: problem.trees[stream.name]}
    alone = Problem(intent, trees, seed=problem.seed, router=problem.router)
    result = Waiting().schedule(alone, replace(DEFAULT_BUDGET, ejections=0))
    return result.is_complete(alone)
