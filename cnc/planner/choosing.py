"""Which windows streams have: windows of their own for their frames, or shared ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from cnc.errors import Unschedulable
from cnc.model import PortRef, Stream, StreamPlan, Windows
from cnc.planner.algorithm import Algorithm, Budget, Result
from cnc.planner.auto import Auto
from cnc.planner.graph import Tree
from cnc.planner.own_windows import HINT, ROUNDS_MAX, Found, in_own_windows, reasons_for
from cnc.planner.problem import Problem, complete, jitter_bounds, stream_plans
from cnc.planner.sharing import share

_TRIED_MAX = 300  # streams that are planned once more only for the sake of bounds of recovery


def in_windows(
    problem: Problem,
    impossible: Mapping[str, str],
    routed: Mapping[str, tuple[Tree, ...]],
    chosen: Algorithm,
    budget: Budget,
    *,
    best_effort: bool,
) -> Found:
    """Windows of their own for all frames, where all have a place so, with a bound of when they
    are in time again, and nobody asks for another; else for those of which it is asked, and shared
    ones for the others, if more have a place so, or, of not too many, as many and more a bound."""
    wanted = {
        name: Windows.EXACT if problem.given else _windows_for(problem.intent.streams[name], chosen)
        for name in routed
    }
    sharing = {name for name, windows in wanted.items() if windows is not Windows.EXACT}
    found = None
    if Windows.SHARED not in wanted.values():
        effort = replace(budget, ejections=0) if sharing and _is_wide(problem) else budget
        found = in_own_windows(problem, impossible, chosen, effort, best_effort=best_effort)
        is_best = found.is_complete and (
            len(problem.intent.streams) > _TRIED_MAX or found.recovers(problem.intent)
        )
        if is_best or found.is_interrupted or not sharing:
            return found
    everyone = replace(problem, trees=dict(routed))
    own = {name: trees for name, trees in problem.trees.items() if name not in sharing}
    alone = replace(problem, trees=own)
    result = chosen.schedule(alone, budget)
    left_out = {name: why for name, why in impossible.items() if name not in sharing}
    beside = _Beside(alone, result, reasons_for(alone, result, left_out))
    shared = _in_shared_windows(everyone, sharing, beside, best_effort=best_effort)
    return shared if found is None or _worth(shared) > _worth(found) else found


def _worth(found: Found) -> tuple[bool, int, int]:
    """The more streams have a place, the better; and of as many, the more have a bound of how long
    a disturbance makes them late."""
    return found.is_complete, len(found.streams), len(found.recovery_ns)


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


class _Beside(NamedTuple):
    """Streams in windows of their own beside those that share some."""

    problem: Problem
    result: Result
    refused: dict[str, str]


def _in_shared_windows(
    everyone: Problem, sharing: Collection[str], beside: _Beside, *, best_effort: bool
) -> Found:
    names, refused = set(sharing), dict(beside.refused)
    placements = complete(beside.problem, beside.result.placements)
    for attempt in count():
        shared = share(everyone, names, placements.values())
        lists = shared.lists()
        recovering = shared.recovery(lists)
        crowded = lists.crowded() | recovering.refused(everyone.intent)
        if not crowded or not best_effort:
            break
        crossing = _crossing_streams(everyone, shared.streams, crowded)
        if attempt < ROUNDS_MAX:
            crossing = {port: its[:1] for port, its in crossing.items()}
        out = {name: port for port, its in crossing.items() for name in its}
        if not out:
            ports = {f"port {port}": why for port, why in crowded.items()}
            raise Unschedulable(ports, hint=HINT)
        names -= out.keys()
        refused |= {name: f"left out for port {at}: {crowded[at]}" for name, at in out.items()}
    return Found(
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
