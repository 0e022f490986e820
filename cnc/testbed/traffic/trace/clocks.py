"""The clocks by which stamps of a trace were taken, against true time.

Where all nodes are namespaces of one kernel they have its clock, and that is what a trace calls
true. Where each is a kernel, talkers, listeners and gates go by clocks of their own, and cables by
true time. Instants are TAI, ns since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cnc.captures.pcapng import tai_comment
from cnc.talker.clock import NS_PER_S, tai_offset_ns
from cnc.testbed.lab.kernels.offsets import RecordedClock, TrueOffsets
from cnc.testbed.traffic.flows import AnyFlow
from cnc.testbed.traffic.frames import Delivery, Frame


class Clock(Protocol):
    """The CLOCK_TAI of a node."""

    def shown_ns(self, true_ns: int) -> int:
        """What it showed then."""

    def true_ns(self, shown_ns: int) -> int:
        """When it showed this."""


@dataclass(frozen=True, slots=True)
class ClockSpan:
    """How far the clock of a node was ahead of true time during a trace, below 0 behind."""

    node: str
    least_ns: int
    greatest_ns: int


@dataclass(frozen=True, slots=True)
class TrueTime:
    """The clocks of a lab in which each node has its own, against true time. `apart_max_ns` is the
    most that any two of them differed at one instant."""

    apart_max_ns: int
    clocks: Sequence[ClockSpan]


class Clocks(Protocol):
    """The clocks of all nodes of a lab. `comment` says of which time a capture of them is."""

    @property
    def comment(self) -> str: ...

    @property
    def tai_offset_ns(self) -> int:
        """TAI minus UTC."""

    def of(self, node: str) -> Clock: ...

    def in_true_time(self, frames: Iterable[Frame], sent: Sequence[AnyFlow]) -> Iterable[Frame]:
        """Frames whose instants are true, in their order; those of `frames` are by the clocks of
        talker and listener."""

    def true_time(self, nodes: Sequence[str]) -> TrueTime | None:
        """How far the clocks of these nodes were from it; None: they have one, which is true."""


class TrueClock:
    """A clock that shows true time."""

    def shown_ns(self, true_ns: int) -> int:
        return true_ns

    def true_ns(self, shown_ns: int) -> int:
        return shown_ns


class OneClock:
    """All nodes have the clock of this kernel; see `Clocks`."""

    @property
    def comment(self) -> str:
        return tai_comment()

    @property
    def tai_offset_ns(self) -> int:
        return tai_offset_ns()

    def of(self, node: str) -> Clock:
        del node
        return TrueClock()

    def in_true_time(self, frames: Iterable[Frame], sent: Sequence[AnyFlow]) -> Iterable[Frame]:
        del sent
        return frames

    def true_time(self, nodes: Sequence[str]) -> TrueTime | None:
        del nodes
        return None


@dataclass(frozen=True, slots=True)
class OwnClocks:
    """Each node has its own, by the record of its true offset, whose instants are TAI; see
    `Clocks`.

    A record is exact to 1 ns each 10 ms, and between records a straight line is as good as the
    frequency is constant: after a change by 1 ppm in between it is 2.5 ns off, and in the 10 ms in
    which a clock is set by as much as that.
    """

    offsets: TrueOffsets
    tai_offset_ns: int

    @property
    def comment(self) -> str:
        return (
            f"time stamps: true time (UTC); TAI is {self.tai_offset_ns // NS_PER_S} s ahead; gates "
            "go by the clock of their switch"
        )

    def of(self, node: str) -> RecordedClock:
        return self.offsets.clock(node)

    def in_true_time(self, frames: Iterable[Frame], sent: Sequence[AnyFlow]) -> Iterator[Frame]:
        flows = {flow.name: flow for flow in sent}
        clocks = {node: self.of(node) for flow in sent for node in (flow.talker, flow.listener)}
        for frame in frames:
            flow = flows[frame.flow]
            yield _in_true_time(frame, clocks[flow.talker], clocks[flow.listener])

    def true_time(self, nodes: Sequence[str]) -> TrueTime:
        ahead_ns = {node: self.offsets.series(node)[1] for node in nodes}
        spans = [ClockSpan(node, min(its), max(its)) for node, its in ahead_ns.items()]
        return TrueTime(self.offsets.furthest_apart(nodes).apart_ns, spans)


def _in_true_time(frame: Frame, talker: Clock, listener: Clock) -> Frame:
    scheduled_ns, left_ns, received_ns = frame.scheduled_ns, frame.left_ns, frame.received_ns
    acked_ns = frame.acked_ns
    return Frame(
        flow=frame.flow,
        seq=frame.seq,
        planned_ns=talker.true_ns(frame.planned_ns),
        sent_ns=talker.true_ns(frame.sent_ns),
        received_ns=None if received_ns is None else listener.true_ns(received_ns),
        scheduled_ns=None if scheduled_ns is None else talker.true_ns(scheduled_ns),
        left_ns=None if left_ns is None else talker.true_ns(left_ns),
        copies=frame.copies,
        deliveries=tuple(
            Delivery(listener.true_ns(each.received_ns), listener.true_ns(each.delivered_ns))
            for each in frame.deliveries
        ),
        acked_ns=None if acked_ns is None else talker.true_ns(acked_ns),
    )
