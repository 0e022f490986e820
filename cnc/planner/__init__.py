"""Computes routes, offsets and gate control lists: `plan(intent) -> Plan`.

Pure functions: no I/O, no clock; the same intent and seed give the same plan everywhere.

    addresses         what the frames of streams are sent to
    routing, graph    which links a stream crosses        problem    the hops' times, added up
    circle, timetable what is taken                       route      what a search places
    greedy            no-wait and waiting: one by one     search     where one stream fits
    exact             proofs for small problems           ejection,  making room for those that
    portfolio         several searches at once            neighbourhood              do not fit
    gates, edges,     the ports' gate control lists       auto       which of them, in what order
    spare, talker_gates
    loops             how long control loops take
    recovery, visits, when frames are in time again after a disturbance
    backlog, chains,
    pauses
    incremental, live planning around what runs           explain    why a stream has no place
    margin_cost       what late gates cost                executors  where searches run
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from itertools import count
from math import lcm
from typing import NamedTuple

from cnc.errors import InputError, Unschedulable
from cnc.loops import derive as loops
from cnc.loops.model import Loops
from cnc.mechanisms import terms
from cnc.model import Intent, Plan, PortRef, Stream, StreamPlan, Windows
from cnc.planner import addresses, explain, incremental
from cnc.planner.algorithm import DEFAULT_BUDGET, Algorithm, Budget, Progress, Result
from cnc.planner.auto import Auto
from cnc.planner.capacity import has_way_around, overload
from cnc.planner.exact import Exact
from cnc.planner.executors import open_executor
from cnc.planner.floor import Floor, common_cause, floor
from cnc.planner.gates import Lists, gate_control_lists
from cnc.planner.graph import Tree
from cnc.planner.greedy import NoWait, Waiting
from cnc.planner.incremental import Move, moves, other_foundation
from cnc.planner.live import Changes, Live
from cnc.planner.neighbourhood import Neighbourhood
from cnc.planner.ports import CYCLE_MAX_NS
from cnc.planner.problem import Problem, complete, jitter_bounds, stream_plans
from cnc.planner.recovery import Recovery, recovery
from cnc.planner.route import Member, Placement, Route
from cnc.planner.routing import Router
from cnc.planner.sharing import share
from cnc.planner.timetable import Timetable
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
_ROUNDS_MAX = 8  # of giving ports shorter lists: from half of them on, every port in use


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
    keeps its gate open over small gaps only if they stay in order then. The plan `addressed`, by
    default `keep`, is what runs: in a bridged network its streams keep their addresses, but those
    that get another way and whose talkers a push tells. With
    `best_effort`, a plan that omits streams is returned, with the reasons: so is the best
    plan so far when the operator interrupts (Ctrl-C). A loop that takes longer than its deadline is
    refused in any case, unless one of its streams has no place.
    """
    chosen = _algorithm(algorithm, executor)
    place = partial(_placed, chosen=chosen, addressed=addressed or keep, seed=seed, budget=budget)
    made = place(intent, keep=keep, best_effort=best_effort)
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
    problem, impossible, floors, routed = _problem(intent, keep, seed)
    found = _in_windows(problem, impossible, routed, chosen, budget, best_effort=best_effort)
    if not best_effort and not found.is_interrupted and not found.is_complete:
        ports = {f"port {port}": why for port, why in found.crowded.items()}
        summary = common_cause(intent, floors)
        raise Unschedulable(found.refused | ports, hint=_HINT, summary=summary)
    placed = found.streams
    if detoured := addresses.crowded_out(intent, {}, _senders(placed)):
        raise Unschedulable(detoured, hint=_HINT)
    assigned = addresses.for_moved(intent, assigned, placed, addressed)
    made = Plan(
        intent,
        placed,
        found.lists.lists,
        found.algorithm,
        found.refused,
        found.recovery_ns,
        {name: address for name, address in assigned.items() if name in placed},
        found.jitter_ns,
    )
    if impossible := terms.refused(made):
        raise Unschedulable(impossible, hint=_HINT)
    return made


class _Found(NamedTuple):
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


def _in_windows(
    problem: Problem,
    impossible: Mapping[str, str],
    routed: Mapping[str, tuple[Tree, ...]],
    chosen: Algorithm,
    budget: Budget,
    *,
    best_effort: bool,
) -> _Found:
    """Windows of their own for all frames, where all have a place so and nobody asks for another;
    else for those of which it is asked, and shared ones for the others, if more have a place so."""
    wanted = {name: _windows_for(problem.intent.streams[name], chosen) for name in routed}
    sharing = {name for name, windows in wanted.items() if windows is not Windows.EXACT}
    found = None
    if Windows.SHARED not in wanted.values():
        effort = replace(budget, ejections=0) if sharing and _is_wide(problem) else budget
        found = _in_own_windows(problem, impossible, chosen, effort, best_effort=best_effort)
        if found.is_complete or found.is_interrupted or not sharing:
            return found
    everyone = replace(problem, trees=dict(routed))
    own = {name: trees for name, trees in problem.trees.items() if name not in sharing}
    alone = replace(problem, trees=own)
    result = chosen.schedule(alone, budget)
    left_out = {name: why for name, why in impossible.items() if name not in sharing}
    beside = _Beside(alone, result, _reasons(alone, result, left_out))
    shared = _in_shared_windows(everyone, sharing, beside, best_effort=best_effort)
    if found is None or shared.is_complete or len(shared.streams) > len(found.streams):
        return shared
    return found


def _windows_for(stream: Stream, chosen: Algorithm) -> Windows:
    """Which windows frames of a stream may have: an algorithm that is asked for by name gives each
    frame one of its own, and only such keep a limit of jitter."""
    if stream.windows is not Windows.AUTO:
        return stream.windows
    is_limited = stream.max_jitter_ns is not None
    return Windows.EXACT if is_limited or chosen.name != Auto.name else Windows.AUTO


def _is_wide(problem: Problem) -> bool:
    """Whether a gate margin is long against the frames: then frames with windows of their own fill
    a link with margins, and to search long for places is no use."""
    network = problem.intent.network
    streams = problem.intent.streams.values()
    longest = max((stream.payload_octets * stream.frames for stream in streams), default=0)
    slowest = min(problem.links, key=lambda link: link.rate_bps)
    return network.gate_margin_ns > network.occupation_ns(slowest, longest)


def _in_own_windows(
    problem: Problem,
    impossible: Mapping[str, str],
    chosen: Algorithm,
    budget: Budget,
    *,
    best_effort: bool,
) -> _Found:
    problem, result, lists = _with_fitting_lists(problem, chosen, budget)
    refused = _reasons(problem, result, impossible)
    recovering = recovery(problem, complete(problem, result.placements).values(), lists)
    crowded = lists.crowded() | recovering.refused
    placements = complete(problem, result.placements)
    if crowded and (best_effort or result.interrupted):
        placements, lists, recovering, out = _without_crowded_ports(
            problem, result, lists, recovering
        )
        refused |= out
    return _Found(
        stream_plans(problem, placements),
        lists,
        result.algorithm,
        refused,
        crowded,
        recovering.recovery_ns,
        jitter_bounds(problem, complete(problem, placements)),
        is_interrupted=result.interrupted,
    )


class _Beside(NamedTuple):
    """Streams in windows of their own beside those that share some."""

    problem: Problem
    result: Result
    refused: dict[str, str]


def _in_shared_windows(
    everyone: Problem, sharing: Collection[str], beside: _Beside, *, best_effort: bool
) -> _Found:
    names, refused = set(sharing), dict(beside.refused)
    placements = complete(beside.problem, beside.result.placements)
    for attempt in count():
        shared = share(everyone, names, placements.values())
        lists = shared.lists()
        recovering = shared.recovery(lists)
        crowded = lists.crowded() | recovering.refused
        if not crowded or not best_effort:
            break
        crossing = _crossing_streams(everyone, shared.streams, crowded)
        if attempt < _ROUNDS_MAX:
            crossing = {port: its[:1] for port, its in crossing.items()}
        out = {name: port for port, its in crossing.items() for name in its}
        if not out:
            ports = {f"port {port}": why for port, why in crowded.items()}
            raise Unschedulable(ports, hint=_HINT)
        names -= out.keys()
        refused |= {name: f"left out for port {at}: {crowded[at]}" for name, at in out.items()}
    return _Found(
        stream_plans(beside.problem, placements) | shared.streams,
        lists,
        f"{beside.result.algorithm}, shared windows" if placements else "shared windows",
        refused | shared.refused,
        crowded,
        recovering.recovery_ns,
        jitter_bounds(beside.problem, placements),
        is_interrupted=beside.result.interrupted,
    )


def _crossing_streams(
    problem: Problem, streams: Mapping[str, StreamPlan], ports: Iterable[PortRef]
) -> dict[PortRef, list[str]]:
    """The streams that leave by each port, what takes most of it first."""
    network = problem.intent.network
    found: dict[PortRef, list[tuple[int, str]]] = {port: [] for port in ports}
    for name, planned in streams.items():
        stream = problem.intent.streams[name]
        for hop in planned.hops:
            if hop.egress in found:
                link = network.links[hop.egress]
                takes_ns = stream.frames * network.occupation_ns(link, stream.payload_octets)
                found[hop.egress].append((-takes_ns, name))
    return {port: [name for _, name in sorted(its)] for port, its in found.items()}


_HINT = (
    "change what the reasons name, take a stream out, or accept a plan without these streams with "
    "--best-effort; nothing was planned"
)


def _algorithm(name: str, executor: Executor | None) -> Algorithm:
    if name not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise InputError(f"unknown algorithm {name!r}", hint=f"choose one of: {known}")
    return Auto(executor) if name == Auto.name else ALGORITHMS[name]()


def _problem(
    intent: Intent, keep: Plan | None, seed: int
) -> tuple[Problem, dict[str, str], list[Floor], dict[str, tuple[Tree, ...]]]:
    """What is to be placed around what is kept, why some streams cannot be in windows of their own,
    the floors of those that need more than their latency so, and all ways."""
    kept = _kept(intent, keep)
    router = Router(intent)
    for name, planned in kept.items():
        router.carry_hops(intent.streams[name], planned.hops)
    wanted = [stream for name, stream in intent.streams.items() if name not in kept]
    trees, impossible = _routes(router, wanted)
    impossible |= _crowded_out(router, kept, trees)
    impossible |= _out_of_step(router, kept, trees)
    routed = dict(trees)
    problem = Problem(intent, trees, seed=seed, router=router)
    for name, paths in list(trees.items()):
        reasons = _hopeless(problem, name, paths)
        if len(paths) == 1 and (reasons or _is_late(problem, name, paths[0])):
            # Fewest hops need not be fastest where links or switches differ.
            fastest = router.cheapest(intent.streams[name], problem.prices_ns(name))
            helps = reasons or not _is_late(problem, name, fastest)
            if helps and not _hopeless(problem, name, (fastest,)):
                router.carry(intent.streams[name], paths, -1)
                router.carry(intent.streams[name], (fastest,))
                trees[name], reasons = (fastest,), []
        impossible.update((name, reason) for reason in reasons[:1])
    if not impossible and not kept:
        return problem, impossible, [], routed  # the one that has added up the hops
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
    problem = _loosened(problem, ran_loose & intent.network.links.keys())
    return problem, impossible, floors, routed


def _kept(intent: Intent, keep: Plan | None) -> dict[str, StreamPlan]:
    """The streams that stay as they are. Those in shared windows have no instant to keep: which
    frames leave there is counted anew for all."""
    if keep is None:
        return {}
    unchanged = incremental.unchanged(intent, keep)
    return {name: planned for name, planned in unchanged.items() if not planned.is_shared}


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


def _out_of_step(
    router: Router, kept: Mapping[str, StreamPlan], trees: dict[str, tuple[Tree, ...]]
) -> dict[str, str]:
    """Take out of `trees` the streams with which others on a link repeat together too rarely for
    any gate control list, and say why: of all periods there those of the fewest streams."""
    streams = router.intent.streams
    if lcm(*{streams[name].period_ns for name in (*kept, *trees)}) <= CYCLE_MAX_NS:
        return {}  # all together repeat often enough, and so do those of each link
    common: dict[PortRef, int] = defaultdict(lambda: 1)
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
    for attempt in range(_ROUNDS_MAX):
        result = algorithm.schedule(problem, allowed)
        lists = gate_control_lists(problem, complete(problem, result.placements).values())
        if result.interrupted or attempt == _ROUNDS_MAX - 1:
            break  # what is placed is sound only with the lists that it was placed for
        crowded = lists.too_long - rigid
        if crowded and attempt >= _ROUNDS_MAX // 2:
            bridges = problem.intent.network.bridges
            crowded = frozenset(port for port in lists.lists if port.node in bridges) - rigid
        loosened = _loosened(problem, crowded)
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
    while crowded := lists.crowded() | recovering.refused:
        relieved: set[PortRef] = set()
        for port, why in crowded.items():
            if port in relieved:
                continue
            crossing = _crossing(problem, placements.values(), port)
            if not crossing:
                raise Unschedulable({f"port {port}": why}, hint=_HINT)
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


def _loosened(problem: Problem, ports: Collection[PortRef]) -> Problem:
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


def _reasons(problem: Problem, result: Result, impossible: Mapping[str, str]) -> dict[str, str]:
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
