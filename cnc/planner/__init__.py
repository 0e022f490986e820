"""Computes routes, offsets and gate control lists: `plan(intent) -> Plan`.

Pure functions: no I/O, no clock; the same intent and seed give the same plan everywhere.

    addresses         what the frames of streams are sent to
    routing, graph    which links a stream crosses        problem    the hops' times, added up
    circle, timetable what is taken                       route      what a search places
    greedy            no-wait and waiting: one by one     search     where one stream fits
    choosing,         windows of their own for frames, or shared ones
    own_windows, sharing
    exact             proofs for small problems           ejection,  making room for those that
    portfolio         several searches at once            neighbourhood              do not fit
    waves             links filled along the ways of frames
    gates, edges,     the ports' gate control lists       auto       which of them, in what order
    spare, talker_gates
    loops             how long control loops take
    recovery,         when frames are in time again after a disturbance
    lateness, visits,
    backlog, chains,
    pauses, endless
    incremental, live planning around what runs           explain    why a stream has no place
    given,            lists that operators give, and windows by share beside which streams are
    given_windows     planned
    margin_cost       what late gates cost                executors  where searches run
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from math import lcm

from cnc.errors import InputError, Unschedulable
from cnc.loops import derive as loops
from cnc.loops.model import Loops
from cnc.mechanism import Admitted
from cnc.mechanisms import terms
from cnc.model import NO_PARTS, Intent, Plan, PortRef, Stream, StreamPlan
from cnc.planner import addresses, explain, given, incremental, keeping
from cnc.planner.algorithm import DEFAULT_BUDGET, Algorithm, Budget, Progress, Result
from cnc.planner.auto import Auto
from cnc.planner.choosing import in_windows
from cnc.planner.exact import Exact
from cnc.planner.executors import open_executor
from cnc.planner.floor import Floor, common_cause, floor
from cnc.planner.graph import Tree
from cnc.planner.greedy import NoWait, Waiting
from cnc.planner.incremental import Move, moves, other_foundation
from cnc.planner.live import Changes, Live
from cnc.planner.neighbourhood import Neighbourhood
from cnc.planner.own_windows import HINT, Found, loosen
from cnc.planner.ports import CYCLE_MAX_NS
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Route
from cnc.planner.routing import Router
from cnc.support.gc_pause import paused

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Budget",
    "Changes",
    "Live",
    "Move",
    "Problem",
    "Progress",
    "Result",
    "moves",
    "open_executor",
    "other_foundation",
    "plan",
]

ALGORITHMS: dict[str, type[Algorithm]] = {
    algorithm.name: algorithm for algorithm in (Auto, NoWait, Waiting, Neighbourhood, Exact)
}


_Ways = dict[str, tuple[tuple[PortRef, ...], ...]]  # by stream: trees of ports


@paused()
def plan(
    intent: Intent,
    *,
    algorithm: str = "auto",
    keep: Plan | None = None,
    addressed: Plan | None = None,
    best_effort: bool = False,
    seed: int = 1,
    executor: Executor | None = None,
    budget: Budget = DEFAULT_BUDGET,
) -> Plan:
    """Place every stream and derive every gate control list, or raise `Unschedulable`.

    With `keep`, the streams of that plan which `intent` still contains stay as they are; a port
    keeps its gate open over small gaps only if they stay in order then. Of those that share windows
    no bound rises: new streams that would raise one have no place. The plan `addressed`, by
    default `keep`, is what runs: in a bridged network its streams keep their addresses, but those
    that get another way and whose talkers a push tells. With
    `best_effort`, a plan that omits streams is returned, with the reasons: so is the best
    plan so far when the operator interrupts (Ctrl-C). A loop that takes longer than its deadline is
    refused in any case, unless one of its streams has no place.
    """
    chosen = _algorithm(algorithm, executor)
    place = partial(_placed, chosen=chosen, addressed=addressed or keep, seed=seed, budget=budget)
    made = place(intent, keep=keep, best_effort=best_effort)
    if keep is not None:
        made = keeping.held(place, made, keep, best_effort=best_effort)
    if not intent[Loops].by_name:
        return terms.decided(made)

    def around(narrowed: Intent, placed: Plan) -> Plan:
        return place(narrowed, keep=placed, best_effort=best_effort)

    kept = incremental.unchanged(intent, keep) if keep else ()
    return terms.decided(loops.closed(made, kept, around))


def _placed(
    intent: Intent,
    *,
    chosen: Algorithm,
    keep: Plan | None,
    addressed: Plan | None,
    seed: int,
    budget: Budget,
    best_effort: bool = False,
) -> Plan:
    """As `plan`, but for the loops."""
    assigned = addresses.assign(intent, addressed)
    problem, impossible, floors, routed, ways = _problem(intent, keep, seed)
    admitted = terms.admitted(intent, ways, promised_ns={})
    impossible |= admitted.refused
    found = in_windows(problem, impossible, routed, chosen, budget, best_effort=best_effort)
    if not best_effort and not found.is_interrupted and not found.is_complete:
        ports = {f"port {port}": why for port, why in found.crowded.items()}
        summary = common_cause(intent, floors)
        raise Unschedulable(found.refused | ports, hint=HINT, summary=summary)
    lists = given.lists(intent) | found.lists.lists
    lists |= given.open_lists(intent, ways, lists)
    before = keep.parts if keep else NO_PARTS
    served = terms.served(intent, ways, lists, _promised_ns(keep, ways), before)
    if served.refused and not best_effort:
        raise Unschedulable(dict(served.refused), hint=HINT)
    placed = {**found.streams, **admitted.streams, **served.streams}
    if detoured := addresses.crowded_out(intent, {}, _senders(placed)):
        raise Unschedulable(detoured, hint=HINT)
    assigned = addresses.for_moved(intent, assigned, placed, addressed)
    made = Plan(
        intent,
        placed,
        lists,
        ", ".join(_how(found, admitted, served)),
        {**found.refused, **served.refused},
        found.recovery_ns,
        {name: address for name, address in assigned.items() if name in placed},
        found.jitter_ns,
        parts=before,
    )
    if impossible := terms.refused(made):
        raise Unschedulable(impossible, hint=HINT)
    return made


def _promised_ns(keep: Plan | None, ways: _Ways) -> dict[str, int]:
    """The bounds of streams without instants that stay as they are."""
    kept = keep.streams if keep else {}
    return {
        name: kept[name].latency_bound_ns
        for name, its in ways.items()
        if name in kept and kept[name].shaper and its == _way_of(kept[name])
    }


def _way_of(planned: StreamPlan) -> tuple[tuple[PortRef, ...], ...]:
    return tuple(tuple(hop.egress for hop in path) for path in planned.paths)


def _how(found: Found, admitted: Admitted, served: Admitted) -> Iterator[str]:
    """By what streams have their places."""
    if found.streams or not (admitted.streams or served.streams):
        yield found.algorithm
    if admitted.streams:
        yield "sums for each interval"
    if served.streams:
        yield "network calculus"


def _algorithm(name: str, executor: Executor | None) -> Algorithm:
    if name not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise InputError(f"unknown algorithm {name!r}", hint=f"choose one of: {known}")
    return Auto(executor) if name == Auto.name else ALGORITHMS[name]()


def _problem(
    intent: Intent, keep: Plan | None, seed: int
) -> tuple[Problem, dict[str, str], list[Floor], dict[str, tuple[Tree, ...]], _Ways]:
    """What is to be placed around what is kept, why some streams cannot be in windows of their own,
    the floors of those that need more than their latency so, and all ways; and those of streams
    that have no instants, the kept ones first."""
    kept = _kept(intent, keep)
    router = Router(intent)
    for name, its in kept.items():
        router.carry_hops(intent.streams[name], its.hops)
    ways = _ways_without_instants(kept)
    kept = {name: its for name, its in kept.items() if name not in ways}
    known = kept.keys() | ways.keys()
    wanted = [stream for name, stream in intent.streams.items() if name not in known]
    trees, impossible = _routes(router, wanted)
    impossible |= _crowded_out(router, kept, trees)
    impossible |= _parting(router, kept, trees)
    for name in [name for name in trees if not intent.has_instants(intent.streams[name])]:
        paths = trees.pop(name)
        ways[name] = tuple(tuple(router.links[link].source for link in tree) for tree in paths)
    impossible |= _out_of_step(router, kept, trees)
    impossible |= given.without_place(router, trees)
    routed = dict(trees)
    problem = Problem(intent, trees, seed=seed, router=router)
    for name, paths in list(trees.items()):
        reasons = _hopeless(problem, name, paths)
        is_free = len(paths) == 1 and not router.is_bound(intent.streams[name])
        if is_free and (reasons or _is_late(problem, name, paths[0])):
            # Fewest hops need not be fastest where links or switches differ.
            fastest = router.cheapest(intent.streams[name], problem.prices_ns(name))
            helps = reasons or not _is_late(problem, name, fastest)
            if helps and not _hopeless(problem, name, (fastest,)):
                router.carry(intent.streams[name], paths, -1)
                router.carry(intent.streams[name], (fastest,))
                trees[name], reasons = (fastest,), []
        impossible.update((name, reason) for reason in reasons[:1])
    if not impossible and not kept:
        return problem, impossible, [], routed, ways  # the one that has added up the hops
    floors = [
        floor(problem, route)
        for name in impossible.keys() & trees.keys()
        if (route := _longest(problem, name, trees[name])[0]).least_latency_ns
        > intent.streams[name].max_latency_ns
    ]
    possible = {name: paths for name, paths in trees.items() if name not in impossible}
    kept_placements = incremental.placements(problem, kept)
    problem = replace(problem, trees=possible, kept=kept_placements)
    ran_loose = incremental.loose_ports(keep) if keep else frozenset[PortRef]()
    problem = loosen(problem, ran_loose & intent.network.links.keys())
    return problem, impossible, floors, routed, ways


def _ways_without_instants(kept: Mapping[str, StreamPlan]) -> _Ways:
    return {name: _way_of(its) for name, its in kept.items() if not its.has_instants}


def _kept(intent: Intent, keep: Plan | None) -> dict[str, StreamPlan]:
    """The streams that stay as they are. Those in shared windows have no instant to keep: which
    frames leave there is counted anew for all; and those that leave by a port whose list is given
    now have no place any more."""
    if keep is None:
        return {}
    unchanged, ports = incremental.unchanged(intent, keep), terms.closed_ports(intent)
    return {
        name: planned
        for name, planned in unchanged.items()
        if not planned.is_shared and not given.crosses(planned, ports)
    }


def _crowded_out(
    router: Router, kept: Mapping[str, StreamPlan], trees: dict[str, tuple[Tree, ...]]
) -> dict[str, str]:
    """Take out of `trees` what switches have no filtering entries for, and say why."""
    crossed = {
        name: {router.links[link].source.node for tree in paths for link in tree}
        for name, paths in trees.items()
    }
    refused = addresses.crowded_out(router.intent, _senders(kept), crossed)
    for name in refused:
        router.carry(router.intent.streams[name], trees.pop(name), -1)
    return refused


def _parting(
    router: Router, kept: Mapping[str, StreamPlan], trees: dict[str, tuple[Tree, ...]]
) -> dict[str, str]:
    """Take out of `trees` the streams that switches would forward along other ones with their
    address, and say why."""
    refused = router.parting(trees, {name: its.hops for name, its in kept.items()})
    for name in refused:
        router.carry(router.intent.streams[name], trees.pop(name), -1)
    return refused


def _out_of_step(
    router: Router, kept: Mapping[str, StreamPlan], trees: dict[str, tuple[Tree, ...]]
) -> dict[str, str]:
    """Take out of `trees` the streams with which others on a link repeat together too rarely for
    any gate control list, and say why: of all periods there those of the fewest streams."""
    streams = router.intent.streams
    by_share = terms.given_windows(router.intent)
    given_ns = {its.every_ns for windows in by_share.values() for its in windows}
    if lcm(*given_ns, *{streams[name].period_ns for name in (*kept, *trees)}) <= CYCLE_MAX_NS:
        return {}  # all together repeat often enough, and so do those of each link
    common: dict[PortRef, int] = defaultdict(lambda: 1)
    common |= {port: lcm(*(its.every_ns for its in windows)) for port, windows in by_share.items()}
    for name, planned in kept.items():
        for hop in planned.hops:
            common[hop.egress] = lcm(common[hop.egress], streams[name].period_ns)
    frequent = Counter(streams[name].period_ns for name in trees)
    refused = {}
    for name in sorted(trees, key=lambda name: (-frequent[streams[name].period_ns], name)):
        period = streams[name].period_ns
        crossed = {router.links[link].source for tree in trees[name] for link in tree}
        for port in sorted(crossed):
            if (cycle := lcm(common[port], period)) > CYCLE_MAX_NS:
                refused[name] = explain.no_common_cycle(port, period, common[port], cycle)
                router.carry(streams[name], trees.pop(name), -1)
                break
        else:
            common |= {port: lcm(common[port], period) for port in crossed}
    return refused


def _senders(planned: Mapping[str, StreamPlan]) -> dict[str, set[str]]:
    """The nodes that the frames of each stream leave."""
    return {name: {hop.egress.node for hop in its.hops} for name, its in planned.items()}


def _hopeless(problem: Problem, stream: str, paths: Sequence[Tree]) -> list[str]:
    """Why any of the paths would not even do on an empty network."""
    routes = _longest(problem, stream, paths)
    return [reason for route in routes if (reason := explain.hopeless(problem, route))]


def _longest(problem: Problem, stream: str, paths: Sequence[Tree]) -> list[Route]:
    """The routes of a stream, the longest first: what it needs is what an operator has to grant."""
    routes = [problem.route(Member(stream, path), tree) for path, tree in enumerate(paths)]
    return sorted(routes, key=lambda route: -route.least_latency_ns)


def _is_late(problem: Problem, stream: str, tree: Tree) -> bool:
    """Whether the stream has the time for this way only with late hops, which take link time."""
    return problem.route(Member(stream, 0), tree).is_late


def _routes(
    router: Router, streams: Collection[Stream]
) -> tuple[dict[str, tuple[Tree, ...]], dict[str, str]]:
    """The trees of each stream, or why it has none."""
    impossible = {
        stream.name: explain.unreachable(stream.talker, lost)
        for stream in streams
        if (lost := router.unreachable(stream))
    }
    reachable = [stream for stream in streams if stream.name not in impossible]
    trees = router.route_all(reachable)
    for stream in reachable:
        if stream.name not in trees:
            impossible[stream.name] = explain.no_second_path(stream, router.forwarding)
    return trees, impossible
