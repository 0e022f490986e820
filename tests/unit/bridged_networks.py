"""Bridged networks for tests, and a walk of frames through them that shares nothing with the judge.

It floods: every copy goes on until it is delivered or dropped, and is counted where it arrives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from cnc.model import BridgeForwarding, Forwarding, Intent, Network, Plan, PortRef, Stream
from tests.unit.planner_networks import intent, network

COPIES_MAX = 1_000  # more than any tree of these networks has: they multiply


def bridged(net: Network, *streams: Stream, entries_max: int = 2048) -> Intent:
    bridges = {
        name: replace(its, filtering_entries_max=entries_max) for name, its in net.bridges.items()
    }
    return intent(replace(net, bridges=bridges, forwarding=Forwarding.BRIDGED), *streams)


def deliveries(
    plan: Plan, forwarding: Mapping[str, BridgeForwarding], stream: str
) -> tuple[Counter[str], Counter[PortRef]]:
    """How often one frame of a stream comes to each station, and crosses each link."""
    address, links = plan.addresses[stream], plan.intent.network.links
    talker = plan.intent.streams[stream].talker
    started = {
        (path[0].egress, path[0].offset_ns)
        for path in plan.streams[stream].paths
        if path[0].egress.node == talker
    }
    under_way = [links[egress] for egress, _ in started]
    arrived: Counter[str] = Counter()
    crossed: Counter[PortRef] = Counter()
    while under_way:
        link = under_way.pop(0)
        crossed[link.source] += 1
        assert crossed.total() < COPIES_MAX, f"copies of {stream} multiply"
        node, ingress = link.target
        if node in plan.intent.network.end_stations:
            arrived[node] += 1
            continue
        its = forwarding[node]
        members = its.vlans.get(address.vlan_id, ())
        if ingress not in members:
            continue
        egress = set(its.entries.get(address, ())) & set(members) - {ingress}
        under_way += [links[PortRef(node, port)] for port in egress]
    return arrived, crossed


# A ring of five switches, a station at each.
RING5 = network(*(f"s{n}-s{n % 5 + 1}" for n in range(1, 6)), *(f"e{n}-s{n}" for n in range(1, 6)))
