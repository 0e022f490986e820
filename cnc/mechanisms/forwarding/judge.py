"""Frames in a bridged network: copied and forwarded as bridges do, do they go where planned?

The judge walks every frame through what the switches are told. A bridge sends a frame whose address
has a filtering entry on by all ports of the entry but the one it came by, if that port and the one
it leaves by are members of its VLAN (802.1Q 8.6.1 to 8.6.4). It drops frames to other addresses: on
the VLANs of streams nothing is flooded. Frames that a talker sends untagged have the address that
their first switch gives them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cnc.account.judge import AddressGiven, Told
from cnc.account.violation import Violation
from cnc.model import Forwarding, Hop, Network, Plan, PortRef, StreamAddress
from cnc.support.format import counted

_VLAN_ID_MIN, _VLAN_ID_MAX = 2, 4094  # 0 and 4095 are none (802.1Q Table 9-2), 1 is for untagged
_RESERVED = (
    ("01:80:c2:00:00:0", "bridges never forward it (802.1Q 8.6.3)"),
    ("01:80:c2:00:00:1", "it is for the management of bridges (802.1Q 8.13.7)"),
    ("01:80:c2:00:00:2", "it is for the applications of MRP (802.1Q 10.5)"),
    ("01:1b:19:00:00:00", "it is the group of PTP (IEEE 1588 annex E)"),
    ("33:33:", "a Linux bridge looks up IPv6 multicast by IP address"),
    ("ff:ff:ff:ff:ff:ff", "it is for broadcasts"),
    ("00:00:00:00:00:00", "no station has it"),
    *(
        (f"01:00:5e:{third:x}", "a Linux bridge looks up IPv4 multicast by IP")
        for third in range(8)
    ),
)


def judge_addresses(plan: Plan, forwarding: Told) -> Iterator[Violation]:
    """What is wrong with the addresses of a plan, and with how many entries bridges are told for
    them."""
    if plan.intent.network.forwarding is Forwarding.ROUTED:
        for name in plan.addresses:
            yield Violation("address", name, "has one, and the network is routed")
        return
    yield from _judge_each(plan)
    yield from judge_entries(
        plan.intent.network, {name: len(its.entries) for name, its in forwarding.items()}
    )


def judge_entries(network: Network, entries: Mapping[str, int]) -> Iterator[Violation]:
    """Which switches are told more filtering entries than they hold, of so many by switch."""
    for name, count in entries.items():
        limit = network.bridges[name].filtering_entries_max
        if count > limit:
            text = f"needs {count} filtering entries, and holds {limit}"
            yield Violation("filtering-entries", name, text)


def judge_ways(plan: Plan, forwarding: Told, address_given: AddressGiven) -> Iterator[Violation]:
    """What is wrong with the ways that frames take if bridges are told `forwarding`, from which
    follows the `address_given` to those that come untagged."""
    bridges = _Bridges(plan, forwarding, address_given)
    for name in plan.streams:
        if name in plan.addresses and name in plan.intent.streams:
            yield from bridges.judge_ways(name, plan.addresses[name])


def _judge_each(plan: Plan) -> Iterator[Violation]:
    yield from _judge_shared(plan)
    for name in plan.streams.keys() - plan.addresses.keys():
        yield Violation("address", name, "has none")
    for name, address in plan.addresses.items():
        stream = plan.intent.streams.get(name)
        if stream is None or name not in plan.streams:
            yield Violation("address", name, f"is no stream of the plan, and has {address}")
            continue
        mac, vlan_id = address.destination_mac, address.vlan_id
        if stream.destination_mac not in {None, mac} or stream.vlan_id not in {None, vlan_id}:
            stated = f"{stream.destination_mac or 'any address'} in VLAN {stream.vlan_id or 'any'}"
            yield Violation("address", name, f"has {address}, where the intent states {stated}")
        if not _VLAN_ID_MIN <= vlan_id <= _VLAN_ID_MAX:
            text = f"is in VLAN {vlan_id}, outside {_VLAN_ID_MIN} to {_VLAN_ID_MAX}"
            yield Violation("address", name, text)
        for start, why in _RESERVED:
            if mac.startswith(start):
                yield Violation("address", name, f"has {mac}: {why}")
        if not address.is_group and (len(stream.listeners) > 1 or stream.paths > 1):
            text = (
                f"has {mac}, the address of one station, for "
                f"{counted(len(stream.listeners), 'listener')} on {counted(stream.paths, 'path')}"
            )
            yield Violation("address", name, text)


def _judge_shared(plan: Plan) -> Iterator[Violation]:
    """Whether frames of streams that share an address are told apart by their priority."""
    users: defaultdict[StreamAddress, dict[int | None, str]] = defaultdict(dict)
    for name, planned in plan.streams.items():
        address, stream = plan.addresses.get(name), plan.intent.streams.get(name)
        if address is None or stream is None:
            continue
        others = users[address]
        number = next((hop.traffic_class for hop in planned.hops), None)
        if (other := others.setdefault(number, name)) != name:
            text = f"has {address}, as stream {other} of the same class"
            yield Violation("address", name, text)
    for address, its in users.items():
        for name in its.values() if len(its) > 1 else ():
            stream = plan.intent.streams[name]
            if stream.paths > 1 or stream.identification is not None:
                what = "two paths" if stream.paths > 1 else "frames without a tag"
                text = f"has {address}, which other streams have, and {what}"
                yield Violation("address", name, text)


@dataclass(frozen=True, slots=True)
class _Crossing:
    """A frame on a link, and how it came there: None where the talker sends it."""

    egress: PortRef
    before: _Crossing | None

    def has_crossed(self, egress: PortRef) -> bool:
        crossing = self.before
        while crossing is not None and crossing.egress != egress:
            crossing = crossing.before
        return crossing is not None


class _Bridges:
    """The bridges of a network, and what they are told."""

    def __init__(self, plan: Plan, forwarding: Told, address_given: AddressGiven) -> None:
        self._plan = plan
        self._links = plan.intent.network.links
        self._forwarding = forwarding
        self._address_given = address_given
        self._members = {
            (name, vlan_id): frozenset(ports)
            for name, its in forwarding.items()
            for vlan_id, ports in its.vlans.items()
        }
        self._trusting = {
            PortRef(name, port) for name, its in forwarding.items() for port in its.trusting
        }

    def judge_ways(self, name: str, address: StreamAddress) -> Iterator[Violation]:
        """What is wrong with the ways of one frame of a stream, all its copies together.

        Copies that switches take out go on here, too: if the other is lost, each goes its way.
        """
        stream, planned = self._plan.intent.streams[name], self._plan.streams[name]
        sent = self._sent(stream.talker, planned.hops)
        expected = Counter(hop.egress for hop in planned.hops if hop.egress.node != stream.talker)
        expected.update(sent)
        crossed: Counter[PortRef] = Counter()
        received: Counter[str] = Counter()
        under_way = [_Crossing(egress, None) for egress in sent if egress in self._links]
        while under_way:
            crossing = under_way.pop()
            egress = crossing.egress
            crossed[egress] += 1
            if crossed[egress] > expected[egress]:
                yield self._astray(name, crossing, expected[egress])
                return  # where copies multiply there may be no end of them
            ingress = self._links[egress].target
            if ingress.node not in self._forwarding:
                received[ingress.node] += 1
                continue
            if crossing.before is None and stream.identification:
                given = self._address_given(ingress, stream)
                if given != address:
                    got = "no address" if given is None else f"{given}"
                    text = f"comes untagged to {ingress}, and has {got} from there on"
                    yield Violation("identification", name, text)
                    return
            elif ingress not in self._trusting:
                text = f"enters by {ingress}, which does not give it the priority of its PCP"
                yield Violation("forwarding-priority", name, text)
            under_way += [_Crossing(each, crossing) for each in self._onward(ingress, address)]
        for listener in stream.listeners:
            if received[listener] != stream.paths:
                copies = (
                    f"{received[listener] or 'no'} cop{'y' if received[listener] == 1 else 'ies'}"
                )
                text = f"brings {listener} {copies} of each frame, {stream.paths} asked for"
                yield Violation("forwarding-copies", name, text)

    @staticmethod
    def _sent(talker: str, hops: tuple[Hop, ...]) -> list[PortRef]:
        """The ports by which the talker sends a frame, once for each time that it does: paths that
        start at one port at one time share one transmission, which the first switch copies."""
        starts = dict.fromkeys((h.egress, h.offset_ns) for h in hops if h.egress.node == talker)
        return [egress for egress, _ in starts]

    def _onward(self, ingress: PortRef, address: StreamAddress) -> Iterator[PortRef]:
        """The ports by which a frame that comes in by `ingress` leaves the switch."""
        switch = ingress.node
        members = self._members.get((switch, address.vlan_id), frozenset())
        if ingress.port not in members:
            return
        for port in self._forwarding[switch].entries.get(address, ()):
            egress = PortRef(switch, port)
            if port != ingress.port and port in members and egress in self._links:
                yield egress

    def _astray(self, name: str, crossing: _Crossing, planned: int) -> Violation:
        egress = crossing.egress
        target = self._links[egress].target.node
        if crossing.has_crossed(egress):
            return Violation("forwarding-loop", name, f"comes back to {egress}, without end")
        if planned:
            text = f"crosses {egress} to {target} more often than planned, {planned} for each frame"
        else:
            text = f"leaves by {egress} to {target}, where it is not planned"
        return Violation("forwarding-stray", name, text)
