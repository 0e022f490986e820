"""The idle slopes of a plan: what its streams need at each port."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from cnc.mechanism import Decided, Kept
from cnc.mechanisms.cbs.model import IdleSlopes, SlopeRow
from cnc.mechanisms.cbs.settled import settled
from cnc.model import Plan, PortRef


def _decide(plan: Plan) -> IdleSlopes:
    ways = {
        name: tuple(tuple(hop.egress for hop in path) for path in its.paths)
        for name, its in plan.streams.items()
        if its.shaper
    }
    if not ways:
        return IdleSlopes()
    stated_ns = {name: plan.streams[name].latency_bound_ns for name in ways}
    found = settled(plan.intent, ways, plan.gates, stated_ns, plan[IdleSlopes])
    return IdleSlopes(found.slopes_bps)


def _rows(its: IdleSlopes) -> Iterator[SlopeRow]:
    for port, slopes in sorted(its.by_port.items()):
        for number, slope_bps in sorted(slopes.items()):
            yield SlopeRow(port.node, port.port, number, slope_bps)


def _part(rows: tuple[SlopeRow, ...]) -> IdleSlopes:
    found: defaultdict[PortRef, dict[int, int]] = defaultdict(dict)
    for its in rows:
        found[PortRef(its.node, its.port)][its.traffic_class] = its.idle_slope_bps
    return IdleSlopes(dict(found))


DECIDED = Decided(_decide, IdleSlopes, Kept("idle-slopes", SlopeRow, _rows, _part))
