"""Parts of a plan that rules are asked about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from cnc.model import Plan

V = TypeVar("V")


def part_of(plan: Plan, names: Iterable[str]) -> Plan:
    """What of a plan is about these streams: no lists."""
    names = list(names)
    return replace(
        plan,
        intent=replace(plan.intent, streams=_of(plan.intent.streams, names)),
        streams=_of(plan.streams, names),
        gates={},
        refused=_of(plan.refused, names),
        recovery_ns=_of(plan.recovery_ns, names),
        addresses=_of(plan.addresses, names),
        jitter_ns=_of(plan.jitter_ns, names),
        loops={},
    )


def bridges_of(part: Plan) -> set[str]:
    """The switches that the streams of a plan come to or leave, on sound routes."""
    links, bridges = part.intent.network.links, part.intent.network.bridges
    nodes = {
        node
        for its in part.streams.values()
        for hop in its.hops
        for node in (hop.egress.node, links[hop.egress].target.node)
    }
    return nodes & bridges.keys()


def _of(every: Mapping[str, V], names: Iterable[str]) -> dict[str, V]:
    return {name: every[name] for name in names if name in every}
