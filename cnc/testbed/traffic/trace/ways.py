"""Which ports a frame of each flow is to leave by, from its talker to its listener."""

from __future__ import annotations

from collections.abc import Sequence

from cnc.model import Hop, Network, Plan, PortRef
from cnc.testbed.lab.addressing import next_hops
from cnc.testbed.traffic.recording import AnyFlow, BridgedFlow

Way = tuple[PortRef, ...]
"""The ports by which a frame leaves its nodes, the talker's first."""


def ways(plan: Plan, flow: AnyFlow) -> list[Way]:
    """One for each path of a planned stream, in the plan's order; of any other flow the one by
    which the lab forwards it."""
    name = flow.stream if isinstance(flow, BridgedFlow) else flow.name
    network = plan.intent.network
    if name in plan.streams and flow.latency_bound_ns is not None:
        return [_branch(network, path, flow.listener) for path in plan.streams[name].paths]
    return [_shortest(network, flow.talker, flow.listener)]


def _branch(network: Network, path: Sequence[Hop], listener: str) -> Way:
    into = {network.links[hop.egress].target.node: hop.egress for hop in path}
    ports = []
    node = listener
    while node in into:
        ports.append(into[node])
        node = into[node].node
    return tuple(reversed(ports))


def _shortest(network: Network, talker: str, listener: str) -> Way:
    towards = next_hops(network, listener)
    ports = []
    node = talker
    while node != listener:
        ports.append(towards[node].source)
        node = towards[node].target.node
    return tuple(ports)
