"""The frames of a recording: one by one, and many of them in columns."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, overload

from cnc.testbed.traffic.column import Column, PlacesByNumber


class Delivery(NamedTuple):
    """A copy of a frame at its listener: the kernel's time stamp, and when the program had it."""

    received_ns: int
    delivered_ns: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a recording, at one of its listeners; times are TAI.

    `sent_ns` is the clock just before the talker's call, `received_ns` the kernel's time stamp of
    the first copy that arrived, None if none did. With stamps, `scheduled_ns` is when the kernel
    enqueued the frame in the talker's queueing discipline, `left_ns` when it passed it to the
    driver; `acked_ns` is when TCP had it acknowledged. `deliveries` has each copy that arrived, in
    order, if they were asked for.
    """

    flow: str
    seq: int
    planned_ns: int
    sent_ns: int
    received_ns: int | None
    scheduled_ns: int | None = None
    left_ns: int | None = None
    copies: int = 1  # how often it arrived: 0 lost, 2 duplicated
    deliveries: tuple[Delivery, ...] = ()
    acked_ns: int | None = None


class Deliveries:
    """What a listener had of one flow, by sequence number."""

    def __init__(self) -> None:
        self._received_ns = array("q")
        self._lasting_ns = Column()
        self._places = PlacesByNumber()

    def add(self, seq: int, delivery: Delivery) -> None:
        self._places.add(seq, len(self._received_ns))
        self._received_ns.append(delivery.received_ns)
        self._lasting_ns.append(delivery.delivered_ns - delivery.received_ns)

    def of(self, seq: int) -> tuple[Delivery, ...]:
        """The copies of a frame, in order of time; empty: none came."""
        places = self._places.places(seq)
        return tuple(sorted(self._at(place) for place in places))

    def _at(self, place: int) -> Delivery:
        received_ns = self._received_ns[place]
        return Delivery(received_ns, received_ns + self._lasting_ns[place])


_ABSENT = -1 << 63  # among the nanoseconds from the planned instant on


class FrameColumns(Sequence[Frame]):
    """Frames with their deliveries, a tenth as large as objects: each is made when it is asked for.

    `deliveries` has those of each flow; of one that is not in it nothing came.
    """

    def __init__(self, deliveries: Mapping[str, Deliveries]) -> None:
        self._deliveries = deliveries
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}  # of the names
        self._order: array[int] | None = None
        self._flows, self._seqs = Column(), Column()
        self._planned_ns = array("q")
        self._sent_ns, self._scheduled_ns, self._left_ns = Column(), Column(), Column()
        self._acked_ns = Column()

    def append(self, flow: str, sent: Sequence[Any]) -> None:
        """Add a frame that was sent: its sequence number, and when it was planned, sent, scheduled,
        left and perhaps acknowledged (see `Frame`). `sort` comes after all of them."""
        seq, planned_ns, sent_ns, scheduled_ns, left_ns, *acked = sent
        acked_ns = acked[0] if acked else None
        if flow not in self._numbers:
            self._numbers[flow] = len(self._names)
            self._names.append(flow)
        self._flows.append(self._numbers[flow])
        self._seqs.append(seq)
        self._planned_ns.append(planned_ns)
        self._sent_ns.append(sent_ns - planned_ns)
        self._scheduled_ns.append(_ABSENT if scheduled_ns is None else scheduled_ns - planned_ns)
        self._left_ns.append(_ABSENT if left_ns is None else left_ns - planned_ns)
        self._acked_ns.append(_ABSENT if acked_ns is None else acked_ns - planned_ns)

    def sort(self) -> None:
        """Put the frames in order of planned instant, flow, sequence number."""
        ranks = {name: rank for rank, name in enumerate(sorted(self._names))}
        rank_of = [ranks[name] for name in self._names]
        places: dict[int, array[int]] = {number: array("i") for number in self._numbers.values()}
        for place, number in enumerate(self._flows):
            places[number].append(place)
        # A talker sends each flow in this order. One list of all frames takes 80 octets for each.
        self._order = array(
            "i",
            heapq.merge(
                *map(self._in_order, places.values()),
                key=lambda place: (self._planned_ns[place], rank_of[self._flows[place]]),
            ),
        )

    def _in_order(self, places: array[int]) -> array[int]:
        """Places of frames of one flow, in order of planned instant and sequence number."""

        def key(place: int) -> tuple[int, int]:
            return self._planned_ns[place], self._seqs[place]

        if all(key(one) <= key(other) for one, other in pairwise(places)):
            return places
        return array("i", sorted(places, key=key))

    def __len__(self) -> int:
        return len(self._planned_ns)

    def __iter__(self) -> Iterator[Frame]:
        return map(self._at, range(len(self)) if self._order is None else self._order)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Frame, ...]: ...
    def __getitem__(self, index: int | slice) -> Frame | tuple[Frame, ...]:
        order = range(len(self)) if self._order is None else self._order
        if isinstance(index, slice):
            return tuple(map(self._at, order[index]))
        return self._at(order[index])

    def _at(self, place: int) -> Frame:
        flow, seq = self._names[self._flows[place]], self._seqs[place]
        planned_ns = self._planned_ns[place]
        scheduled_ns, left_ns = self._scheduled_ns[place], self._left_ns[place]
        acked_ns = self._acked_ns[place]
        deliveries = self._deliveries[flow].of(seq) if flow in self._deliveries else ()
        return Frame(
            flow=flow,
            seq=seq,
            planned_ns=planned_ns,
            sent_ns=planned_ns + self._sent_ns[place],
            received_ns=deliveries[0].received_ns if deliveries else None,
            scheduled_ns=None if scheduled_ns == _ABSENT else planned_ns + scheduled_ns,
            left_ns=None if left_ns == _ABSENT else planned_ns + left_ns,
            copies=len(deliveries),
            deliveries=deliveries,
            acked_ns=None if acked_ns == _ABSENT else planned_ns + acked_ns,
        )
