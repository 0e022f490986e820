"""What a plan has pass each port: which frames are those of which stream, and when they are due.

The times are those of the judge (`cnc.check`), which counts what the intent states of control,
gates, talkers and clocks: what is outside of them is outside of the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from cnc.account.frames import Transmission
from cnc.captures.gate import Gate
from cnc.captures.header import Header
from cnc.model import Forwarding, Plan, PortRef, TrafficClass, transmission_ns

FCS_OCTETS = 4


@dataclass(frozen=True, slots=True)
class Due:
    """When frames of a stream are due at a port, from the start of each period on (ns).

    `is_leaving`: they start to leave by it; else their last bit has come to it. `frames` is how
    many each period has, at least and at most: two copies of a frame, of which a switch takes one
    out, are one or two.
    """

    stream: str
    port: PortRef
    is_leaving: bool
    period_ns: int
    earliest_ns: int
    latest_ns: int
    frames: tuple[int, int]

    def period_of(self, instant_ns: int) -> int:
        """The period that a frame of an instant (TAI) is counted in: the one that it is nearest to
        be in time in."""
        middle_ns = (self.earliest_ns + self.latest_ns) // 2
        return (instant_ns - middle_ns + self.period_ns // 2) // self.period_ns

    def late_ns(self, instant_ns: int) -> int:
        """How much later than at the latest a frame is; below 0: how much too early; 0: in time."""
        after_ns = instant_ns - self.period_of(instant_ns) * self.period_ns
        return max(0, after_ns - self.latest_ns) or min(0, after_ns - self.earliest_ns)


class Planned:
    """A plan, by what captures show of it."""

    def __init__(self, plan: Plan, transmissions: Iterable[Transmission]) -> None:
        self.plan = plan
        self._is_bridged = plan.intent.network.forwarding is Forwarding.BRIDGED
        self._due = _due(plan, transmissions)
        self._gates: dict[tuple[PortRef, int], list[Gate]] = {}
        classes = plan.intent.classes.values()
        self._by_priority = {its.priority: its for its in classes}
        self._by_dscp = {dscp: its for its in classes for dscp in its.dscps}
        self._streams = {
            (address.destination_mac, address.vlan_id, plan.class_of(name).priority): name
            for address, names in plan.streams_by_address().items()
            for name in names
        }

    @property
    def knows_streams(self) -> bool:
        """Whether frames say which stream they are of: by address, VLAN and priority."""
        return self._is_bridged

    @property
    def dues(self) -> Collection[Due]:
        """All that is planned for all ports."""
        return self._due.values()

    def due(self, stream: str, port: PortRef, *, is_leaving: bool) -> Due | None:
        """When frames of a stream are due at a port; None: none is."""
        return self._due.get((stream, port, is_leaving))

    def stream_of(self, header: Header) -> str | None:
        """The stream whose address, VLAN and priority a frame has: in a bridged network."""
        if header.vlan_id is None or header.pcp is None:
            return None
        return self._streams.get((header.destination_mac, header.vlan_id, header.pcp))

    def class_of(self, header: Header) -> TrafficClass | None:
        """The class whose queue switches put a frame in: by its DSCP where they route, by the
        priority of its tag where they bridge; None: it has no tag, and with it no priority that a
        capture shows."""
        if self._is_bridged:
            return None if header.pcp is None else self._by_priority.get(header.pcp)
        found = None if header.dscp is None else self._by_dscp.get(header.dscp)
        return found or self._by_priority.get(0)

    def shut_ns(
        self, port: PortRef, traffic_class: TrafficClass, instant_ns: int, octets: int
    ) -> int:
        """How far from the nearest instant at which the gate of its class would have let it start a
        frame left a port; 0: it let it, or the port has no gate control list. It has so many
        octets, from MAC header to the last before the FCS."""
        gates = self.gates(port, traffic_class)
        if not gates:
            return 0
        duration_ns = self.duration_ns(port, octets)
        return min(gate.shut_ns(instant_ns, duration_ns) for gate in gates)

    def gates(self, port: PortRef, traffic_class: TrafficClass) -> list[Gate]:
        """The gates of a port by which frames of a class leave, in turn if they are forwarded once
        each interval; none: the port has no gate control list."""
        key = port, traffic_class.number
        if key not in self._gates:
            its = self.plan.gates.get(port)
            queues = self.plan.intent.queues_of(traffic_class.number)
            self._gates[key] = [Gate(its, number) for number in queues] if its else []
        return self._gates[key]

    def duration_ns(self, port: PortRef, octets: int) -> int:
        """How long a frame of so many octets, from MAC header to the last before the FCS, keeps the
        link of a port busy at its nominal rate, preamble and FCS included."""
        overhead = self.plan.intent.network.overhead
        lead_octets = overhead.physical_octets - overhead.gap_octets + FCS_OCTETS
        link = self.plan.intent.network.links[port]
        return transmission_ns(octets + lead_octets, link.rate_bps)


def _due(plan: Plan, transmissions: Iterable[Transmission]) -> dict[tuple[str, PortRef, bool], Due]:
    """By stream, port and whether frames leave it. Frames of a stream that switches tag and untag
    are not known on the links of end stations, and are due nowhere there."""
    found: dict[tuple[str, PortRef, bool], Due] = {}
    intent = plan.intent
    stations = intent.network.end_stations
    for t in transmissions:
        link, stream = intent.network.links[t.egress], intent.streams[t.stream]
        if stream.identification and {t.egress.node, link.target.node} & stations.keys():
            continue
        leaves = t.leaves_ns, t.busy_until_ns - t.frame_min_ns
        comes = t.leaves_ns + t.flight_ns, t.all_received_ns
        for port, is_leaving, (earliest_ns, latest_ns) in (
            (t.egress, True, leaves),
            (link.target, False, comes),
        ):
            key = t.stream, port, is_leaving
            frames = stream.frames, stream.frames
            due = Due(t.stream, port, is_leaving, t.period_ns, earliest_ns, latest_ns, frames)
            found[key] = _joined(found[key], due) if key in found else due
    return found


def _joined(one: Due, other: Due) -> Due:
    """Two copies of a frame at one port, of which one may have been taken out."""
    return replace(
        one,
        earliest_ns=min(one.earliest_ns, other.earliest_ns),
        latest_ns=max(one.latest_ns, other.latest_ns),
        frames=(min(one.frames[0], other.frames[0]), one.frames[1] + other.frames[1]),
    )
