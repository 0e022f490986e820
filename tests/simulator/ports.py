"""Egress ports: which frame leaves when. All times are by the clock of the port's node."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc.model import (
    ClassRole,
    GateControlList,
    GateMode,
    Intent,
    Link,
    PortRef,
    TalkerInterference,
)
from tests.simulator.adversary import Adversary
from tests.simulator.control import ControlBucket
from tests.simulator.gates import Gate, Stretch, moved
from tests.simulator.octets import FrameTimes, octets_ns

_NOT_PREEMPTABLE_OCTETS = 123  # IEEE 802.3br: of so few left nothing gives way
_MILLION = 1_000_000
_SMALLEST_OCTETS = 64  # IEEE 802.3: from MAC header to FCS
_FRAMES_IN_ONE_GO = 1_000  # of one opening, before the kernel goes on with the rest later


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """Frames of one size and class on one way: for each node on it the ports they leave by.

    Their talker sends `frames` of them back to back. On the ports `numbered` they have a number and
    with it six octets more. Each of the nodes `recovers` lets only the first copy of each pass,
    with a history of so many numbers, and a pause in ns after which it takes any. If the flow
    `is_shared`, its frames leave in windows that they share with others.
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
    is_shared: bool = False

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
    """Frames of a flow that were sent together, on their way through a port, and how late the port
    itself was with them."""

    flow: Flow | None = None
    number: int = 0
    lateness_ns: int = 0

    def goes_on_with(self, frame: Frame) -> bool:
        """Whether `frame` is one of them."""
        return frame.flow is self.flow and frame.number == self.number


@dataclass(slots=True)
class Opening:
    """Of a gate for frames that share a window: from `ready_ns` on they may leave, of which
    `frames` have."""

    open_ns: int
    ready_ns: int
    frames: int = 0


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
        *,
        faster_ppm: int = 0,
    ) -> None:
        is_here = disturbance is not None and disturbance.egress == link.source
        self._disturbance = disturbance if is_here else None
        self._rate_bps = link.rate_bps
        self._faster_ppm = faster_ppm
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
        self._let_pass: Frame | None = None  # before it control has had its turn
        self._control = ControlBucket(intent, link, faster_ppm)
        self._burst = Burst()
        self._openings: dict[int, Opening] = {}  # the last one of each class
        bridge = intent.network.bridges.get(link.source.node)
        self._has_timers = bridge is not None and bridge.gate_mode is GateMode.SOFTWARE
        physical = intent.network.overhead.physical_octets
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        self._best_effort = Gate(gates, sum(1 << c.number for c in best_effort))
        sizes = [c.max_frame_octets for c in best_effort]
        self._is_preempted = link.preemption and all(c.shaper is None for c in best_effort)
        if self._is_preempted:
            sizes = [min(size, _NOT_PREEMPTABLE_OCTETS) for size in sizes]
        self._best_effort_ns = max(
            (octets_ns(size + physical, link.rate_bps, faster_ppm) for size in sizes), default=0
        )
        # Whether a frame fits is reckoned at the nominal rate.
        self._fits_ns = max(
            (octets_ns(size + physical, link.rate_bps) for size in sizes), default=0
        )
        self._smallest_ns = octets_ns(_SMALLEST_OCTETS + physical, link.rate_bps)
        self._gap_ns = octets_ns(intent.network.overhead.gap_octets, link.rate_bps)
        self._fits_only = link.fits_only
        # Before its gate closes it may start as late as any other frame.
        self._best_effort_late_ns = 0 if gates is None else self._margin_ns
        self._best_effort_at_ns: int | None = None
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
            fits = self._times.gate_ns(frame.flow.octets_on(self._port), self._rate_bps)
            stretch = self._stretch(number, frame, now_ns, fits)
            if stretch is None:
                continue
            if stretch.open_ns <= now_ns:
                if self._goes_on(now_ns) or self._is_taken(now_ns):
                    return Step(again_ns=self._free_ns)
                if step := self._start(frame, now_ns, stretch.close_ns - fits):
                    return step
                stretch = self._gates[number].stretch(stretch.close_ns, fits)
            if stretch:
                again.append(max(stretch.open_ns, now_ns + 1))
        return Step(again_ns=min(again, default=None))

    def _stretch(self, number: int, frame: Frame, now_ns: int, fits_ns: int) -> Stretch | None:
        """In which the frame may start. One that shares a window waits for the timer that opens it:
        a gate that is open delays nobody, but for what the kernel sends in another go."""
        stretch = self._gates[number].stretch(now_ns, fits_ns)
        if stretch is None or stretch.open_ns > now_ns or not frame.flow.is_shared:
            return stretch
        opening = self._openings.get(number)
        if opening is None or opening.open_ns != stretch.open_ns:
            ready = stretch.open_ns + self._adversary.lateness_ns(self._margin_ns)
            opening = self._openings[number] = Opening(stretch.open_ns, ready)
        return Stretch(opening.ready_ns, stretch.close_ns)

    def _is_taken(self, now_ns: int) -> bool:
        """Whether a best-effort frame is on the link: it started at the last moment at which it
        could, while nobody else wanted the link; where it must end before its gate closes, it is
        the longest that does. Before its gate closes it may start as late as any other frame."""
        if not self._has_best_effort:
            return False
        opened = self._best_effort.last_open_ns(now_ns)
        if opened is None:
            return False
        lasts = self._best_effort_ns
        if self._fits_only:
            stretch = self._best_effort.stretch(opened - 1)
            if stretch is None:
                return False
            # The gap is behind the frame: it may follow after the gate has closed.
            end = stretch.close_ns + self._gap_ns
            # The longer it is, the more control waits behind it.
            opened = min(opened, max(end - self._fits_ns, stretch.open_ns, self._free_ns + 1))
            fits = min(self._fits_ns, end - opened)
            if fits < self._smallest_ns:
                return False
            lasts = -(-fits * _MILLION // (_MILLION + self._faster_ppm))
        if opened <= self._free_ns or opened == self._best_effort_at_ns:
            return False
        self._best_effort_at_ns = opened
        start = opened + self._best_effort_late_ns
        end = start + lasts
        self._control.hold(start, end)
        self._free_ns = max(self._free_ns, end)
        return end > now_ns

    def _goes_on(self, now_ns: int) -> bool:
        """Whether a frame that gave way has just gone on, whatever its gate: it does whenever the
        link is idle."""
        if not self._is_preempted or not self._has_best_effort or now_ns <= self._free_ns:
            return False
        self._control.hold(now_ns, now_ns + self._best_effort_ns)
        self._free_ns = now_ns + self._best_effort_ns
        return True

    def _start(self, frame: Frame, now_ns: int, last_start_ns: int) -> Step | None:
        """Let the frame go, or first control frames; None if it does not fit.

        Of frames that were sent together the first may be late by the gate margin, or later ones by
        what is left of it: control is not kept back meanwhile. Those that share a window were late
        when it opened.
        """
        if not self._burst.goes_on_with(frame):
            self._burst = Burst(frame.flow, frame.number)
        burst = self._burst
        if self._let_pass is not frame:
            self._let_pass = frame
            if control := self._adversary.control_ns(self._control.ahead_ns(now_ns)):
                self._control.send(now_ns, control)
                self._free_ns = now_ns + control
                return Step(again_ns=self._free_ns)
        lateness = 0
        if not frame.flow.is_shared:
            lateness = self._adversary.lateness_ns(self._margin_ns - burst.lateness_ns)
            burst.lateness_ns += lateness
        start = now_ns + lateness
        if start > last_start_ns:
            self._let_pass = None
            return None
        self._queues[frame.flow.traffic_class].popleft()
        octets = frame.flow.octets_on(self._port)
        self._free_ns = start + self._times.link_ns(octets, self._rate_bps, self._faster_ppm)
        self._control.hold(start, self._free_ns)
        if frame.flow.is_shared:
            self._count(self._openings[frame.flow.traffic_class])
        return Step([Start(frame, start)], self._free_ns)

    def _count(self, opening: Opening) -> None:
        """One frame has left; those of the next go wait for another timer."""
        opening.frames += 1
        if self._has_timers and opening.frames % _FRAMES_IN_ONE_GO == 0:
            opening.ready_ns = self._free_ns + self._adversary.lateness_ns(self._margin_ns)
