"""Ports whose gate control lists an operator gives: nothing is planned there."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cnc.mechanisms import terms
from cnc.model import GateControlList, Intent, PortRef, StreamPlan
from cnc.planner.edges import cut
from cnc.planner.graph import Tree
from cnc.planner.routing import Router

_WHAT_HELPS = "its frames have no planned time there; leave that list to the plan, or add a cable"


def lists(intent: Intent) -> dict[PortRef, GateControlList]:
    """As given, with entries that are too long for their port cut."""
    links = intent.network.links
    return {port: cut(its, links[port]) for port, its in terms.given_lists(intent).items()}


def crosses(planned: StreamPlan, ports: Collection[PortRef]) -> PortRef | None:
    """The first of these ports by which frames of a stream leave."""
    return next((hop.egress for hop in planned.hops if hop.egress in ports), None)


def reason(port: PortRef) -> str:
    """Why a stream that would leave by it has no place."""
    return f"its way leads by {port}, whose gate control list is given: {_WHAT_HELPS}"


def crossing(
    router: Router, trees: dict[str, tuple[Tree, ...]], ports: Collection[PortRef]
) -> Mapping[str, str]:
    """Take the streams out of `trees` that would leave by one of these ports, and say why."""
    refused: dict[str, str] = {}
    if not ports:
        return refused
    for name, its in list(trees.items()):
        sources = (router.links[link].source for tree in its for link in tree)
        if port := next((source for source in sources if source in ports), None):
            refused[name] = reason(port)
            router.carry(router.intent.streams[name], trees.pop(name), -1)
    return refused
