"""What the first and the last switch of a stream make of frames that its talker sends untagged, as
it follows from a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from cnc.mechanisms.identification.model import Inward, Outward, Translation, Translations
from cnc.model import Identification, Plan, StreamAddress


def derive(plan: Plan, switches: Collection[str]) -> dict[str, Translations]:
    """What each of `switches` does with untagged frames, in one pass over the plan."""
    network = plan.intent.network
    inward: defaultdict[str, dict[StreamAddress, Inward]] = defaultdict(dict)
    outward: defaultdict[str, dict[StreamAddress, Outward]] = defaultdict(dict)
    for name, address in plan.addresses.items():
        stream = plan.intent.streams.get(name)
        if name not in plan.streams or stream is None or stream.identification is None:
            continue
        for hop in plan.streams[name].hops:
            link = network.links.get(hop.egress)
            if link is None:
                continue
            if hop.egress.node == stream.talker:
                pcp = plan.class_of(name).priority
                its = Inward(link.target.port, stream.identification, pcp)
                inward[link.target.node][address] = its
            if link.target.node in stream.listeners:
                mac = network.end_stations[link.target.node].mac
                if mac is not None:
                    outward[hop.egress.node][address] = Outward(hop.egress.port, mac)
    return {
        name: Translations(
            {
                address: Translation(inward[name].get(address), outward[name].get(address))
                for address in (inward[name] | outward[name])
            }
        )
        for name in switches
        if name in inward or name in outward
    }


def known_by(plan: Plan, stream: str) -> Identification | None:
    """By what the first switch knows the frames of a stream that its talker sends untagged."""
    return plan.intent.streams[stream].identification
