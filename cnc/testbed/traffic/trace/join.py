"""Joins what talkers, taps and listeners recorded into one row a frame, or a segment of TCP.

A frame is known everywhere by its flow and sequence number. Where copies of it pass one port, they
do so in the order in which they came to that node, since queues and cables are first in, first out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from graphlib import TopologicalSorter
from typing import NamedTuple

from cnc.model import Network, PortRef
from cnc.testbed.traffic.flows import TcpFlow
from cnc.testbed.traffic.frames import Delivery, Frame
from cnc.testbed.traffic.recording import AnyFlow, BridgedFlow
from cnc.testbed.traffic.trace.passages import Passages, Probe
from cnc.testbed.traffic.trace.taps import TappedPort
from cnc.testbed.traffic.trace.ways import Way


class Kind(StrEnum):
    """Which of the copies of a frame a row is.

    `SINGLE`: of a flow that has one path. `FIRST`, `SECOND`: of a stream with two, in the order in
    which they came; lost ones are the last. `REPEATED`: it came once more by a path, so that no
    port can tell what became of it. `RESENT`: TCP has sent it again; what was sent first is
    `SINGLE`.
    """

    SINGLE = "single"
    FIRST = "first"
    SECOND = "second"
    REPEATED = "repeated"
    RESENT = "resent"


class Crossing(NamedTuple):
    """A frame at a node and on the cable behind it; None: nothing recorded that.

    `entered_ns` is when it came to the node, or into the talker's queue; `left_ns` when it left
    `port`, which it was the `place`th to do; `reached_ns` when it came to the other end.
    """

    port: PortRef
    entered_ns: int | None
    left_ns: int | None
    place: int | None
    reached_ns: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """All stamps of one copy of a frame, TAI; None: absent. `path` counts from 0.

    Without `delivered_ns` and the last crossing's `reached_ns` the frame is lost. Without
    `has_channel` its ends have no common clock: those of the listener are as if it came there at
    the instant at which it left the talker. Over TCP `scheduled_ns` is of what was sent first,
    `in_order_ns` when all octets before had come, too, and only the first to come is delivered.
    """

    flow: AnyFlow
    seq: int
    path: int | None
    kind: Kind
    planned_ns: int
    sent_ns: int
    scheduled_ns: int | None
    crossings: tuple[Crossing, ...]
    received_ns: int | None
    delivered_ns: int | None
    has_channel: bool = True
    in_order_ns: int | None = None
    acked_ns: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether no stamp is absent."""
        ends = (self.scheduled_ns, self.received_ns, self.delivered_ns)
        stamps = (*ends, *_stamps(self.crossings))
        return self.path is not None and None not in stamps


def _stamps(crossings: Iterable[Crossing]) -> Iterator[int | None]:
    for _, entered_ns, left_ns, _, reached_ns in crossings:
        yield from (entered_ns, left_ns, reached_ns)


def join(
    network: Network,
    ways: Mapping[str, Sequence[Way]],
    sent: Sequence[AnyFlow],
    frames: Iterable[Frame],
    taps: Mapping[PortRef, TappedPort],
    *,
    stamps_off_ns: int = 0,
) -> Iterator[Row]:
    """The rows of all frames at all their listeners, in the order of `frames`, by path, one at a
    time.

    `ways` are those of each flow, by its name. A port without a tap leaves its stamps absent. A
    stamp of an end station that is no more than `stamps_off_ns` from the passage of its port is
    taken to be that; one of a listener that is further away is none.
    """
    transmissions: dict[str, _Transmission] = {}
    by_flow: dict[str, _Transmission | _Connection] = {}
    for number, flow in enumerate(sent):
        if isinstance(flow, TcpFlow):
            (way,) = ways[flow.name]
            by_flow[flow.name] = _Connection(network, number, taps, way)
            continue
        stream = flow.stream if isinstance(flow, BridgedFlow) else flow.name
        transmission = transmissions.setdefault(
            stream, _Transmission(network, number, taps, stamps_off_ns)
        )
        transmission.add(flow, ways[flow.name])
        by_flow[flow.name] = transmission
    flows = {flow.name: flow for flow in sent}
    return (row for frame in frames for row in by_flow[frame.flow].rows(flows[frame.flow], frame))


class _Transmission:
    """The frames that a talker sends once for all paths and listeners of a stream.

    A way and each beginning of it stand for one passing of one port.
    """

    def __init__(
        self,
        network: Network,
        number: int,
        taps: Mapping[PortRef, TappedPort],
        stamps_off_ns: int,
    ) -> None:
        self._network = network
        self._number = number
        self._taps = taps
        self._stamps_off_ns = stamps_off_ns
        self._ways: dict[str, Sequence[Way]] = {}
        self._beginnings: list[list[Way]] = []  # those that end at one port, in order of time

    def add(self, flow: AnyFlow, ways: Sequence[Way]) -> None:
        """Have the frames go these ways to the listener of a flow, too."""
        self._ways[flow.name] = ways
        by_port: dict[PortRef, set[Way]] = {}
        order: TopologicalSorter[PortRef] = TopologicalSorter()
        for way in (way for each in self._ways.values() for way in each):
            for length in range(1, len(way) + 1):
                by_port.setdefault(way[length - 1], set()).add(way[:length])
                order.add(way[length - 1], *way[length - 2 : length - 1])
        self._beginnings = [sorted(by_port[port]) for port in order.static_order()]

    def rows(self, flow: AnyFlow, frame: Frame) -> list[Row]:
        """The rows of a frame at the listener of a flow, by path; then repeated copies."""
        crossings = self._crossings(frame)
        ways = self._ways[flow.name]
        came: list[Delivery | None] = [None] * len(ways)
        order = sorted(range(len(ways)), key=lambda path: _rank(crossings[ways[path]].reached_ns))
        for path, delivery in zip(order, frame.deliveries, strict=False):
            came[path] = delivery
        rows = [
            self._row(flow, frame, path, came, [crossings[way[: n + 1]] for n in range(len(way))])
            for path, way in enumerate(ways)
        ]
        repeated = frame.deliveries[len(ways) :]
        return [*rows, *(self._row(flow, frame, None, [each], ()) for each in repeated)]

    def _crossings(self, frame: Frame) -> dict[Way, Crossing]:
        """The last crossing of each beginning of a way."""
        probe = self._number, frame.seq
        found: dict[Way, Crossing] = {}
        for beginnings in self._beginnings:
            port = beginnings[0][-1]
            entered = {
                way: found[way[:-1]].reached_ns if len(way) > 1 else frame.scheduled_ns
                for way in beginnings
            }
            ways = sorted(beginnings, key=lambda way: _rank(entered[way]))
            tap, far = self._tap(port), self._tap(self._network.links[port].target)
            off_ns = self._stamps_off_ns if len(beginnings[0]) == 1 else 0
            left = _places([entered[way] for way in ways], tap.left, probe, off_ns)
            left_ns = [None if place is None else tap.left.times_ns[place] for place in left]
            arrived = _places(left_ns, far.arrived, probe)
            for way, place, then_ns, far_place in zip(ways, left, left_ns, arrived, strict=True):
                reached_ns = None if far_place is None else far.arrived.times_ns[far_place]
                entered_ns = _no_later(entered[way], then_ns)
                found[way] = Crossing(port, entered_ns, then_ns, place, reached_ns)
        return found

    def _row(
        self,
        flow: AnyFlow,
        frame: Frame,
        path: int | None,
        came: Sequence[Delivery | None],
        crossings: Sequence[Crossing],
    ) -> Row:
        """The row of a path, of which `came` has what the listener got by each; None: of a copy
        that came once more."""
        delivery = came[path or 0]
        scheduled_ns = frame.scheduled_ns
        received_ns = delivery.received_ns if delivery else None
        if crossings:
            scheduled_ns = crossings[0].entered_ns
            received_ns = self._as_reached(received_ns, crossings[-1].reached_ns)
        return Row(
            flow=flow,
            seq=frame.seq,
            path=path,
            kind=Kind.REPEATED if path is None else _kind(path, came),
            planned_ns=frame.planned_ns,
            sent_ns=frame.sent_ns,
            scheduled_ns=scheduled_ns,
            crossings=tuple(crossings),
            received_ns=received_ns,
            delivered_ns=delivery.delivered_ns if delivery else None,
        )

    def _as_reached(self, received_ns: int | None, reached_ns: int | None) -> int | None:
        """The stamp of a listener, of a frame that its port had then."""
        if not self._stamps_off_ns or received_ns is None or reached_ns is None:
            return received_ns
        return reached_ns if abs(received_ns - reached_ns) <= self._stamps_off_ns else None

    def _tap(self, port: PortRef) -> TappedPort:
        return self._taps.get(port, _NO_TAP)


class _Connection:
    """The frames of a flow over TCP: each passes as often as it was sent."""

    def __init__(
        self, network: Network, number: int, taps: Mapping[PortRef, TappedPort], way: Way
    ) -> None:
        self._network, self._number, self._taps, self._way = network, number, taps, way
        self._in_order_ns: int | None = 0  # when all up to the frame before had come; None: never

    def rows(self, flow: AnyFlow, frame: Frame) -> list[Row]:
        """The rows of a frame, in the order in which it was sent. Frames come in their order."""
        sendings = self._sendings(frame)
        reached_ns = [crossings[-1].reached_ns for crossings in sendings]
        first = min(range(len(sendings)), key=lambda each: _rank(reached_ns[each]))
        delivered_ns = frame.deliveries[0].delivered_ns if frame.deliveries else None
        self._in_order_ns = _later(self._in_order_ns, reached_ns[first])
        return [
            Row(
                flow=flow,
                seq=frame.seq,
                path=None if which != first and reached_ns[which] is not None else 0,
                kind=Kind.RESENT if which else Kind.SINGLE,
                planned_ns=frame.planned_ns,
                sent_ns=frame.sent_ns,
                scheduled_ns=sendings[0][0].entered_ns,
                crossings=crossings,
                received_ns=crossings[-1].reached_ns,
                delivered_ns=delivered_ns if which == first else None,
                in_order_ns=self._in_order_ns if which == first else None,
                acked_ns=frame.acked_ns,
            )
            for which, crossings in enumerate(sendings)
        ]

    def _sendings(self, frame: Frame) -> list[tuple[Crossing, ...]]:
        """All crossings of each sending of a frame. One that is sent again has no stamp of when it
        is in the talker's queue: it is taken to leave at once."""
        probe = self._number, frame.seq
        first = self._taps.get(self._way[0], _NO_TAP).left
        places: list[int | None] = [*first.places(probe)] or [None]
        resent_ns = [first.times_ns[place] for place in first.places(probe)[1:]]
        before_ns: list[int | None] = [frame.scheduled_ns, *resent_ns]
        found: list[list[Crossing]] = [[] for _ in before_ns]
        for number, port in enumerate(self._way):
            target = self._network.links[port].target
            left = self._taps.get(port, _NO_TAP).left
            arrived = self._taps.get(target, _NO_TAP).arrived
            if number:
                places = _last_places(before_ns, left, probe)
            left_ns = [None if place is None else left.times_ns[place] for place in places]
            came = _last_places(left_ns, arrived, probe)
            reached_ns = [None if place is None else arrived.times_ns[place] for place in came]
            columns = zip(before_ns, left_ns, places, reached_ns, strict=True)
            for crossings, stamps in zip(found, columns, strict=True):
                entered_ns, then_ns, place, there_ns = stamps
                crossing = Crossing(port, _no_later(entered_ns, then_ns), then_ns, place, there_ns)
                crossings.append(crossing)
            before_ns = reached_ns
        return [tuple(crossings) for crossings in found]


_NO_TAP = TappedPort(Passages(), Passages())


def _no_later(time_ns: int | None, than_ns: int | None) -> int | None:
    """An instant, or the one that it cannot be later than; None: absent."""
    return time_ns if time_ns is None or than_ns is None else min(time_ns, than_ns)


def _later(time_ns: int | None, other_ns: int | None) -> int | None:
    """The later of two instants; None: one is absent."""
    return None if time_ns is None or other_ns is None else max(time_ns, other_ns)


def _rank(time_ns: int | None) -> tuple[bool, int]:
    """A key to sort by time, what is absent at last."""
    return time_ns is None, time_ns or 0


def _places(
    before_ns: Sequence[int | None], passages: Passages, probe: Probe, off_ns: int = 0
) -> list[int | None]:
    """Which of the passages of a probe follows each of these instants, which may be so much too
    late: the first that does, each once; absent instants, the last ones, get what is left."""
    found: list[int | None] = []
    left = iter(passages.places(probe))
    for instant_ns in before_ns:
        later = (
            p for p in left if instant_ns is None or passages.times_ns[p] >= instant_ns - off_ns
        )
        found.append(next(later, None))
    return found


def _last_places(
    before_ns: Sequence[int | None], passages: Passages, probe: Probe
) -> list[int | None]:
    """Which of the passages of a probe follows each of these instants: the last that does, each
    once, since one that was sent again left later than that which was lost; absent instants have
    none."""
    found: list[int | None] = []
    left = [*passages.places(probe)]
    for instant_ns in reversed(before_ns):
        follows = instant_ns is not None and left and passages.times_ns[left[-1]] >= instant_ns
        found.append(left.pop() if follows else None)
    return found[::-1]


def _kind(path: int, came: Sequence[Delivery | None]) -> Kind:
    if len(came) == 1:
        return Kind.SINGLE
    received_ns = [delivery.received_ns if delivery else None for delivery in came]
    order = sorted(range(len(came)), key=lambda each: _rank(received_ns[each]))
    return Kind.FIRST if order[0] == path else Kind.SECOND
