"""Whether frames passed a port as planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc.captures.header import Header, header_of
from cnc.captures.planned import Due, Planned
from cnc.model import ClassRole, PortRef
from cnc.support.format import microseconds

EXAMPLES_MAX = 20


class Captured(NamedTuple):
    """A frame of a capture: `number` is that of its packet in `file`, `at_ns` TAI, `octets` what
    the capture has of it, and `length` how many it had, the FCS not counted. `is_leaving` is None
    where the capture does not say in which direction it passed the port. TAI was taken to be
    `tai_ahead_s` ahead of the capture's time."""

    file: str
    number: int
    at_ns: int
    port: PortRef
    is_leaving: bool | None
    length: int
    octets: bytes
    tai_ahead_s: int = 0


class Passed(NamedTuple):
    """What there is to say of a frame. `late_ns` and `shut_ns` are beyond the tolerance: how much
    later than planned, below 0 how much too early, and how far from an instant at which its gate
    would have let it start."""

    stream: str | None = None
    due: Due | None = None
    late_ns: int = 0
    shut_ns: int = 0
    is_astray: bool = False  # of a stream that does not come by here
    is_unknown: bool = False  # of a scheduled class, of no stream

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with it, in words; empty: nothing."""
        return tuple(
            text
            for applies, text in (
                (self.late_ns > 0, f"{microseconds(self.late_ns)} µs late"),
                (self.late_ns < 0, f"{microseconds(-self.late_ns)} µs early"),
                (self.shut_ns > 0, f"gate closed, {microseconds(self.shut_ns)} µs from a window"),
                (self.is_astray, "not planned here"),
                (self.is_unknown, "in a scheduled class, of no stream"),
            )
            if applies
        )


class Example(NamedTuple):
    """A frame with which something is wrong."""

    frame: Captured
    passed: Passed


@dataclass(slots=True)
class PortStream:
    """A stream at a port: how many of its frames passed, and how many were not as planned.

    `missing` and `extra` count in the periods that the capture of the port has whole. The latest
    frame was `late_max_ns` later than at the latest (0: none was late).
    """

    due: Due
    frames: int = 0
    early: int = 0
    late: int = 0
    gate_closed: int = 0
    missing: int = 0
    extra: int = 0
    late_max_ns: int = 0
    by_period: Counter[int] = field(default_factory=Counter)

    @property
    def is_as_planned(self) -> bool:
        return not (self.early or self.late or self.gate_closed or self.missing or self.extra)

    def add(self, at_ns: int, passed: Passed) -> None:
        self.frames += 1
        self.early += passed.late_ns < 0
        self.late += passed.late_ns > 0
        self.gate_closed += passed.shut_ns > 0
        self.late_max_ns = max(self.late_max_ns, passed.late_ns)
        self.by_period[self.due.period_of(at_ns)] += 1

    def count(self, begin_ns: int, end_ns: int) -> None:
        """Count what is missing, and too much, between two instants (TAI)."""
        due = self.due
        first = -((due.earliest_ns - begin_ns) // due.period_ns)
        last = (end_ns - due.latest_ns) // due.period_ns
        whole = max(0, last - first + 1)
        least, most = due.frames
        inside = [its for number, its in self.by_period.items() if first <= number <= last]
        self.missing = (whole - len(inside)) * least + sum(max(0, least - its) for its in inside)
        self.extra = sum(max(0, its - most) for its in inside)


@dataclass(slots=True)
class Port:
    """What a capture has of a port, beside its streams: from when to when (TAI), frames of
    scheduled classes of no stream, frames of others, and those of them at which the gate of their
    class was closed."""

    begin_ns: int
    end_ns: int
    astray: int = 0
    unknown: int = 0
    others: int = 0
    gate_closed: int = 0

    @property
    def is_as_planned(self) -> bool:
        return not (self.astray or self.unknown or self.gate_closed)


class Verified(NamedTuple):
    """What captures show of a plan: each stream at each port of which there is a capture, other
    frames by port, and the first frames with which something is wrong."""

    streams: list[PortStream]
    ports: dict[PortRef, Port]
    examples: list[Example]

    @property
    def is_as_planned(self) -> bool:
        streams = all(its.is_as_planned for its in self.streams)
        return streams and all(its.is_as_planned for its in self.ports.values())


class Verification:
    """Frames of captures beside a plan, one at a time. `tolerance_ns` is by how much stamps may be
    off from the clock of the port's node."""

    def __init__(self, planned: Planned, tolerance_ns: int = 0) -> None:
        self._planned, self._tolerance_ns = planned, tolerance_ns
        self._streams: dict[tuple[str, PortRef, bool], PortStream] = {}
        self._ports: dict[PortRef, Port] = {}
        self._examples: list[Example] = []

    def add(self, frame: Captured) -> Passed:
        """What there is to say of a frame, which is counted."""
        port = self._ports.setdefault(frame.port, Port(frame.at_ns, frame.at_ns))
        port.begin_ns = min(port.begin_ns, frame.at_ns)
        port.end_ns = max(port.end_ns, frame.at_ns)
        header = header_of(frame.octets)
        passed = Passed() if header is None else self._passed(frame, header)
        if passed.due is not None:
            self._row(passed.due).add(frame.at_ns, passed)
        else:
            port.astray += passed.is_astray
            port.unknown += passed.is_unknown
            port.others += not (passed.is_astray or passed.is_unknown)
            port.gate_closed += passed.shut_ns > 0
        if passed.faults and len(self._examples) < EXAMPLES_MAX:
            self._examples.append(Example(frame, passed))
        return passed

    def verified(self) -> Verified:
        """What there is to say of all of them, once they have been added."""
        return Verified(list(self._counted()), self._ports, self._examples)

    def _counted(self) -> Iterator[PortStream]:
        leaving = {(its.due.port, its.due.is_leaving) for its in self._streams.values()}
        for due in self._planned.dues:
            # Of a capture of one direction the streams of the other are not missing.
            if (due.port, due.is_leaving) in leaving:
                self._row(due)
        for row in sorted(self._streams.values(), key=lambda its: (its.due.port, its.due.stream)):
            port = self._ports[row.due.port]
            row.count(port.begin_ns, port.end_ns)
            yield row

    def _row(self, due: Due) -> PortStream:
        key = due.stream, due.port, due.is_leaving
        return self._streams.setdefault(key, PortStream(due))

    def _passed(self, frame: Captured, header: Header) -> Passed:
        planned = self._planned
        stream, traffic_class = planned.stream_of(header), planned.class_of(header)
        due = None if stream is None else self._due(stream, frame)
        is_leaving = frame.is_leaving if due is None else due.is_leaving
        shut_ns = 0
        if is_leaving and traffic_class:
            shut_ns = planned.shut_ns(frame.port, traffic_class, frame.at_ns, frame.length)
            shut_ns = max(0, shut_ns - self._tolerance_ns)
        if due is not None:
            late_ns = due.late_ns(frame.at_ns)
            beyond_ns = max(0, abs(late_ns) - self._tolerance_ns)
            return Passed(stream, due, beyond_ns if late_ns > 0 else -beyond_ns, shut_ns)
        is_scheduled = traffic_class is not None and traffic_class.role is ClassRole.SCHEDULED
        return Passed(
            stream,
            shut_ns=shut_ns,
            is_astray=stream is not None and not planned.plan.streams[stream].is_cyclic,
            is_unknown=stream is None and is_scheduled and planned.knows_streams,
        )

    def _due(self, stream: str, frame: Captured) -> Due | None:
        directions = (True, False) if frame.is_leaving is None else (frame.is_leaving,)
        found = (self._planned.due(stream, frame.port, is_leaving=each) for each in directions)
        return next((due for due in found if due is not None), None)
