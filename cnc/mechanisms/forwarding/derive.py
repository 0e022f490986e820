"""What the bridges of a bridged network are told: filtering entries, VLAN members, trusted ports.

Derived from the hops of a plan; the judge walks frames through it, and a rollout writes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from cnc.model import BridgeForwarding, Plan, StreamAddress

_Key = TypeVar("_Key")


def derive(plan: Plan, switches: Collection[str]) -> dict[str, BridgeForwarding]:
    """What each of `switches` is told, by name.

    A stream has one filtering entry in each switch that it crosses, with all ports that its paths
    leave by; the ports that its frames enter or leave by are members of its VLAN (802.1Q 8.8).
    Where its talker sends it untagged, its first switch translates, and its last one back: a port
    that it enters untagged need not trust its tag. A stream without an address, or that is none of
    the intent, has none: the judge refuses it.
    """
    links = plan.intent.network.links
    tables = {name: _Tables() for name in switches}
    for name, planned in plan.streams.items():
        address = plan.addresses.get(name)
        stream = plan.intent.streams.get(name)
        if address is None or stream is None:
            continue
        is_untagged = stream.identification is not None
        for hop in planned.hops:
            if (sender := tables.get(hop.egress.node)) is not None:
                sender.egress[address].add(hop.egress.port)
                sender.members[address.vlan_id].add(hop.egress.port)
            link = links.get(hop.egress)
            if link and (receiver := tables.get(link.target.node)) is not None:
                if not (is_untagged and hop is planned.hops[0]):
                    receiver.ingress.add(link.target.port)
                receiver.members[address.vlan_id].add(link.target.port)
    return {name: its.forwarding() for name, its in tables.items()}


@dataclass(slots=True)
class _Tables:
    """What is known so far of one switch, ports by name."""

    egress: defaultdict[StreamAddress, set[str]] = field(default_factory=lambda: defaultdict(set))
    members: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    ingress: set[str] = field(default_factory=set)

    def forwarding(self) -> BridgeForwarding:
        return BridgeForwarding(
            entries=_sorted(self.egress),
            vlans=_sorted(self.members),
            trusting=tuple(sorted(self.ingress)),
        )


def _sorted(ports: Mapping[_Key, set[str]]) -> dict[_Key, tuple[str, ...]]:
    return {key: tuple(sorted(its)) for key, its in ports.items()}
