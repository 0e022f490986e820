"""Flows of captured packets, at the instants of the capture or faster or slower.

What a network sees of a packet is sent: its length, its DSCP, and when. Its content is not:
receivers would answer it, and it is private. In its place each packet has a flow number and a
sequence number, so that it is found where it arrives.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from cnc.captures.capture_file import refused
from cnc.errors import InputError
from cnc.model import Intent
from cnc.testbed.traffic.flows import Flow, class_of_dscp, least_payload_octets
from cnc.testbed.traffic.replay.ip_packets import Address, Packet, packets

Ends = tuple[str, str]  # talker and listener
Networks = Mapping[IPv4Network | IPv6Network, str]  # end station or switch, by addresses


class Timeline:
    """When packets of a capture are sent, counting from its first packet, and how long they are.

    What lasts `lasts_ns` begins again after that.
    """

    def __init__(self, lasts_ns: int = 0) -> None:
        self.at_ns, self.octets, self.lasts_ns = array("q"), array("H"), lasts_ns

    def add(self, at_ns: int, octets: int) -> None:
        self.at_ns.append(at_ns)
        self.octets.append(octets)

    def until(self, end_ns: int) -> Iterator[tuple[int, int]]:
        """Instant and length of each packet before an instant, again and again."""
        begin_ns = 0
        while True:
            for at_ns, octets in zip(self.at_ns, self.octets, strict=True):
                if begin_ns + at_ns >= end_ns:
                    return
                yield begin_ns + at_ns, octets
            begin_ns += self.lasts_ns

    def octets_of(self, seq: int) -> int:
        """The length of the packet with this sequence number."""
        return self.octets[seq % len(self.octets)]


@dataclass(frozen=True, slots=True)
class ReplayedFlow(Flow):
    """The packets of a capture from one node to another that have one DSCP.

    `payload_octets` is the length of the longest, `period_ns` how far they are apart on average.
    """

    timeline: Timeline = field(default_factory=Timeline, compare=False)


@dataclass(frozen=True, slots=True)
class Replay:
    """Of which capture packets are sent, at how many times its speed, and from where to where: the
    `ends` for all of them, or the nodes that the longest of `networks` with an address have.

    `dscp`: of all packets; None: as they were captured.
    """

    name: str
    pcap: Path
    speed: Decimal
    ends: Ends | None
    networks: Networks
    ip_version: int
    offset_ns: int
    dscp: int | None


def flows(replay: Replay, intent: Intent, mtu_octets: int) -> list[ReplayedFlow]:
    """A flow for each pair of nodes and each DSCP that packets have, with as many names.

    Packets between addresses of one node are on no cable and not sent, nor without an address those
    without an IP packet.

    Raises:
        InputError: the capture cannot be read, or a packet is longer than the lab's ports take, or
            has an address that is at no node, or nothing remains; with the packet's number.
    """
    found: dict[tuple[Ends, int], Timeline] = {}
    first_ns, last_ns, count = None, 0, 0
    for packet in packets(replay.pcap):
        first_ns = packet.at_ns if first_ns is None else first_ns
        last_ns, count = packet.at_ns, count + 1
        if packet.octets > mtu_octets:
            refused(
                replay.pcap,
                packet.number,
                f"a packet of {packet.octets} octets",
                f"{mtu_octets} or less, the MTU of the lab's ports",
                "what a card puts together or cuts is longer in a capture than on the cable: "
                "capture with `ethtool -K PORT gro off gso off tso off`",
            )
        ends = replay.ends or _ends(replay, packet)
        if ends is None or ends[0] == ends[1]:
            continue
        key = ends, packet.dscp if replay.dscp is None else replay.dscp
        found.setdefault(key, Timeline()).add(
            _scaled(packet.at_ns - first_ns, replay.speed),
            max(packet.octets, least_payload_octets(replay.ip_version)),
        )
    lasts_ns = _scaled(last_ns - (first_ns or 0), replay.speed)
    if not found or not lasts_ns:
        what = f"{count} packets" if found or not count else "no packet between two nodes"
        raise InputError(
            f"{replay.pcap}: found {what} within {lasts_ns} ns, expected two or more that are apart"
        )
    # As long after the last packet as packets are apart on average the first one comes again.
    lasts_ns += -(-lasts_ns // (count - 1))
    for timeline in found.values():
        timeline.lasts_ns = lasts_ns
    names = _names(replay, [*found])
    return [
        ReplayedFlow(
            name=name,
            talker=ends[0],
            listener=ends[1],
            traffic_class=class_of_dscp(intent, dscp).number,
            ip_version=replay.ip_version,
            dscp=dscp,
            payload_octets=max(timeline.octets),
            period_ns=-(-lasts_ns // len(timeline.octets)),
            offset_ns=replay.offset_ns,
            latency_bound_ns=None,
            timeline=timeline,
        )
        for name, ((ends, dscp), timeline) in zip(names, found.items(), strict=True)
    ]


def _names(replay: Replay, found: Sequence[tuple[Ends, int]]) -> Iterator[str]:
    for ends, dscp in found:
        name = replay.name if replay.ends else f"{replay.name} {ends[0]} to {ends[1]}"
        several = sum(others == ends for others, _ in found) > 1
        yield f"{name}, DSCP {dscp}" if several else name


def _scaled(duration_ns: int, speed: Decimal) -> int:
    numerator, denominator = speed.as_integer_ratio()
    return duration_ns * denominator // numerator


def _ends(replay: Replay, packet: Packet) -> Ends | None:
    if packet.source is None or packet.destination is None:
        return None
    return _node(replay, packet, packet.source), _node(replay, packet, packet.destination)


def _node(replay: Replay, packet: Packet, address: Address) -> str:
    its = [network for network in replay.networks if address in network]
    if not its:
        known = ", ".join(map(str, replay.networks))
        refused(
            replay.pcap,
            packet.number,
            f"the address {address}",
            f"one of the networks in `addresses`: {known}",
            "0.0.0.0/0 and ::/0 have all other addresses",
        )
    return replay.networks[max(its, key=lambda network: network.prefixlen)]
