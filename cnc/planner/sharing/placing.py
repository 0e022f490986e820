"""Slots for streams, such that windows hold their frames and these come in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import lcm

from cnc.mechanisms import terms
from cnc.mechanisms.terms import longest_frame_ns
from cnc.model import ClassRole, Hop, Stream, StreamPlan
from cnc.planner.floor import us
from cnc.planner.gates import Window, gated_links
from cnc.planner.problem import Problem
from cnc.planner.route import Member
from cnc.planner.sharing.busy import Crossing
from cnc.planner.sharing.queue import Coming, Queue
from cnc.planner.sharing.spare import Lateness
from cnc.planner.sharing.taken import Taken
from cnc.planner.sharing.times import Times
from cnc.planner.sharing.ways import Step, Style, Ways
from cnc.planner.sharing.windows import Windows

_REPAIRS_MAX = 8
_REPAIRED_PART = 8  # of the links, of which windows may be too long for a repair
_FULL = 1 << 10  # parts of what a window can hold
_FILLINGS_MAX = 7
_WHOLE_PPB = 10**9


@dataclass(slots=True)
class _Layout:
    """In which slot each stream begins, and the windows for that; streams that are `late` in them
    have no place."""

    slots: dict[str, int]
    windows: Windows
    queues: dict[int, Queue]
    talkers: Collection[int]
    works_ns: dict[int, int]
    late: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.slots) - len(self.late)

    def work_ns(self, link: int) -> int:
        """For how long frames of the fullest slot take a link."""
        return self.works_ns.get(link, 0)


class Sharing:
    """Some streams of a problem in windows of one class."""

    def __init__(
        self,
        problem: Problem,
        names: Collection[str],
        traffic_class: int,
        style: Style,
        taken: Taken,
        *,
        is_roomy: bool,
    ) -> None:
        """Where it is roomy, late frames leave behind each window before the next one."""
        self.traffic_class = traffic_class
        self._problem = problem
        self._streams = {name: problem.intent.streams[name] for name in names}
        self._taken = taken
        self._times = Times(problem)
        self.slot_ns = problem.slot_ns(names, taken.periods_ns)
        periods = {stream.period_ns for stream in self._streams.values()}
        self._count = lcm(*periods) // self.slot_ns
        self._is_roomy = is_roomy
        self._ways = Ways(problem, names, self.slot_ns, self._times, style)
        self._holds: dict[int, int] = {}
        self._full, self._less = _FULL, dict[int, int]()
        self._layout = self._lay_out({})

    @property
    def count(self) -> int:
        """How many streams have a place."""
        return self._layout.count

    @property
    def has_rings(self) -> bool:
        """Whether frames of some streams go around rings of links."""
        return self._ways.has_rings

    @property
    def is_complete(self) -> bool:
        return self.count == len(self._streams)

    def place(self) -> None:
        """Find places for as many streams as have one.

        The fuller windows are, the more frames of the next slot come early for them, and the more
        streams are late. So it is tried how full they may be at most.
        """
        names = sorted(self._streams, key=self._demand)
        low, high = 0, _FULL
        self._full = high
        for _ in range(_FILLINGS_MAX):
            self._less = {}
            placed, found = self._repaired(names)
            if found is not None and found.count > self.count:
                self._layout = found
            if self.is_complete or (self._full == _FULL and placed <= self.count):
                break
            if found is not None and found.count == self.count:
                low = self._full
            else:
                high = self._full
            self._full = (low + high) // 2

    def _repaired(self, names: Sequence[str]) -> tuple[int, _Layout | None]:
        """How many streams are given a slot at first, and windows of which none is too long: some
        hold less than they might, and streams that are late in them go without a place."""
        found: _Layout | None = None
        placed = 0
        for _ in range(_REPAIRS_MAX):
            layout = self._lay_out(self._assign(names))
            placed = max(placed, len(layout.slots))
            holds = layout.windows.find()
            if barred := {(its.link, its.start_ns) for its in layout.windows.in_the_way()}:
                names = [name for name in names if not self._sends(name, barred)]
                continue
            # Where frames come early for a slot, all others behind them may do so, too.
            long = self._too_long(layout) if holds else layout.windows.early_ns
            if len(long) > max(3, len(layout.queues) // _REPAIRED_PART) or not (long or holds):
                break
            if not long:
                layout.late = self._late(layout)
                if found is None or layout.count > found.count:
                    found = layout
                if not layout.late:
                    break
                gone = set(layout.late[: max(1, len(layout.late) // 2)])
                names = [name for name in names if name not in gone]
            for link, over_ns in long.items():
                # What is taken out makes others earlier, too: not all of it at once.
                most_ns = min(self._most_ns(link), layout.work_ns(link))
                less_ns = self._most_ns(link) - most_ns + over_ns // 2 + 1
                self._less[link] = self._less.get(link, 0) + less_ns
        return placed, found

    def _sends(self, name: str, barred: Set[tuple[int, int | None]]) -> bool:
        """Whether a stream is sent by one of these links from one of these phases on."""
        phase_ns = self._phase_ns(self._streams[name])
        return any((link, phase_ns) in barred for link, _ in self._sent_by(name))

    def _late(self, layout: _Layout) -> list[str]:
        """The streams whose bound is beyond what they allow, the worst first."""
        over = {
            name: self._bound_ns(layout, name) - self._streams[name].max_latency_ns
            for name in layout.slots
        }
        over |= {name: self.slot_ns for name in over if self._impossible(layout, name)}
        return sorted((name for name, ns in over.items() if ns > 0), key=lambda n: (-over[n], n))

    def _impossible(self, layout: _Layout, name: str) -> str | None:
        """Why mechanisms cannot do what is asked of them for a stream, if so."""
        intent, links = self._problem.intent, self._problem.links
        found = (
            terms.impossible(intent, self._streams[name], links[its.link], its.lasts_ns)
            for way in self._ways.of(name)
            for its in self._sent(layout, name, way)
        )
        return next(filter(None, found), None)

    def _demand(self, name: str) -> tuple[int, int, str]:
        stream = self._streams[name]
        return stream.period_ns, -stream.frames * stream.payload_octets, name

    # -- slots

    def _most_ns(self, link: int) -> int:
        """The most work that a window is to hold in this attempt."""
        return self._holds_ns(link) * self._full // _FULL - self._less.get(link, 0)

    def _holds_ns(self, link: int) -> int:
        """The most work that a window can hold beside best effort's turn."""
        if link not in self._holds:
            its, room = self._times.of_link(link), self._room_ns(link)
            if self._is_roomy and not its.is_talkers:
                room = min(room, self.slot_ns - self._disturbed_ns(link))
            shortest = min(self._times.of_frame(link, s).busy_ns for s in self._streams.values())
            low, high = 0, self.slot_ns
            while low < high:
                work = (low + high + 1) // 2
                lasts = self._times.left_ns(link, its.late_ns, work, min(work, shortest))
                low, high = (work, high) if lasts <= room else (low, work - 1)
            self._holds[link] = low
        return self._holds[link]

    def _room_ns(self, link: int) -> int:
        """The longest window of a link."""
        its = self._times.of_link(link)
        if its.is_talkers:
            return self.slot_ns
        room = self.slot_ns - its.beside_ns - 2 * its.early_ns - its.shortest_ns
        return room * (_WHOLE_PPB - self._problem.shares_ppb.get(link, 0)) // _WHOLE_PPB

    def _disturbed_ns(self, link: int) -> int:
        """How much later frames of this problem may be there after a disturbance, about."""
        intent, its = self._problem.intent, self._problem.links[link]
        frame_ns = longest_frame_ns(intent, its, ClassRole.BEST_EFFORT)
        lost_ns = intent.network.disturbance_ns or 0
        return self._times.left_ns(
            link, intent.network.gate_margin_ns, lost_ns + frame_ns, frame_ns or 1
        )

    def _too_long(self, layout: _Layout) -> dict[int, int]:
        windows = layout.windows
        over = {link: windows.length_ns(link) - self._room_ns(link) for link in layout.queues}
        over |= {link: windows.talker(link).busy_ns - self.slot_ns for link in layout.talkers}
        if self._is_roomy:
            late_ns = self._lateness(layout).late_ns
            for link in layout.queues:
                # Late frames have to have left before the first of the next slot may come.
                lasts_ns = windows.ended_ns(link) - windows.earliest_ns(link)
                over[link] = max(over[link], lasts_ns + late_ns[link] - self.slot_ns)
        return {link: ns for link, ns in over.items() if ns > 0}

    def _fixed_ns(self, stream: Stream) -> int | None:
        """When a talker starts that may not choose its time in all of its period: as soon as it
        may, since it is not known before what time of a slot is a good one."""
        last_ns = stream.period_ns - 1 if stream.latest_ns is None else stream.latest_ns
        is_free = last_ns - stream.earliest_ns >= stream.period_ns - 1
        return None if is_free else stream.earliest_ns

    def _phase_ns(self, stream: Stream) -> int | None:
        fixed_ns = self._fixed_ns(stream)
        return None if fixed_ns is None else fixed_ns % self.slot_ns

    def _works(self, name: str) -> list[tuple[Step, int]]:
        """The steps of a stream, and for how long its frames take their links."""
        stream = self._streams[name]
        return [
            (step, stream.frames * self._times.of_frame(step.link, stream).busy_ns)
            for way in self._ways.of(name)
            for step in way
        ]

    def _assign(self, names: Sequence[str]) -> dict[str, int]:
        """The slot of each stream: that in which the fullest port of its way is least full."""
        taken: defaultdict[int, list[int]] = defaultdict(lambda: [0] * self._count)
        found: dict[str, int] = {}
        for name in names:
            every = self._streams[name].period_ns // self.slot_ns
            works = self._works(name)
            fixed_ns = self._fixed_ns(self._streams[name])
            choices = range(every) if fixed_ns is None else (fixed_ns // self.slot_ns,)
            least, chosen = 1.0, None
            for slot in choices:
                fullest = 0.0
                for step, work in works:
                    there = taken[step.link][(slot + step.slots) % every :: every]
                    most = max(self._most_ns(step.link), 1)
                    fullest = max(fullest, (max(there) + work) / most)
                    if fullest > least:
                        break
                if fullest < least or (chosen is None and fullest <= least):
                    least, chosen = fullest, slot
            if chosen is None:
                continue
            found[name] = chosen
            for step, work in works:
                self._fill(taken[step.link], chosen + step.slots, every, work)
        return found

    def _fill(self, works: list[int], slot: int, every: int, work_ns: int) -> None:
        for index in range(slot % every, self._count, every):
            works[index] += work_ns

    # -- windows

    def _lay_out(self, slots: dict[str, int]) -> _Layout:
        """The queues and windows for streams that begin in these slots."""
        queues = {link: Queue(self._times, link, self.slot_ns) for link in self._ways.links}
        works: defaultdict[int, list[int]] = defaultdict(lambda: [0] * self._count)
        ties: dict[tuple[int, ...], list[Coming]] = {}
        for name, slot in slots.items():
            firsts = self._come(queues, works, name, slot)
            if len(firsts) > 1:
                ties[tuple(sorted(firsts))] = list(firsts.values())
        works_ns = {link: max(its) for link, its in works.items()}
        used = {link: queue for link, queue in queues.items() if queue.coming}
        for link, queue in used.items():
            queue.settle(works_ns[link])
        shortest = self._shortest_sent(slots)
        windows = Windows(
            self._times,
            self.slot_ns,
            used,
            {link: (works_ns[link], least_ns) for link, least_ns in shortest.items()},
            list(ties.values()),
            taken=self._taken,
        )
        return _Layout(slots, windows, used, shortest.keys(), works_ns)

    def _come(
        self, queues: Mapping[int, Queue], works: Mapping[int, list[int]], name: str, slot: int
    ) -> dict[int, Coming]:
        """Let a stream come to the queues of its ways, and add its work to those of links; returns
        those among which its frames come to first switches."""
        stream = self._streams[name]
        every = stream.period_ns // self.slot_ns
        sending: defaultdict[tuple[int, int], int] = defaultdict(int)
        for link, onward in self._sent_by(name):
            work_ns = stream.frames * self._times.of_frame(link, stream).busy_ns
            self._fill(works[link], slot, every, work_ns)
            sending[link, onward] += work_ns
        firsts: dict[int, Coming] = {}
        for way in self._ways.of(name):
            origins: dict[int, int] = {}  # by step
            for number, step in enumerate(way):
                if step.before is None:
                    continue
                its = self._coming(queues[step.link], stream, way, step)
                work_ns = stream.frames * self._times.of_frame(step.link, stream).busy_ns
                origins[number] = origins.get(step.before, id(its))
                origin = its.origin(origins[number])
                for by_slot in (its.works_ns, works[step.link], origin.works_ns):
                    self._fill(by_slot, slot + step.slots, every, work_ns)
                if its.before is None:
                    firsts[id(its)] = its
                    sent_ns = sending.pop((its.link, step.link), 0)
                    self._fill(its.sent_works_ns, slot, every, sent_ns)
        return firsts

    def _sent_by(self, name: str) -> list[tuple[int, int]]:
        """The links by which a talker sends the frames of a stream, each as often as it does, and
        one of those by which they go on."""
        found = []
        for path, way in enumerate(self._ways.of(name)):
            if not self._problem.starts_with_copy(Member(name, path)):
                onward = {step.before: step.link for step in reversed(way)}
                found += [(s.link, onward[n]) for n, s in enumerate(way) if s.before is None]
        return found

    def _shortest_sent(self, slots: Collection[str]) -> dict[int, int]:
        """The shortest frame on the link of each talker."""
        found: dict[int, int] = {}
        for name in slots:
            for link, _ in self._sent_by(name):
                busy_ns = self._times.of_frame(link, self._streams[name]).busy_ns
                found[link] = min(busy_ns, found.get(link, busy_ns))
        return found

    def _key(
        self, stream: Stream, way: Sequence[Step], step: Step
    ) -> tuple[int, int | None, int | None, int, int]:
        before = way[step.before or 0]
        slots = step.slots - before.slots
        if before.before is None:
            return before.link, None, self._phase_ns(stream), slots, step.wave
        return before.link, before.wave, None, slots, step.wave

    def _coming(self, queue: Queue, stream: Stream, way: Sequence[Step], step: Step) -> Coming:
        """Those among which the frames of a stream come to a queue."""
        key = self._key(stream, way, step)
        its = queue.coming.get(key)
        if its is None:
            its = queue.coming[key] = Coming(*key, [0] * self._count, [0] * self._count)
        before = way[step.before or 0]
        came = self._times.of_frame(before.link, stream)
        flies_ns = came.received_min_ns + self._times.of_link(before.link).flies_min_ns
        if before.before is None:
            flies_ns -= self._times.sooner_ns(before.link, stream)
        busy_ns = self._times.of_frame(step.link, stream).busy_ns
        its.add(busy_ns, came, stream.frames * stream.paths, flies_ns)
        queue.shortest_ns = min(queue.shortest_ns, busy_ns)
        return its

    def _sent(self, layout: _Layout, name: str, way: Sequence[Step]) -> Iterator[Coming]:
        """Those among which the frames of a stream come from its talker to first switches."""
        for step in way:
            if step.before is not None and way[step.before].before is None:
                key = self._key(self._streams[name], way, step)
                yield layout.queues[step.link].coming[key]

    def _start_ns(self, layout: _Layout, name: str, way: Sequence[Step]) -> int:
        """When the talker starts to send on a way, from the beginning of its slot on."""
        return next(self._sent(layout, name, way)).sent_ns

    def _left_ns(self, layout: _Layout, step: Step) -> int:
        """When frames have left a link of a switch, from the beginning of their slot on."""
        return layout.windows.ends_ns[step.link, step.wave] + step.slots * self.slot_ns

    def _bound_ns(self, layout: _Layout, name: str) -> int:
        """From the first start of a stream to its last bit at the last listener."""
        stream, between = self._streams[name], self._problem.clocks.between_ns
        starts, ends = [], []
        for way in self._ways.of(name):
            starts.append(self._start_ns(layout, name, way))
            for step in way:
                link = self._problem.links[step.link]
                if step.before is None or link.target.node not in stream.listeners:
                    continue
                source = link.source.node
                apart = max(between(source, link.target.node), between(source, stream.talker))
                gap = self._times.of_link(step.link).gap_min_ns
                left = self._left_ns(layout, step)
                ends.append(left - gap + link.propagation_ns + apart)
        return max(ends) - min(starts)

    # -- what is found

    def _placed(self) -> Iterator[str]:
        late = set(self._layout.late)
        return (name for name in self._layout.slots if name not in late)

    def stream_plans(self) -> dict[str, StreamPlan]:
        return {name: self._planned(name) for name in self._placed()}

    def _planned(self, name: str) -> StreamPlan:
        layout, windows, stream = self._layout, self._layout.windows, self._streams[name]
        ways = list(self._ways.of(name))
        since = layout.slots[name] * self.slot_ns
        # A talker is told an offset within its period.
        first = since + min(self._start_ns(layout, name, way) for way in ways)
        since -= first // stream.period_ns * stream.period_ns
        paths = []
        for way in ways:
            hops = []
            for step in way:
                if step.before is None:
                    its = next(self._sent(layout, name, way))
                    opens, lasts = its.sent_ns, its.lasts_ns
                else:
                    opens = windows.opens_ns[step.link]
                    lasts = windows.ends_ns[step.link, step.wave] - opens
                offset = since + opens + step.slots * self.slot_ns
                source = self._problem.links[step.link].source
                hops.append(Hop(source, offset, self.traffic_class, lasts))
            paths.append(tuple(hops))
        return StreamPlan(tuple(paths), self._bound_ns(layout, name))

    def refused(self) -> dict[str, str]:
        """Why streams have no place."""
        placed = set(self._placed())
        return {name: self._why(name) for name in self._streams if name not in placed}

    def _why(self, name: str) -> str:
        layout, stream = self._layout, self._streams[name]
        if name in layout.slots:
            if reason := self._impossible(layout, name):
                return reason
            bound_ns = self._bound_ns(layout, name)
            return (
                f"no window that frames share brings it in time: it would take up to "
                f"{us(bound_ns)}, its max-latency is {us(stream.max_latency_ns)}. What would help: "
                "fewer streams on its way, a smaller gate-margin or a longer max-latency"
            )
        return self._too_full(name)

    def _too_full(self, name: str) -> str:
        def filled(link: int) -> float:
            return self._layout.work_ns(link) / max(self._holds_ns(link), 1)

        fullest = max((step.link for step, _ in self._works(name)), key=filled)
        work_ns = self._layout.work_ns(fullest)
        its = self._times.of_link(fullest)
        return (
            f"the windows that frames share are full: at {self._problem.links[fullest].source} "
            f"those of one slot of {us(self.slot_ns)} take {us(work_ns)} of up to "
            f"{us(self._holds_ns(fullest))}, beside a gate margin of {us(its.late_ns)}, control, "
            f"and best effort's turn and guard band of {us(its.beside_ns)}. What would help: "
            "longer periods, smaller payloads, a smaller gate-margin or a faster link"
        )

    def gate_windows(self) -> dict[int, list[tuple[int, Window]]]:
        """For each link of a switch the windows in which its gate is to be open, each with its
        period: in the slots that are used. For each of a talker's with gates when it sends."""
        found = {}
        for link, (cycle, busy) in self._used().items():
            in_each = self.in_each_slot(link)
            starts = (slot * self.slot_ns for slot in sorted(busy))
            found[link] = (
                [in_each]
                if len(busy) == cycle
                else [(cycle * self.slot_ns, _later(in_each[1], ns)) for ns in starts]
            )
        gated = gated_links(self._problem)
        return found | {link: its for link, its in self.sent_in().items() if link in gated}

    def sent_in(self) -> dict[int, list[tuple[int, Window]]]:
        """When the frames of each talker's link leave, each time with its period."""
        sent: defaultdict[int, set[tuple[int, Window]]] = defaultdict(set)
        for name in self._placed():
            stream, way = self._streams[name], next(self._ways.of(name))
            for link, _ in self._sent_by(name):
                its = next(self._sent(self._layout, name, way))
                lasts_ns = its.lasts_ns + self._times.of_link(link).early_ns
                opens_ns = its.sent_ns + self._layout.slots[name] * self.slot_ns
                opens_ns %= stream.period_ns
                window = Window(opens_ns, opens_ns + lasts_ns, self.traffic_class)
                sent[link].add((stream.period_ns, window))
        return {link: _apart(sorted(its)) for link, its in sent.items()}

    def in_each_slot(self, link: int) -> tuple[int, Window]:
        """A window in each slot, used or not, of which a list repeats from slot to slot."""
        windows = self._layout.windows
        window = Window(windows.opens_ns[link], windows.closes_ns(link), self.traffic_class)
        return self.slot_ns, window

    @property
    def links(self) -> Collection[int]:
        """The links of switches by which frames of placed streams leave."""
        return self._used().keys()

    def lateness(self) -> Lateness:
        """How late frames may be after a disturbance."""
        return self._lateness(self._layout)

    def recovery_ns(self, lateness: Lateness) -> dict[str, int]:
        """For how long after a disturbance frames may be sent that are late for it, by stream."""
        taking = {name: list(self._taking(name)) for name in self._placed()}
        bounds: dict[int, int] = defaultdict(int)
        for name, steps in taking.items():
            for link, takes_ns in steps:
                bounds[link] = max(bounds[link], takes_ns + self._streams[name].period_ns)
        over = lateness.over_ns(bounds)
        return {
            name: max(
                self._sent_over_ns(name, lateness),
                *(over[link] - takes_ns - lateness.late_ns[link] for link, takes_ns in steps),
            )
            for name, steps in taking.items()
        }

    def _sent_over_ns(self, name: str, lateness: Lateness) -> int:
        ways = self._ways.of(name)
        coming = (its for way in ways for its in self._sent(self._layout, name, way))
        return max(map(lateness.talker_over_ns, coming))

    def _taking(self, name: str) -> Iterator[tuple[int, int]]:
        """From when a stream is sent until its frames have left each link of a switch."""
        layout, ways = self._layout, list(self._ways.of(name))
        first = min(self._start_ns(layout, name, way) for way in ways)
        for way in ways:
            for step in way:
                if step.before is not None:
                    yield step.link, self._left_ns(layout, step) - first

    def crossings(self, first: int) -> Iterator[Crossing]:
        """The frames of all placed streams on links of switches, numbered from `first` on."""
        layout, windows = self._layout, self._layout.windows
        number = first
        for name in self._placed():
            stream = self._streams[name]
            for way in self._ways.of(name):
                numbers: dict[int, int] = {}  # of the steps
                for index, step in enumerate(way):
                    if step.before is None:
                        continue
                    came = way[step.before]
                    frame = self._times.of_frame(step.link, stream).busy_ns
                    came_frame = self._times.of_frame(came.link, stream).busy_ns
                    since = self._start_ns(layout, name, way)
                    if came.before is not None:
                        since = self._left_ns(layout, came)
                    yield Crossing(
                        name,
                        step.link,
                        self.traffic_class,
                        stream.period_ns,
                        stream.frames * frame,
                        frame,
                        windows.closes_ns(step.link) - windows.earliest_ns(step.link),
                        numbers.get(step.before),
                        came.link,
                        stream.frames * came_frame,
                        self._left_ns(layout, step) - since,
                    )
                    numbers[index] = number
                    number += 1

    def _lateness(self, layout: _Layout) -> Lateness:
        problem = self._problem
        return Lateness(problem.intent, problem.links, self._times, layout.windows, layout.queues)

    def _used(self) -> dict[int, tuple[int, set[int]]]:
        """The slots in which frames leave by a link, and after how many that repeats."""
        used: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        for name in self._placed():
            every = self._streams[name].period_ns // self.slot_ns
            for step in (
                its for way in self._ways.of(name) for its in way if its.before is not None
            ):
                used[step.link].add((every, (self._layout.slots[name] + step.slots) % every))
        found = {}
        for link, slots in used.items():
            cycle = lcm(*{every for every, _ in slots})
            busy = {at for every, slot in slots for at in range(slot, cycle, every)}
            found[link] = cycle, busy
        return found

    def stays(self) -> dict[int, list[tuple[int, int, int]]]:
        """When planned frames may be in the queue of a switch's link: start, duration, period."""
        windows = self._layout.windows
        found = {}
        for link, its in self.gate_windows().items():
            if link in self._layout.queues:
                comes_ns = windows.earliest_ns(link) - windows.opens_ns[link]
                found[link] = [
                    (opens + comes_ns, closes - opens - comes_ns, period)
                    for period, (opens, closes, _) in its
                ]
        return found


def _apart(windows: Sequence[tuple[int, Window]]) -> list[tuple[int, Window]]:
    """The windows of one talker over all of its periods, those that overlap as one."""
    cycle_ns = lcm(*{period_ns for period_ns, _ in windows})
    found: list[Window] = []
    for window in sorted(
        _later(window, at) for period_ns, window in windows for at in range(0, cycle_ns, period_ns)
    ):
        if found and window.open_ns <= found[-1].close_ns:
            closes_ns = max(found[-1].close_ns, window.close_ns)
            found[-1] = found[-1]._replace(close_ns=closes_ns)
        else:
            found.append(window)
    return [(cycle_ns, window) for window in found]


def _later(window: Window, by_ns: int) -> Window:
    return window._replace(open_ns=window.open_ns + by_ns, close_ns=window.close_ns + by_ns)
