"""Pairs what the talkers of a run have sent with what its listeners have received."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cnc.testbed.traffic.ethernet import Arrival, Destination
from cnc.testbed.traffic.flows import AnyFlow, BridgedFlow, UntaggedFlow
from cnc.testbed.traffic.frames import Deliveries, Delivery, Frame, FrameColumns
from cnc.testbed.traffic.station import Station
from cnc.testbed.traffic.untagged import UdpPackets


@dataclass(frozen=True, slots=True)
class Stray:
    """A frame of a bridged network that arrived at a node that is no listener of its stream, or
    with another address or tag than it was sent with."""

    stream: str
    seq: int
    node: str
    received_ns: int
    destination_mac: str | None
    vlan_id: int | None
    pcp: int | None


def transmissions(sent: Sequence[AnyFlow]) -> dict[int, list[AnyFlow]]:
    """The flows that are the same frames at several listeners, by the number of the first."""
    numbers: dict[str, int] = {}
    result: dict[int, list[AnyFlow]] = defaultdict(list)
    for number, flow in enumerate(sent):
        name = flow.stream if isinstance(flow, BridgedFlow) else flow.name
        result[numbers.setdefault(name, number)].append(flow)
    return result


class Pairing:
    """Pairs what the talkers sent with what the listeners received."""

    def __init__(
        self,
        sent: Sequence[AnyFlow],
        transmissions: Mapping[int, Sequence[AnyFlow]],
        listeners: Sequence[Station],
        talkers: Sequence[Station],
    ) -> None:
        self._sent = sent
        self._transmissions = transmissions
        self._destinations: dict[int, list[tuple[int, Destination]]] = defaultdict(list)
        for talker in talkers:
            for number, first_seq, destination in talker.destinations():
                self._destinations[number].append((first_seq, destination))
        # A measurement has hundreds of thousands: only what is asked for is kept of each.
        self._arrivals: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        self._deliveries: dict[tuple[str, int], Deliveries] = defaultdict(Deliveries)
        self.strays: list[Stray] = []
        for listener in listeners:
            for arrival in listener.arrivals():
                self._take(listener.node, arrival)

    def _take(self, node: str, arrival: Arrival) -> None:
        number, seq, received_ns, *destination, delivered_ns = arrival
        flow = self._sent[number]
        if isinstance(flow, BridgedFlow):
            is_altered = tuple(destination) != self._addressed(flow, number, seq)
            is_packet = isinstance(flow, UntaggedFlow) and isinstance(flow.sending, UdpPackets)
            is_flooded = flow.latency_bound_ns is None
            is_for_node = any(each.listener == node for each in self._transmissions[number])
            if is_packet and arrival.destination_mac is None:
                is_altered = False  # the listener's own socket got it
            if is_altered or not (is_for_node or is_flooded):
                self.strays.append(Stray(flow.stream, seq, node, *arrival[2:-1]))
                return
            if is_packet and arrival.destination_mac is not None:
                return  # it is at its listener, whose own socket counts it
        if delivered_ns is None:
            self._arrivals[node, number, seq].append(received_ns)
        else:
            self._deliveries[node, number].add(seq, Delivery(received_ns, delivered_ns))

    def _addressed(self, flow: BridgedFlow, number: int, seq: int) -> Destination:
        """What a frame is to have where it arrives: what it was sent to, the last destination of
        its flow by then, unless the last switch gives it another."""
        if isinstance(flow, UntaggedFlow):
            return flow.destination_mac, flow.vlan_id, flow.pcp
        its = self._destinations[number]
        return its[bisect_right(its, seq, key=lambda each: each[0]) - 1][1]

    def frames(self, talkers: Sequence[Station]) -> tuple[Frame, ...]:
        """Every frame at each of its listeners, in the order of the plan. To be asked for once."""
        frames = []
        for talker in talkers:
            for number, seq, planned_ns, sent_ns, scheduled_ns, left_ns, *_ in talker.sent():
                for flow in self._transmissions[number]:
                    received_ns = self._arrivals.pop((flow.listener, number, seq), [])
                    frames.append(
                        Frame(
                            flow=flow.name,
                            seq=seq,
                            planned_ns=planned_ns,
                            sent_ns=sent_ns,
                            received_ns=min(received_ns, default=None),
                            scheduled_ns=scheduled_ns,
                            left_ns=left_ns,
                            copies=len(received_ns),
                        )
                    )
        return tuple(sorted(frames, key=lambda frame: (frame.planned_ns, frame.flow, frame.seq)))

    def columns(self, talkers: Sequence[Station]) -> FrameColumns:
        """As `frames`, with deliveries."""
        deliveries = {
            flow.name: self._deliveries[flow.listener, number]
            for number, flows_ in self._transmissions.items()
            for flow in flows_
        }
        columns = FrameColumns(deliveries)
        for talker in talkers:
            for number, *row in talker.sent():
                for flow in self._transmissions[number]:
                    columns.append(flow.name, row)
        columns.sort()
        return columns
