"""What passed a port, in columns: a trace of a million frames has ten million passages."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from cnc.testbed.traffic.column import Column, PlacesByNumber

Probe = tuple[int, int]
"""Flow number and sequence number."""

_NO_FLOW = 0xFFFF  # a probe has 16 bits for the number of its flow, and no lab has so many


class Passage(NamedTuple):
    """A frame at a port: when (TAI), how many octets it has from the MAC header on, which it is, or
    None if it is no probe; and its first octets, if the tap was to keep them."""

    time_ns: int
    octets: int
    probe: Probe | None
    beginning: bytes = b""


class Passages(Sequence[Passage]):
    """Frames that passed a port in one direction, in the order of time in which they are added."""

    def __init__(self, passages: Iterable[Passage] = ()) -> None:
        self.times_ns = array("q")
        self.octets = Column()
        self._flows = array("H")
        self._seqs = Column()
        self._beginnings: list[bytes] | None = None
        self._places: dict[int, PlacesByNumber] = {}  # of each flow
        for each in passages:
            self.append(each)

    def append(self, passage: Passage) -> None:
        place = len(self.times_ns)
        self.times_ns.append(passage.time_ns)
        self.octets.append(passage.octets)
        flow, seq = passage.probe or (_NO_FLOW, 0)
        self._flows.append(flow)
        self._seqs.append(seq)
        if passage.beginning and self._beginnings is None:
            self._beginnings = [b""] * place
        if self._beginnings is not None:
            self._beginnings.append(passage.beginning)
        if passage.probe:
            self._places.setdefault(flow, PlacesByNumber()).add(seq, place)

    def places(self, probe: Probe) -> Sequence[int]:
        """At which places of the sequence the frames of a probe are, in order."""
        flow, seq = probe
        return self._places[flow].places(seq) if flow in self._places else ()

    def flow(self, place: int) -> int | None:
        """The flow number of a frame; None: it is no probe."""
        flow = self._flows[place]
        return None if flow == _NO_FLOW else flow

    def __len__(self) -> int:
        return len(self.times_ns)

    def __iter__(self) -> Iterator[Passage]:
        return map(self._at, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Passage]: ...
    def __getitem__(self, index: int | slice) -> Passage | Sequence[Passage]:
        if isinstance(index, slice):
            return [self._at(place) for place in range(*index.indices(len(self)))]
        return self._at(index)

    def _at(self, place: int) -> Passage:
        flow = self.flow(place)
        beginning = self._beginnings[place] if self._beginnings is not None else b""
        probe = None if flow is None else (flow, self._seqs[place])
        return Passage(self.times_ns[place], self.octets[place], probe, beginning)
