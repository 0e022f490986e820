"""Plans by hand whose frames share windows, by sums that share no code with planner and judge.

Time goes by in slots. In each slot every port on the way of a class opens once for it, and a frame
that its talker sends in a slot leaves every port in the window of that slot, or of the next one
after a *cut*: from there on it is one slot later. Windows of successive ports overlap: each opens
when the first frame may be there.

A window ends when the last frame that is meant for it has left for sure. Take a moment at which the
link is free of such frames: the gate opens then, by a timer as late as it may be, or a frame comes,
as late as it may. From then on there are control and the frames that may come since then, of this
slot or early for the next. Of those that come in by one link there are, after that moment, no more
than that link carries, and one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from cnc.model import (
    ClassRole,
    GateControlList,
    GateEntry,
    GateMode,
    Hop,
    Intent,
    Link,
    Plan,
    PortRef,
    Stream,
    StreamPlan,
    TalkerInterference,
)
from tests.simulator.octets import octets_ns

_SLOWEST_PPM, _FASTEST_PPM = -100, 100
_FRAMES_IN_ONE_GO = 1_000  # that the kernel sends of one opening; the rest has another timer
_GRID_BITS = 500  # gates move at multiples of the time that a link takes for so many
_ROUNDING_NS = 4  # a window is longer by this: of each frame and link the time is rounded up


class DoesNotFitError(Exception):
    """The windows of a port take longer than a slot."""


@dataclass(frozen=True)
class Timetable:
    """What is chosen by hand. `ways` are the ports that each stream leaves by, parents first.

    `starts_ns` is when talkers begin to send after the start of a slot; by default those of one
    class together, and the classes one after the other. `phases` are the slots of their periods in
    which streams are sent, by default the first. `cuts` are passages from one port to the next
    after which frames belong to the next slot. `later_ns` is how much later than by default the
    window of a class at a port opens. `spare_ns` is for how long gates stay open behind their
    windows, beside best effort, while no frame of the next slot may be there: on ports that have
    windows of one class.
    `exact` is a plan of other streams, at other times.
    """

    slot_ns: int
    ways: Mapping[str, tuple[PortRef, ...]]
    starts_ns: Mapping[str, int] = field(default_factory=dict)
    phases: Mapping[str, int] = field(default_factory=dict)
    cuts: Collection[tuple[PortRef, PortRef]] = ()
    later_ns: Mapping[tuple[PortRef, int], int] = field(default_factory=dict)
    spare_ns: int = 0
    exact: Plan | None = None


class Window(NamedTuple):
    """From `opens_ns` after the start of each slot on; all have left `lasts_ns` later."""

    opens_ns: int
    lasts_ns: int

    @property
    def ends_ns(self) -> int:
        return self.opens_ns + self.lasts_ns


class Coming(NamedTuple):
    """The frames of a period of a stream: from `earliest_ns` on they come to a queue, by
    `latest_ns` all are there, in the slot of their number `phase` of each `slots`. The link keeps
    them for `work_ns`, one of them for `frame_ns`, and the link before for `before_ns` at least."""

    stream: str
    ingress: PortRef | None
    earliest_ns: int
    latest_ns: int
    phase: int
    slots: int
    work_ns: int
    frame_ns: int
    before_ns: int

    def is_in(self, slot: int) -> bool:
        """Whether they leave in a slot."""
        return (self.phase - slot) % self.slots == 0

    def later(self, by_ns: int) -> Coming:
        return self._replace(earliest_ns=self.earliest_ns + by_ns, latest_ns=self.latest_ns + by_ns)


def plan_by_hand(intent: Intent, timetable: Timetable) -> Plan:
    """The plan of a timetable.

    Raises:
        DoesNotFitError: a port has no room for its windows.
    """
    return _ByHand(intent, timetable).plan()


def control_ns(intent: Intent, link: Link, meanwhile_ns: int) -> int:
    """How long control keeps a link from the last of several frames, if those before it need it for
    `meanwhile_ns`: the burst, and its rate while the longest other frame is sent, which may be
    under way, in that time, and while control itself is."""
    physical = intent.network.overhead.physical_octets
    control = intent.classes_with(ClassRole.CONTROL)
    octets = sum((c.burst_frames or 4) * (c.max_frame_octets + physical) for c in control)
    rate = sum(link.rate_bps // 10 if c.rate_bps is None else c.rate_bps for c in control)
    others = (c for c in intent.classes.values() if c.role is not ClassRole.CONTROL)
    longest = max((c.max_frame_octets for c in others), default=0) + physical
    behind_ns = octets_ns(longest, link.rate_bps, _SLOWEST_PPM) + meanwhile_ns
    burst_ns = octets_ns(octets, link.rate_bps, _SLOWEST_PPM)
    whole = link.rate_bps * (1_000_000 + _SLOWEST_PPM)
    part = rate * 1_000_000
    return -(-(burst_ns * whole + behind_ns * part) // (whole - part))


def left_ns(
    intent: Intent,
    link: Link,
    coming: Collection[Coming],
    latest_ns: int,
    *,
    opens_ns: int | None = None,
    late_ns: int = 0,
    ahead_ns: int = 0,
) -> int:
    """When all that may be there by `latest_ns` has left: of a gate that opens at `opens_ns`, up to
    `late_ns` later, or of a port without gates; `ahead_ns` is what else is sent before them."""
    coming = [each for each in coming if each.earliest_ns <= latest_ns]
    shortest_ns = min(each.frame_ns for each in coming)

    again_ns = 0
    if intent.network.gate_mode(link.source.node) is GateMode.SOFTWARE:
        frames = sum(each.work_ns // each.frame_ns for each in coming)
        again_ns = (frames - 1) // _FRAMES_IN_ONE_GO * intent.network.gate_margin_ns

    def after(since_ns: int, work_ns: int) -> int:
        control = control_ns(intent, link, again_ns + work_ns - shortest_ns)
        return since_ns + ahead_ns + control + again_ns + work_ns

    groups: defaultdict[tuple[PortRef | None, int], list[Coming]] = defaultdict(list)
    for each in coming:
        groups[each.ingress, each.latest_ns].append(each)
    moments = {since for its in groups.values() for since in _bends(its)}
    from_ns = -(1 << 62)
    left = from_ns
    if opens_ns is not None:
        from_ns = opens_ns + late_ns
        left = after(from_ns, sum(each.work_ns for each in coming))
    for since in moments:
        if from_ns < since <= latest_ns:
            left = max(left, after(since, sum(_comes(its, since) for its in groups.values())))
    return left + _ROUNDING_NS


def _bends(group: list[Coming]) -> Iterable[int]:
    """When a group's work stops to be all of it, and when it is nothing."""
    latest = group[0].latest_ns
    yield latest
    if group[0].before_ns:
        work = sum(each.work_ns for each in group)
        longest = max(each.frame_ns for each in group)
        bend = latest - min((work - longest) * each.before_ns // each.frame_ns for each in group)
        yield from (bend - 1, bend, bend + 1)


def _comes(group: list[Coming], since_ns: int) -> int:
    """The work of a group that may come from a moment on."""
    within = group[0].latest_ns - since_ns
    if within < 0:
        return 0
    work = sum(each.work_ns for each in group)
    if not group[0].before_ns:
        return work
    carried = max(-(-within * each.frame_ns // each.before_ns) for each in group)
    return min(work, carried + max(each.frame_ns for each in group))


class _ByHand:
    def __init__(self, intent: Intent, timetable: Timetable) -> None:
        self._intent = intent
        self._network = intent.network
        self._by = timetable
        self._streams = [intent.streams[name] for name in timetable.ways]
        self._class = {
            each.name: intent.classes[each.traffic_classes[0]].number for each in self._streams
        }
        self._control = self._mask(ClassRole.CONTROL)
        self._best_effort = self._mask(ClassRole.BEST_EFFORT)
        # By stream and port: the port before, the slot of its period, when frames come and leave.
        self._parent: dict[tuple[str, PortRef], PortRef | None] = {}
        self._phase: dict[tuple[str, PortRef], int] = {}
        self._coming: dict[tuple[str, PortRef], Coming] = {}
        self._window: dict[tuple[str, PortRef], Window] = {}
        self._through_cuts: dict[tuple[str, PortRef], int] = {}  # since when frames may come so
        self._open: dict[PortRef, list[tuple[int, Window]]] = defaultdict(list)  # with the class
        for name, ports in timetable.ways.items():
            to = {self._network.links[port].target.node: port for port in ports}
            for port in ports:
                before = to.get(port.node)
                self._parent[name, port] = before
                phase = timetable.phases.get(name, 0)
                if before is not None:
                    phase = self._phase[name, before] + self._is_cut(name, port)
                self._phase[name, port] = phase

    def plan(self) -> Plan:
        self._reckon()
        while self._cuts_come_earlier():
            self._reckon()
        exact = self._by.exact
        streams = dict(exact.streams) if exact else {}
        lists = dict(exact.gates) if exact else {}
        streams |= {each.name: self._planned(each) for each in self._streams}
        lists |= {port: self._list(port, lists.get(port)) for port in self._open}
        return Plan(self._intent, streams, lists, "hand")

    def _reckon(self) -> None:
        """All windows, class after class."""
        self._window.clear()
        self._open.clear()
        for number in sorted(set(self._class.values()), reverse=True):
            for port in sorted({ports[0] for ports in self._by.ways.values()}):
                self._send(port, number)
            for port in self._in_order(number):
                self._open_window(port, number)

    def _mask(self, role: ClassRole) -> int:
        return sum(1 << c.number for c in self._intent.classes_with(role))

    def _of_class(self, number: int, port: PortRef) -> list[Stream]:
        return [
            each
            for each in self._streams
            if self._class[each.name] == number and (each.name, port) in self._parent
        ]

    def _is_cut(self, name: str, port: PortRef) -> bool:
        return (self._parent[name, port], port) in self._by.cuts

    def _send(self, port: PortRef, number: int) -> None:
        """The windows in which a talker sends its streams of a class."""
        link = self._network.links[port]
        late = self._network.lateness_ns(port.node)
        ahead = 0
        if self._network.end_stations[port.node].interference is TalkerInterference.ONE_FRAME:
            ahead = self._best_effort_ns(link)
        free = max((its.ends_ns for (_, at), its in self._window.items() if at == port), default=0)
        for each in self._of_class(number, port):
            start = self._by.starts_ns.get(each.name, free)
            self._coming[each.name, port] = self._comes(each, port, (start, start + late))
        coming = [self._coming[each.name, port] for each in self._of_class(number, port)]
        for its in coming:
            left = max(
                left_ns(
                    self._intent,
                    link,
                    together,
                    its.latest_ns,
                    ahead_ns=ahead,
                )
                for slot in _slots(coming)
                if its in (together := [each for each in coming if each.is_in(slot)])
            )
            self._window[its.stream, port] = Window(its.earliest_ns, left - its.earliest_ns)
        windows = [window for (_, at), window in self._window.items() if at == port]
        first = min((each.opens_ns for each in windows), default=0)
        if any(each.ends_ns - first > self._by.slot_ns for each in windows):
            raise DoesNotFitError(f"{port} sends for longer than a slot")

    def _open_window(self, port: PortRef, number: int) -> None:
        """The window of a class on a port of a switch."""
        streams = self._of_class(number, port)
        coming = [
            self._arrival(each, port) for each in streams if not self._is_cut(each.name, port)
        ]
        opens = max(
            min((its.earliest_ns for its in coming), default=0),
            0,
            *(self._closes_ns(port, its) for _, its in self._open[port]),
        )
        opens = self._on_grid_ns(port, opens + self._by.later_ns.get((port, number), 0))
        # What comes through a cut is there before the window opens.
        coming += [
            self._comes(each, port, (self._through_cuts.get((each.name, port), opens), opens))
            for each in streams
            if self._is_cut(each.name, port)
        ]
        self._coming |= {(its.stream, port): its for its in coming}
        window = Window(opens, 0)
        while (ends := self._left_by_ns(port, coming, window)) > window.ends_ns:
            window = Window(opens, ends - opens)
            if window.lasts_ns > self._by.slot_ns:
                raise DoesNotFitError(f"{port} is open for {window.lasts_ns} ns")
        self._open[port].append((number, window))
        self._window |= {(its.stream, port): window for its in coming}

    def _left_by_ns(self, port: PortRef, coming: list[Coming], window: Window) -> int:
        """When the frames that are meant for a window have left, whatever the slot, if as many come
        early as may before it ends."""
        link, slot_ns = self._network.links[port], self._by.slot_ns
        closes = self._closes_ns(port, window)
        most = -(-(closes - min(its.earliest_ns for its in coming)) // slot_ns)
        found = 0
        for slot in _slots(coming):
            meant = [its for its in coming if its.is_in(slot)]
            early = [
                its.later(slots * slot_ns)
                for slots in range(1, most)
                for its in coming
                if its.is_in(slot + slots) and its.earliest_ns + slots * slot_ns < closes
            ]
            if meant:
                left = left_ns(
                    self._intent,
                    link,
                    meant + early,
                    max(its.latest_ns for its in meant),
                    opens_ns=window.opens_ns,
                    late_ns=self._network.gate_margin_ns + self._outlasts_ns(link),
                )
                found = max(found, left)
        return found

    def _arrival(self, stream: Stream, port: PortRef) -> Coming:
        """When frames come to a port of a switch, from the start of the slot in which they leave
        it."""
        before = self._parent[stream.name, port]
        if before is None:
            raise ValueError(f"{stream.name} starts at {port}")
        link, bridge = self._network.links[before], self._network.bridges[port.node]
        window, came = self._window[stream.name, before], self._coming[stream.name, before]
        octets = self._octets(stream) - self._network.overhead.gap_octets
        flight = _fastest_ns(octets, link) + link.propagation_ns
        clocks = self._network.clock_error_ns
        cut = self._by.slot_ns * self._is_cut(stream.name, port)
        leaves = came.earliest_ns
        if before.node in self._network.bridges:
            leaves = self._leaves_ns(window, link, came.earliest_ns)
        earliest = leaves + flight + bridge.processing_min_ns - clocks
        latest = self._received_ns(link, window.ends_ns) + bridge.processing_max_ns + clocks
        return self._comes(stream, port, (earliest - cut, latest - cut))

    def _leaves_ns(self, window: Window, link: Link, earliest_ns: int) -> int:
        """When frames may leave a port whose gate opens in each slot, that of an earlier one
        included."""
        opens, closes = window.opens_ns - link.gate_early_ns, self._closes_ns(link.source, window)
        slots = max(0, -(-(closes - earliest_ns) // self._by.slot_ns) - 1)
        return max(opens - slots * self._by.slot_ns, earliest_ns)

    def _closes_ns(self, port: PortRef, window: Window) -> int:
        """When the gate closes after a window, which may be early."""
        return self._on_grid_ns(port, window.ends_ns + self._network.links[port].gate_early_ns)

    def _on_grid_ns(self, port: PortRef, time_ns: int) -> int:
        """The next multiple of the shortest interval for which gates stay as they are."""
        grid = _GRID_BITS * 10**9 // self._network.links[port].rate_bps
        return -(-time_ns // grid) * grid

    def _comes(self, stream: Stream, port: PortRef, when: tuple[int, int]) -> Coming:
        octets, links = self._octets(stream), self._network.links
        frame = octets_ns(octets, links[port].rate_bps, _SLOWEST_PPM)
        before = self._parent[stream.name, port]
        return Coming(
            stream.name,
            before,
            *when,
            phase=self._phase[stream.name, port],
            slots=stream.period_ns // self._by.slot_ns,
            work_ns=stream.frames * frame,
            frame_ns=frame,
            before_ns=_fastest_ns(octets, links[before]) if before else 0,
        )

    def _octets(self, stream: Stream) -> int:
        overhead = self._network.overhead
        payload = max(stream.payload_octets, overhead.min_payload_octets)
        return payload + overhead.link_layer_octets + overhead.physical_octets

    def _received_ns(self, link: Link, left_by_ns: int) -> int:
        """The last bit of what has left with its gap by a time."""
        gap = _fastest_ns(self._network.overhead.gap_octets, link)
        return left_by_ns - gap + link.propagation_ns

    def _outlasts_ns(self, link: Link) -> int:
        """How much longer a frame of another class lasts than the gate reckons that lets it go."""
        scheduled = self._intent.classes_with(ClassRole.SCHEDULED)
        octets = [c.max_frame_octets + self._network.overhead.physical_octets for c in scheduled]
        if len(octets) == 1:
            return 0
        slowest = octets_ns(max(octets), link.rate_bps, _SLOWEST_PPM)
        return slowest - max(octets) * 8 * 10**9 // link.rate_bps

    def _best_effort_ns(self, link: Link) -> int:
        classes = self._intent.classes_with(ClassRole.BEST_EFFORT)
        physical = self._network.overhead.physical_octets
        sizes = (c.max_frame_octets + physical for c in classes)
        return octets_ns(max(sizes, default=0), link.rate_bps, _SLOWEST_PPM)

    def _guard_ns(self, link: Link) -> int:
        """How long after its gate closes best effort may be on the link: a frame that has just
        started, or the rest of one that fitted at the nominal rate, and its gap."""
        longest = self._best_effort_ns(link)
        if link.fits_only:
            gap = octets_ns(self._network.overhead.gap_octets, link.rate_bps, _SLOWEST_PPM)
            longest = gap + longest * -_SLOWEST_PPM // 10**6 + 1
        return longest + self._network.gate_margin_ns

    def _in_order(self, number: int) -> list[PortRef]:
        """The ports of switches, each after those before it but for cuts."""
        before: dict[PortRef, set[PortRef]] = {}
        for (name, port), parent in self._parent.items():
            if self._class[name] == number and parent is not None:
                its = before.setdefault(port, set())
                if parent.node in self._network.bridges and not self._is_cut(name, port):
                    its.add(parent)
        order: list[PortRef] = []
        while len(order) < len(before):
            ready = [p for p in sorted(before) if p not in order and before[p] <= set(order)]
            if not ready:
                raise ValueError("ports feed each other in a ring without a cut")
            order += ready
        return order

    def _cuts_come_earlier(self) -> bool:
        """Whether frames that pass a cut may come earlier than has been assumed, and how early."""
        found = False
        for (name, port), assumed in self._coming.items():
            if self._is_cut(name, port):
                its = self._arrival(self._intent.streams[name], port)
                if its.latest_ns > assumed.latest_ns:
                    raise DoesNotFitError(f"frames of {name} miss the next slot at {port}")
                if its.earliest_ns < assumed.earliest_ns:
                    self._through_cuts[name, port] = its.earliest_ns
                    found = True
        return found

    def _planned(self, stream: Stream) -> StreamPlan:
        number, slot = self._class[stream.name], self._by.slot_ns
        hops, ends = [], []
        for port in self._by.ways[stream.name]:
            window = self._window[stream.name, port]
            later = self._phase[stream.name, port] * slot
            hops.append(Hop(port, window.opens_ns + later, number, window.lasts_ns))
            link = self._network.links[port]
            if link.target.node in stream.listeners:
                ends.append(self._received_ns(link, window.ends_ns + later))
        bound = max(ends) + self._network.clock_error_ns - hops[0].offset_ns
        return StreamPlan((tuple(hops),), bound)

    def _list(self, port: PortRef, exact: GateControlList | None) -> GateControlList:
        """The windows of a port, before each of which best effort is shut for its guard time, in
        what its list is without them."""
        link, slot = self._network.links[port], self._by.slot_ns
        rest = exact or GateControlList(slot, (GateEntry(self._control | self._best_effort, slot),))
        cycle = lcm(slot, rest.cycle_ns)
        guard = self._on_grid_ns(port, self._guard_ns(link))
        windows = self._gates_open(port)
        spare = self._spare_ns(port) if len(windows) == 1 else 0
        begins: list[int] = [0]
        for entry in rest.entries * (cycle // rest.cycle_ns):
            begins.append(begins[-1] + entry.interval_ns)
        edges = {
            (turn + at) % cycle
            for turn in range(0, cycle, slot)
            for opens, lasts, _ in windows
            for at in (opens - guard, opens, opens + lasts, opens + lasts + spare)
        }
        entries: list[GateEntry] = []
        for start, end in pairwise(sorted({*edges, *begins})):
            state = rest.entries[(bisect_right(begins, start) - 1) % len(rest.entries)].gate_states
            if any((start - opens + guard) % slot < guard + lasts for opens, lasts, _ in windows):
                state &= ~self._best_effort
            here = [number for opens, lasts, number in windows if (start - opens) % slot < lasts]
            if not here and spare and state & self._best_effort:
                opens, lasts, number = windows[0]
                if (start - opens) % slot < lasts + spare:
                    state |= 1 << number
            if here and state != self._control:
                raise DoesNotFitError(f"exact frames are in the way at {port}")
            state |= sum(1 << number for number in here)
            before = 0
            if entries and entries[-1].gate_states == state:
                before = entries.pop().interval_ns
            entries.append(GateEntry(state, before + end - start))
        turn = self._best_effort_ns(link) + link.gate_early_ns
        turn += self._network.gate_margin_ns * link.fits_only
        if all(its.interval_ns < turn for its in entries if its.gate_states & self._best_effort):
            raise DoesNotFitError(f"{port} has no room for best effort")
        return GateControlList(cycle, tuple(entries))

    def _spare_ns(self, port: PortRef) -> int:
        """How long the gate stays open behind each window of a port: less, if the first frame of
        the next slot may come sooner."""
        ((number, window),) = self._open[port]
        earliest = min(
            self._coming[each.name, port].earliest_ns for each in self._of_class(number, port)
        )
        grid = self._on_grid_ns(port, 1)
        until = (earliest + self._by.slot_ns) // grid * grid
        return max(0, min(self._by.spare_ns, until - self._closes_ns(port, window)) // grid * grid)

    def _gates_open(self, port: PortRef) -> list[tuple[int, int, int]]:
        """When gates open in a slot, for how long, and of which class; no two at once."""
        slot = self._by.slot_ns
        windows = sorted(
            (its.opens_ns % slot, self._closes_ns(port, its) - its.opens_ns, number)
            for number, its in self._open[port]
        )
        for one, other in pairwise([*windows, (windows[0][0] + slot, *windows[0][1:])]):
            if one[0] + one[1] > other[0]:
                raise DoesNotFitError(f"windows of {port} overlap")
        return windows


def _slots(coming: Iterable[Coming]) -> range:
    """The slots until all repeats."""
    return range(lcm(*(its.slots for its in coming)))


def _fastest_ns(octets: int, link: Link) -> int:
    """Time of octets on the fastest link of a nominal rate."""
    return octets * 8 * 10**15 // (link.rate_bps * (10**6 + _FASTEST_PPM))
