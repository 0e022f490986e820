"""Streams of shaped classes on their ways, and how long their bursts take at their talkers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from cnc.mechanisms import talker_link
from cnc.mechanisms.cbs.ports import Streams
from cnc.mechanisms.talker_link import fastest_bps, sent
from cnc.model import NS_PER_S, Intent, PortRef, Stream, TrafficClass

Ways = Sequence[Sequence[PortRef]]


class Refused(NamedTuple):
    """Why streams have no bound."""

    text: str


@dataclass(slots=True)
class Flow:
    """A stream on its way. By port of a switch: `before`, the port that its frames come by, and
    `least_ns`, after which they have left the port at the earliest; of its talker, too."""

    stream: Stream
    its_class: TrafficClass
    frame_bits: int
    rate_bps: int
    first: PortRef
    before: dict[PortRef, PortRef]
    least_ns: dict[PortRef, int]

    @property
    def burst_bits(self) -> int:
        """The frames of one period."""
        return self.stream.frames * self.frame_bits

    def bits_within(self, time_ns: int) -> int:
        """What it sends in some time, beside its burst."""
        return -(-self.rate_bps * max(time_ns, 0) // NS_PER_S)

    def chain_to(self, port: PortRef) -> tuple[PortRef, ...]:
        """The ports of switches up to one."""
        found = [port]
        while (before := self.before[found[-1]]) in self.before:
            found.append(before)
        return tuple(reversed(found))


def flow_of(intent: Intent, stream: Stream, ways: Ways) -> Flow:
    """The flow of a stream that goes these ways."""
    network = intent.network
    frame_bits = 8 * network.wire_octets(stream.payload_octets)
    came_by: dict[str, PortRef] = {}
    before: dict[PortRef, PortRef] = {}
    least_ns: dict[PortRef, int] = {}
    for port in chain.from_iterable(ways):
        link = network.links[port]
        least_ns[port] = frame_bits * NS_PER_S // fastest_bps(link)
        if port.node in network.bridges:
            before[port] = last = came_by[port.node]
            least_ns[port] += least_ns[last] + network.links[last].propagation_ns
            least_ns[port] += network.bridges[port.node].processing_min_ns
        came_by[link.target.node] = port
    return Flow(
        stream,
        intent.classes[stream.traffic_classes[0]],
        frame_bits,
        sent(network, stream).rate_bps,
        ways[0][0],
        before,
        least_ns,
    )


def streams_of(flows: Sequence[Flow]) -> Streams:
    """What a port has to know of those of a class that leave by it."""
    rate_bps, longest_bits = sum(flow.rate_bps for flow in flows), max(f.frame_bits for f in flows)
    return Streams(rate_bps, longest_bits)


def access_ns(intent: Intent, flows: Mapping[str, Flow]) -> dict[PortRef, int] | Refused:
    """By the port of a talker how long its bursts take there, beside all else that it sends."""
    by_link: defaultdict[PortRef, list[Flow]] = defaultdict(list)
    for flow in flows.values():
        by_link[flow.first].append(flow)
    found = {}
    for ref, its_flows in by_link.items():
        first = intent.network.links[ref]
        sends = [
            (its, its.paths)
            for its in intent.streams.values()
            if its.talker == ref.node and intent.shaper_of(its) is None
        ]
        sends += [(flow.stream, 1) for flow in its_flows]
        needed_ns = talker_link.access_ns(intent, first, sends)
        if needed_ns is None:
            return Refused(
                f"{ref}: the bursts of its talker take more time than there is. What would help: "
                "longer periods, fewer or smaller frames, a faster link"
            )
        found[ref] = needed_ns
    return found
