"""The longest packets that cross each port by a plan: what its MTU has to be."""

from __future__ import annotations

from typing import NamedTuple

from cnc.mechanisms.terms import client_octets
from cnc.model import ClassRole, Intent, Plan, PortRef


class Packets(NamedTuple):
    """The longest packets that cross a port by plan, whose they are, and the longest that guard
    bands leave time for if best effort sends them."""

    octets: int
    stream: str
    best_effort_octets: int


def longest_packets(plan: Plan) -> dict[PortRef, Packets]:
    """By port, of both ends of each cable that a stream crosses."""
    links, guarded = plan.intent.network.links, _best_effort_octets(plan.intent)
    found: dict[PortRef, Packets] = {}
    for name, planned in plan.streams.items():
        stream = plan.intent.streams[name]
        for hop in planned.hops:
            link = links[hop.egress]
            octets = client_octets(plan.intent.network, stream, link)
            its = Packets(octets, name, guarded)
            for port in (hop.egress, link.target):
                if port not in found or found[port].octets < its.octets:
                    found[port] = its
    return found


def _best_effort_octets(intent: Intent) -> int:
    frames = (c.max_frame_octets for c in intent.classes_with(ClassRole.BEST_EFFORT))
    return max(frames, default=0) - intent.network.overhead.link_layer_octets
