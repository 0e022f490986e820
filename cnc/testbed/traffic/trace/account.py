"""Divides the time of each frame among the layers that took it: a pure function of stamps and plan.

A frame's time runs from its planned instant to when the listener's program has it, through the
parts of `Account.parts`, one after the other:

    talker    wake-up          from the planned instant to the program's reading of the clock
              socket           until the kernel has the frame in the queue of the talker's port
              retransmission   over TCP: until it is sent again, of one that is
    port      qdisc            in that queue, for no reason that is below
              processing       in a switch, for no reason that is below
              gate closed      the list that was pushed lets no frame of this length start
              own class        frames of its class that leave by this port are ahead
              other class      frames of other classes are
              wire             transmission and propagation
    listener  head of line     over TCP: until what was written before is there, too
              listener         from the kernel's time stamp to the program's reading of the clock

With events of the kernel two of them are divided further: `processing` ends when the frame enters
the queue of the next port, where its gate and those ahead are waited for, and `qdisc` is at the
ports of switches, too; and what the listener's program is woken and does not run yet is

    listener  listener wake-up

What is ahead of a frame is what left its port before it, while that is on the cable. Between a
frame's first chance to leave and its departure its gate may shut again: then those ahead have cost
it that window, or the switch has if there were none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cnc.model import GateControlList, Link, PortRef, transmission_ns
from cnc.testbed.lab import wires
from cnc.testbed.traffic.column import Column
from cnc.testbed.traffic.flows import TcpFlow
from cnc.testbed.traffic.recording import AnyFlow
from cnc.testbed.traffic.trace.circumstances import Circumstances
from cnc.testbed.traffic.trace.join import Crossing, Row
from cnc.testbed.traffic.trace.kernel_events import KernelEvents
from cnc.testbed.traffic.trace.openings import Openings
from cnc.testbed.traffic.trace.passages import Passages
from cnc.testbed.traffic.trace.taps import TappedPort

_NO_CLASS = -1  # of a frame that is no probe


class Layer(StrEnum):
    """What a part of a frame's time was spent in; see above."""

    WAKE_UP = "wake-up"
    SOCKET = "socket"
    RETRANSMISSION = "retransmission"
    QDISC = "qdisc"
    PROCESSING = "processing"
    GATE_CLOSED = "gate closed"
    OWN_CLASS = "own class"
    OTHER_CLASS = "other class"
    WIRE = "wire"
    HEAD_OF_LINE = "head of line"
    LISTENER_WAKE_UP = "listener wake-up"
    LISTENER = "listener"


_OF_KERNEL_EVENTS = frozenset({Layer.LISTENER_WAKE_UP})
_OF_TCP = frozenset({Layer.RETRANSMISSION, Layer.HEAD_OF_LINE})


def layers(*, with_kernel: bool = False, with_tcp: bool = False) -> list[Layer]:
    """Those in which a part may be: more with events of the kernel, and with flows over TCP."""
    absent = {_OF_KERNEL_EVENTS: not with_kernel, _OF_TCP: not with_tcp}
    return [each for each in Layer if not any(absent[of] for of in absent if each in of)]


class Part(NamedTuple):
    """A part of a frame's time: at which node, or port and the cable behind it; None: absent."""

    place: str
    layer: Layer
    duration_ns: int | None


@dataclass(frozen=True, slots=True)
class Account:
    """A row's time in parts, in the order in which it passed."""

    row: Row
    parts: tuple[Part, ...]

    @property
    def total_ns(self) -> int | None:
        """From the planned instant to the listener's program; None: a part is absent."""
        delivered_ns = self.row.delivered_ns
        if delivered_ns is None or not self.row.is_complete:
            return None
        if any(part.duration_ns is None for part in self.parts):
            return None  # that of which an event of the kernel is
        return delivered_ns - self.row.planned_ns

    def layer_ns(self, layer: Layer) -> int | None:
        """The time in a layer at all places; None: that of one is absent, or there is none."""
        durations_ns = [part.duration_ns for part in self.parts if part.layer is layer]
        known_ns = [each for each in durations_ns if each is not None]
        return sum(known_ns) if known_ns and len(known_ns) == len(durations_ns) else None


def account(
    under: Circumstances,
    sent: Sequence[AnyFlow],
    rows: Iterable[Row],
    taps: Mapping[PortRef, TappedPort],
    events: KernelEvents | None = None,
) -> Iterator[Account]:
    """An account for each row, in their order, one at a time. `taps` are those that the rows were
    joined from; with `events` of the kernel more layers are told apart."""
    classes = {number: flow.traffic_class for number, flow in enumerate(sent)}
    ports = {
        port: _Port(under, link, taps[port].left if port in taps else Passages(), classes)
        for port, link in under.network.links.items()
    }
    return (Account(row, tuple(_parts(ports, row, events))) for row in rows)


def _parts(ports: Mapping[PortRef, _Port], row: Row, events: KernelEvents | None) -> Iterator[Part]:
    talker = row.flow.talker
    yield Part(talker, Layer.WAKE_UP, row.sent_ns - row.planned_ns)
    yield Part(talker, Layer.SOCKET, between(row.sent_ns, row.scheduled_ns))
    if isinstance(row.flow, TcpFlow):
        again_ns = row.crossings[0].entered_ns
        yield Part(talker, Layer.RETRANSMISSION, between(row.scheduled_ns, again_ns))
    before_ns = 0  # of its processing, on the cable before
    for number, crossing in enumerate(row.crossings):
        port = ports[crossing.port]
        queued_ns = crossing.entered_ns
        rest = Layer.PROCESSING if number else Layer.QDISC
        if number and events:
            queued_ns = events.queued_ns(crossing)
            processed_ns = None
            if crossing.entered_ns is not None and queued_ns is not None:
                processed_ns = queued_ns - crossing.entered_ns + before_ns
            yield Part(port.name, Layer.PROCESSING, processed_ns)
            rest, before_ns = Layer.QDISC, 0
        waited = port.waited(crossing, queued_ns, row.flow.traffic_class)
        crossed = port.crossed(crossing, row.flow.traffic_class)
        own_ns: int | None = None
        other_ns: int | None = None
        if waited and crossed:
            own_ns = waited.own_ns + crossed.own_ns
            other_ns = waited.other_ns + crossed.other_ns
        durations_ns = {
            rest: waited.rest_ns + before_ns if waited else None,
            Layer.GATE_CLOSED: waited.gate_closed_ns if waited else None,
            Layer.OWN_CLASS: own_ns,
            Layer.OTHER_CLASS: other_ns,
            Layer.WIRE: crossed.wire_ns if crossed else None,
        }
        for layer, duration_ns in durations_ns.items():
            yield Part(port.name, layer, duration_ns)
        before_ns = port.processing_ns
    yield from _at_listener(row, events)


def _at_listener(row: Row, events: KernelEvents | None) -> Iterator[Part]:
    listener, received_ns, delivered_ns = row.flow.listener, row.received_ns, row.delivered_ns
    if isinstance(row.flow, TcpFlow):
        yield Part(listener, Layer.HEAD_OF_LINE, between(received_ns, row.in_order_ns))
        received_ns = row.in_order_ns
    listener_ns = between(received_ns, delivered_ns)
    if events:
        waking_ns = None
        if received_ns is not None and delivered_ns is not None:
            waking_ns = events.waking_ns(listener, received_ns, delivered_ns)
        yield Part(listener, Layer.LISTENER_WAKE_UP, waking_ns)
        listener_ns = between(waking_ns, listener_ns)
    yield Part(listener, Layer.LISTENER, listener_ns)


def between(begin_ns: int | None, end_ns: int | None) -> int | None:
    """How long it was; None: an instant is absent."""
    return None if begin_ns is None or end_ns is None else end_ns - begin_ns


@dataclass(frozen=True, slots=True)
class _Waited:
    """How long a frame was at a node, or in the queue of its port, until it left."""

    gate_closed_ns: int
    own_ns: int
    other_ns: int
    rest_ns: int


@dataclass(frozen=True, slots=True)
class _Crossed:
    """How long a frame was on a cable, without the processing that it has."""

    own_ns: int
    other_ns: int
    wire_ns: int


class _Port:
    """A port with all that left it, and the cable behind it."""

    def __init__(
        self,
        under: Circumstances,
        link: Link,
        left: Passages,
        classes: Mapping[int, int],
    ) -> None:
        self.name = str(link.source)
        self._under = under
        self._link = link
        self._left = left
        self._gates = under.gates.get(link.source)
        self._openings: dict[tuple[int, int], Openings] = {}
        bridge = under.network.bridges.get(link.target.node)
        self.processing_ns = bridge.processing_min_ns if bridge and under.timed_wires else 0
        self._classes = array("b")
        self._queued_ns = Column()  # how long each frame waits for those before it on the cable
        self._lasting_ns: dict[int, int] = {}  # how long frames of a length are on the cable
        free_ns = 0
        for place, time_ns in enumerate(left.times_ns):
            flow = left.flow(place)
            self._classes.append(_NO_CLASS if flow is None else classes.get(flow, _NO_CLASS))
            self._queued_ns.append(max(0, free_ns - time_ns))
            _, free_ns = self._on_cable(place)

    def _on_cable(self, place: int) -> tuple[int, int]:
        """When the sending of a frame begins and ends."""
        begin_ns = self._left.times_ns[place] + self._queued_ns[place]
        octets = self._left.octets[place]
        if octets not in self._lasting_ns:
            self._lasting_ns[octets] = self._under.occupied_ns(self._link, octets)
        return begin_ns, begin_ns + self._lasting_ns[octets]

    def waited(
        self, crossing: Crossing, entered_ns: int | None, traffic_class: int
    ) -> _Waited | None:
        """Its time from then on."""
        left_ns, place = crossing.left_ns, crossing.place
        if entered_ns is None or left_ns is None or place is None:
            return None
        free_ns, shut_ns, missed_ns = entered_ns, 0, 0
        if self._gates:
            openings = self._openings_for(self._gates, traffic_class, self._left.octets[place])
            first_ns = openings.first_ns(entered_ns + self._under.resolution_ns)
            free_ns = left_ns if first_ns is None else min(first_ns, left_ns)
            shut_ns = openings.shut_ns(entered_ns, free_ns)
            missed_ns = openings.shut_ns(free_ns, left_ns)
        own_ns, other_ns = self._ahead(place, free_ns, left_ns, traffic_class)
        rest_ns = left_ns - entered_ns - shut_ns - own_ns - other_ns
        # A window that passed while it waited was that of those ahead.
        lost_ns = min(missed_ns, rest_ns)
        first = bisect_left(self._left.times_ns, free_ns, hi=place)
        ahead = {each == traffic_class for each in self._classes[first:place]}
        if True in ahead:
            own_ns, rest_ns = own_ns + lost_ns, rest_ns - lost_ns
        elif ahead:
            other_ns, rest_ns = other_ns + lost_ns, rest_ns - lost_ns
        return _Waited(shut_ns, own_ns, other_ns, rest_ns)

    def crossed(self, crossing: Crossing, traffic_class: int) -> _Crossed | None:
        left_ns, reached_ns, place = crossing.left_ns, crossing.reached_ns, crossing.place
        if left_ns is None or reached_ns is None or place is None:
            return None
        own_ns, other_ns = 0, 0
        if self._under.timed_wires:
            begin_ns, _ = self._on_cable(place)
            own_ns, other_ns = self._ahead(place, left_ns, begin_ns, traffic_class)
        wire_ns = reached_ns - left_ns - own_ns - other_ns - self.processing_ns
        return _Crossed(own_ns, other_ns, wire_ns)

    def _ahead(self, place: int, begin_ns: int, end_ns: int, traffic_class: int) -> tuple[int, int]:
        """For how long of this time frames of its own class, and others, that left before it are on
        the cable."""
        own_ns, other_ns = 0, 0
        for each in range(place - 1, -1, -1):
            sent_ns, through_ns = self._on_cable(each)
            if through_ns <= begin_ns:
                break
            busy_ns = max(0, min(through_ns, end_ns) - max(sent_ns, begin_ns))
            if self._classes[each] == traffic_class:
                own_ns += busy_ns
            else:
                other_ns += busy_ns
        return own_ns, other_ns

    def _openings_for(self, gates: GateControlList, traffic_class: int, octets: int) -> Openings:
        key = traffic_class, octets
        if key not in self._openings:
            on_link = octets + wires.WIRE_OVERHEAD_OCTETS
            duration_ns = transmission_ns(on_link, self._link.rate_bps)
            clock = self._under.clocks.of(self._link.source.node)
            self._openings[key] = Openings(gates, traffic_class, duration_ns, clock)
        return self._openings[key]
