"""Egress ports: which frame leaves when. All times are by the clock of the port's node."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc.model import ClassRole, GateControlList, Intent, Link, PortRef, TalkerInterference
from tests.simulator.adversary import Adversary
from tests.simulator.gates import Gate, moved
from tests.simulator.octets import FrameTimes, octets_ns

_WHOLE = 10**8  # parts of a link
_NOT_PREEMPTABLE_OCTETS = 123  # IEEE 802.3br: of so few left nothing gives way
_SMALLEST_OCTETS = 64  # IEEE 802.3: from MAC header to FCS


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """Frames of one size and class on one way: for each node on it the ports they leave by.

    Their talker sends `frames` of them back to back. On the ports `numbered` they have a number and
    with it six octets more. Each of the nodes `recovers` lets only the first copy of each pass,
    with a history of so many numbers, and a pause in ns after which it takes any.
    """

    name: str
    talker: str
    traffic_class: int
    payload_octets: int
    ports: Mapping[str, tuple[Link, ...]]
    listeners: frozenset[str]
    frames: int = 1
    numbered: frozenset[PortRef] = frozenset()
    recovers: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def octets_on(self, port: PortRef) -> int:
        """The payload of a frame that leaves by a port, with its number."""
        return self.payload_octets + 6 * (port in self.numbered)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A frame of a flow, of those that its talker sends as `number`; its latency counts from
    `begin_ns` by the talker's clock. Of several in a period it is the one at `place`."""

    flow: Flow
    number: int
    begin_ns: int
    place: int = 0


@dataclass(slots=True)
class Burst:
    """Frames of a flow that were sent together, on their way through a port: what control may send
    before them, as of a time (a token bucket), and how late the port itself was with them."""

    flow: Flow | None = None
    number: int = 0
    tokens_ns: int = 0
    as_of_ns: int = 0
    lateness_ns: int = 0

    def goes_on_with(self, frame: Frame) -> bool:
        """Whether `frame` is one of them."""
        return frame.flow is self.flow and frame.number == self.number


class Disturbance(NamedTuple):
    """A port sends nothing planned from a time on, by its own clock, for so long."""

    egress: PortRef
    begin_ns: int
    lasts_ns: int

    @property
    def end_ns(self) -> int:
        return self.begin_ns + self.lasts_ns


class LateFrame(NamedTuple):
    """A talker sends one of a stream's frames so much later than planned."""

    stream: str
    number: int
    by_ns: int


class Start(NamedTuple):
    """A frame begins to leave."""

    frame: Frame
    at_ns: int


@dataclass(slots=True)
class Step:
    """What a port does at one moment, and when to ask it again."""

    starts: list[Start] = field(default_factory=list)
    again_ns: int | None = None


class Port:
    """By the standard: one frame at a time; of the frames that are first in their queue, those
    whose gate stays open until they end may start, and of these the one of the highest class."""

    def __init__(
        self,
        intent: Intent,
        link: Link,
        gates: GateControlList | None,
        adversary: Adversary,
        disturbance: Disturbance | None = None,
    ) -> None:
        is_here = disturbance is not None and disturbance.egress == link.source
        self._disturbance = disturbance if is_here else None
        self._rate_bps = link.rate_bps
        self._port = link.source
        self._times = FrameTimes.of(intent.network.overhead)
        self._margin_ns = intent.network.gate_margin_ns
        self._adversary = adversary
        if gates is not None and link.gate_early_ns:
            gates = moved(gates, lambda: adversary.early_ns(link.gate_early_ns))
        self._gates = {c.number: Gate(gates, 1 << c.number) for c in intent.classes.values()}
        self._queues: dict[int, deque[Frame]] = {
            number: deque() for number in sorted(self._gates, reverse=True)
        }
        self._free_ns = -(1 << 62)
        self._let_pass: Frame | None = None  # before it a control frame has had its turn
        self._control_end_ns: int | None = None
        self._control_sent_ns = 0
        physical = intent.network.overhead.physical_octets
        self._control_ns = max(
            (
                octets_ns(c.max_frame_octets + physical, link.rate_bps)
                for c in intent.classes_with(ClassRole.CONTROL)
            ),
            default=0,
        )
        # What control sends on average; a tenth of the link unless stated.
        self._control_share = sum(
            _WHOLE // 10 if c.rate_bps is None else c.rate_bps * _WHOLE // link.rate_bps
            for c in intent.classes_with(ClassRole.CONTROL)
        )
        self._burst = Burst()
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        self._best_effort = Gate(gates, sum(1 << c.number for c in best_effort))
        sizes = [c.max_frame_octets for c in best_effort]
        if link.preemption:
            sizes = [min(size, _NOT_PREEMPTABLE_OCTETS) for size in sizes]
        self._best_effort_ns = max(
            (octets_ns(size + physical, link.rate_bps) for size in sizes), default=0
        )
        self._smallest_ns = octets_ns(_SMALLEST_OCTETS + physical, link.rate_bps)
        self._gap_ns = octets_ns(intent.network.overhead.gap_octets, link.rate_bps)
        self._fits_only = link.fits_only
        self._gated_margin_ns = 0 if gates is None else self._margin_ns
        talker = intent.network.end_stations.get(link.source.node)
        if talker is not None and talker.lateness_ns is not None:
            self._margin_ns = talker.lateness_ns
        has_some = (
            talker is None
            or talker.gate_mode is not None
            or talker.interference is TalkerInterference.ONE_FRAME
        )
        self._has_best_effort = has_some and adversary.sends_best_effort()

    def enqueue(self, frame: Frame) -> None:
        self._queues[frame.flow.traffic_class].append(frame)

    def waiting(self) -> list[Frame]:
        """The frames in the queues."""
        return [frame for queue in self._queues.values() for frame in queue]

    def step(self, now_ns: int) -> Step:
        disturbance = self._disturbance
        if disturbance and disturbance.begin_ns <= now_ns < disturbance.end_ns:
            self._free_ns = max(self._free_ns, disturbance.end_ns)
        if now_ns < self._free_ns:
            return Step(again_ns=self._free_ns)
        again = []
        for number, queue in self._queues.items():
            if not queue:
                continue
            frame = queue[0]
            takes = self._times.link_ns(frame.flow.octets_on(self._port), self._rate_bps)
            stretch = self._gates[number].stretch(now_ns, takes)
            if stretch is None:
                continue
            if stretch.open_ns <= now_ns:
                if self._is_taken(now_ns):
                    return Step(again_ns=self._free_ns)
                if step := self._start(frame, now_ns, takes, stretch.close_ns):
                    return step
                stretch = self._gates[number].stretch(stretch.close_ns, takes)
            if stretch:
                again.append(max(stretch.open_ns, now_ns + 1))
        return Step(again_ns=min(again, default=None))

    def _is_taken(self, now_ns: int) -> bool:
        """Whether a best-effort frame is on the link: it started at the last moment at which it
        could, while nobody else wanted the link; where it must end before its gate closes, it is
        as long as that. Before its gate closes it may start as late as any other frame."""
        if not self._has_best_effort:
            return False
        started = self._best_effort.last_open_ns(now_ns)
        if started is None:
            return False
        longest = self._best_effort_ns
        if self._fits_only:
            stretch = self._best_effort.stretch(started - 1)
            if stretch is None:
                return False
            # The gap is behind the frame: it may follow after the gate has closed.
            latest = stretch.close_ns + self._gap_ns - self._smallest_ns
            started = max(min(started, latest), stretch.open_ns)
            longest = min(longest, stretch.close_ns + self._gap_ns - started)
            if longest < self._smallest_ns:
                return False
        longest += self._gated_margin_ns
        if not self._free_ns < started > now_ns - longest:
            return False
        self._free_ns = started + longest
        return True

    def _start(self, frame: Frame, now_ns: int, takes_ns: int, closes_ns: int) -> Step | None:
        """Let the frame go, or first a control frame; None if it does not fit.

        No two control frames follow each other: one that held up a frame of another queue, which
        then no longer fitted, has been ahead of this one, too. Of frames that were sent together
        the first may be late by the gate margin, or later ones by what is left of it; and between
        them there is no more control than its rate gives it.
        """
        if not self._burst.goes_on_with(frame):
            spent = self._control_sent_ns if now_ns == self._control_end_ns else 0
            self._burst = Burst(frame.flow, frame.number, self._control_ns - spent, now_ns)
        burst = self._burst
        earned = (now_ns - burst.as_of_ns) * self._control_share // _WHOLE
        burst.tokens_ns = min(self._control_ns, burst.tokens_ns + earned)
        burst.as_of_ns = now_ns
        if self._let_pass is not frame:
            self._let_pass = frame
            if now_ns != self._control_end_ns and (
                control := self._adversary.control_ns(burst.tokens_ns)
            ):
                burst.tokens_ns -= control
                self._control_sent_ns = control
                self._free_ns = self._control_end_ns = now_ns + control
                return Step(again_ns=self._free_ns)
        lateness = self._adversary.lateness_ns(self._margin_ns - burst.lateness_ns)
        burst.lateness_ns += lateness
        start = now_ns + lateness
        if start + takes_ns > closes_ns:
            self._let_pass = None
            return None
        self._queues[frame.flow.traffic_class].popleft()
        self._free_ns = start + takes_ns
        return Step([Start(frame, start)], self._free_ns)
