"""Streams that begin in given slots: their queues and windows, and what is planned by that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from math import lcm
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from cnc.mechanisms import terms
from cnc.model import Hop, Stream, StreamPlan
from cnc.planner.gates import Window, gated_links
from cnc.planner.problem import Problem
from cnc.planner.route import Member
from cnc.planner.sharing.busy import Crossing
from cnc.planner.sharing.queue import Coming, Queue
from cnc.planner.sharing.spare import Lateness
from cnc.planner.sharing.taken import Taken
from cnc.planner.sharing.times import Times
from cnc.planner.sharing.ways import Laid, Step, Style, Ways
from cnc.planner.sharing.windows import Windows


class Asked(NamedTuple):
    """Streams of a problem that are to share windows, in slots of `slot_ns`, of which all repeats
    after `cycle_slots`; `taken` is what of the links is not theirs. Where there are several
    `classes`, they take turns: a slot of each, one after another, in every lap of `lap_ns`.
    `starts_ns` is when in a slot talkers start by a link that run already, by stream and link.
    Windows are to have room for `reserve_ns` of work in each slot beyond that of the streams; those
    that run have it in the ends that are stated."""

    problem: Problem
    streams: Mapping[str, Stream]
    classes: tuple[int, ...]
    slot_ns: int
    lap_ns: int
    cycle_slots: int
    times: Times
    ways: Laid
    taken: Taken
    starts_ns: Mapping[tuple[str, int], int] = MappingProxyType({})
    reserve_ns: int = 0

    @property
    def turns(self) -> int:
        """How many slots a lap has."""
        return len(self.classes)

    def begins_ns(self, slot: int) -> int:
        laps, turn = divmod(slot, self.turns)
        return laps * self.lap_ns + turn * self.slot_ns

    def left_in(self, slot: int, step: Step) -> int:
        """The slot in which frames leave a link that begin in a slot."""
        return slot + step.laps * self.turns

    def slots_in(self, stream: Stream) -> int:
        """In how many slots of its period a stream may begin."""
        return stream.period_ns // self.lap_ns * self.turns

    def slot_at(self, instant_ns: int) -> int:
        """The slot to which an instant belongs."""
        laps, since_ns = divmod(instant_ns, self.lap_ns)
        return laps * self.turns + min(since_ns // self.slot_ns, self.turns - 1)

    def fixed_ns(self, stream: Stream) -> int | None:
        """When a talker starts that may not choose its time in all of its period: as soon as it
        may, since it is not known before what time of a slot is a good one."""
        last_ns = stream.period_ns - 1 if stream.latest_ns is None else stream.latest_ns
        is_free = last_ns - stream.earliest_ns >= stream.period_ns - 1
        return None if is_free else stream.earliest_ns

    def phase_ns(self, stream: Stream, link: int) -> int | None:
        """The same within a slot, by a link; or when it does so."""
        if (stream.name, link) in self.starts_ns:
            return self.starts_ns[stream.name, link]
        fixed_ns = self.fixed_ns(stream)
        return None if fixed_ns is None else fixed_ns - self.begins_ns(self.slot_at(fixed_ns))

    def sent_by(self, name: str) -> list[tuple[int, int]]:
        """The links by which a talker sends the frames of a stream, each as often as it does, and
        one of those by which they go on."""
        found = []
        for path, way in enumerate(self.ways.of(name)):
            if not self.problem.starts_with_copy(Member(name, path)):
                onward = {step.before: step.link for step in reversed(way)}
                found += [(s.link, onward[n]) for n, s in enumerate(way) if s.before is None]
        return found

    def fill(self, works: list[int], slot: int, every: int, work_ns: int) -> None:
        """Add the work of a stream to that of all slots."""
        for index in range(slot % every, self.cycle_slots, every):
            works[index] += work_ns


def asked_of(
    problem: Problem, names: Collection[str], number: int, style: Style, taken: Taken
) -> Asked:
    """What is asked of a layout in one class, with the ways of streams in this style."""
    streams = {name: problem.intent.streams[name] for name in names}
    times = Times(problem)
    lap_ns = problem.slot_ns(names, taken.periods_ns)
    ways = Ways(problem, names, lap_ns, times, style)
    asked = Asked(problem, streams, (number,), lap_ns, lap_ns, 0, times, ways, taken)
    return in_turn(asked, (number,))


def in_turn(asked: Asked, classes: tuple[int, ...]) -> Asked:
    """The same in these classes, which take turns if they are several."""
    problem, lap_ns = asked.problem, asked.lap_ns
    cycle_ns = lcm(*{stream.period_ns for stream in asked.streams.values()})
    slot_ns = lap_ns
    if len(classes) > 1:
        slot_ns = _turn_ns(problem, asked.times, lap_ns, len(classes))
    return asked._replace(
        classes=classes,
        slot_ns=slot_ns,
        cycle_slots=cycle_ns // lap_ns * len(classes),
        reserve_ns=max(problem.reserve_ns(number, slot_ns) for number in classes),
    )


def _turn_ns(problem: Problem, times: Times, lap_ns: int, turns: int) -> int:
    """How long a turn of a class lasts, if best effort has its own behind the last one of a lap."""
    tick_ns = lcm(*{link.gate_tick_ns for link in problem.links})
    beside_ns = max(times.of_link(number).beside_ns for number in range(len(problem.links)))
    return max(0, lap_ns - beside_ns) // (turns * tick_ns) * tick_ns


class Layout:
    """In which of `slots` each stream begins, and the windows for that; streams that are `late` in
    them have no place."""

    _kind_of_windows: ClassVar[type[Windows]] = Windows

    def __init__(self, asked: Asked, slots: Mapping[str, int]) -> None:
        self.slots = slots
        self.late: list[str] = []
        self._asked = asked
        self._problem = asked.problem
        self._streams = asked.streams
        self._times = asked.times
        self._ways = asked.ways
        self._slot_ns = asked.slot_ns
        self.turn = 0
        begins_ns = [asked.begins_ns(turn) for turn in range(asked.turns)]
        crossed = {step.link for name in slots for way in self._ways.of(name) for step in way}
        queues = {
            link: Queue(self._times, link, asked.lap_ns, begins_ns, asked.reserve_ns)
            for link in self._ways.links
            if link in crossed
        }
        works: defaultdict[int, list[int]] = defaultdict(lambda: [0] * asked.cycle_slots)
        ties: dict[tuple[int, ...], list[Coming]] = {}
        for name, slot in slots.items():
            firsts = self._come(queues, works, name, slot)
            if len(firsts) > 1:
                ties[tuple(sorted(firsts))] = list(firsts.values())
        self._works_ns = {link: max(its) for link, its in works.items()}
        self.queues = {link: queue for link, queue in queues.items() if queue.coming}
        for link, queue in self.queues.items():
            queue.settle(self._works_ns[link])
        shortest = self._shortest_sent()
        self.talkers = shortest.keys()
        self.windows = self._kind_of_windows(
            self._times,
            self._slot_ns,
            self.queues,
            {link: (self._works_ns[link], least_ns) for link, least_ns in shortest.items()},
            list(ties.values()),
            lap_ns=asked.lap_ns,
            taken=asked.taken,
        )

    @property
    def count(self) -> int:
        """How many streams have a place."""
        return len(self.slots) - len(self.late)

    @property
    def traffic_class(self) -> int:
        return self._asked.classes[self.turn]

    def by_class(self) -> list[Layout]:
        """For each class the layout with the streams that begin when it is its turn."""
        turns = self._asked.turns
        found = [copy(self) for _ in range(turns)]
        for turn, its in enumerate(found):
            its.turn = turn
            its.slots = {n: slot for n, slot in self.slots.items() if slot % turns == turn}
        return found

    def work_ns(self, link: int) -> int:
        """For how long frames of the fullest slot take a link."""
        return self._works_ns.get(link, 0)

    def impossible(self, name: str) -> str | None:
        """Why mechanisms cannot do what is asked of them for a stream, if so."""
        intent, links = self._problem.intent, self._problem.links
        found = (
            terms.impossible(intent, self._streams[name], links[its.link], its.lasts_ns)
            for way in self._ways.of(name)
            for its in self._sent(name, way)
        )
        return next(filter(None, found), None)

    def _come(
        self, queues: Mapping[int, Queue], works: Mapping[int, list[int]], name: str, slot: int
    ) -> dict[int, Coming]:
        """Let a stream come to the queues of its ways, and add its work to those of links; returns
        those among which its frames come to first switches."""
        stream = self._streams[name]
        every = self._asked.slots_in(stream)
        sending: defaultdict[tuple[int, int], int] = defaultdict(int)
        for link, onward in self._asked.sent_by(name):
            work_ns = stream.frames * self._times.of_frame(link, stream).busy_ns
            self._asked.fill(works[link], slot, every, work_ns)
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
                    self._asked.fill(by_slot, self._asked.left_in(slot, step), every, work_ns)
                if its.before is None:
                    firsts[id(its)] = its
                    sent_ns = sending.pop((its.link, step.link), 0)
                    self._asked.fill(its.sent_works_ns, slot, every, sent_ns)
        return firsts

    def _shortest_sent(self) -> dict[int, int]:
        """The shortest frame on the link of each talker."""
        found: dict[int, int] = {}
        for name in self.slots:
            for link, _ in self._asked.sent_by(name):
                busy_ns = self._times.of_frame(link, self._streams[name]).busy_ns
                found[link] = min(busy_ns, found.get(link, busy_ns))
        return found

    def _key(
        self, stream: Stream, way: Sequence[Step], step: Step
    ) -> tuple[int, int | None, int | None, int, int]:
        before = way[step.before or 0]
        laps = step.laps - before.laps
        if before.before is None:
            return before.link, None, self._asked.phase_ns(stream, before.link), laps, step.wave
        return before.link, before.wave, None, laps, step.wave

    def _coming(self, queue: Queue, stream: Stream, way: Sequence[Step], step: Step) -> Coming:
        """Those among which the frames of a stream come to a queue."""
        key = self._key(stream, way, step)
        its = queue.coming.get(key)
        if its is None:
            its = queue.coming[key] = Coming(
                *key, [0] * self._asked.cycle_slots, [0] * self._asked.cycle_slots
            )
        before = way[step.before or 0]
        came = self._times.of_frame(before.link, stream)
        flies_ns = came.received_min_ns + self._times.of_link(before.link).flies_min_ns
        if before.before is None:
            flies_ns -= self._times.sooner_ns(before.link, stream)
        busy_ns = self._times.of_frame(step.link, stream).busy_ns
        its.add(busy_ns, came, stream.frames * stream.paths, flies_ns)
        queue.shortest_ns = min(queue.shortest_ns, busy_ns)
        return its

    def _sent(self, name: str, way: Sequence[Step]) -> Iterator[Coming]:
        """Those among which the frames of a stream come from its talker to first switches."""
        for step in way:
            if step.before is not None and way[step.before].before is None:
                key = self._key(self._streams[name], way, step)
                yield self.queues[step.link].coming[key]

    def _start_ns(self, name: str, way: Sequence[Step]) -> int:
        """When the talker starts to send on a way, from the beginning of its slot on."""
        return next(self._sent(name, way)).sent_ns

    def _left_ns(self, step: Step) -> int:
        """When frames have left a link of a switch, from the beginning of their slot on."""
        return self.windows.ends_ns[step.link, step.wave] + step.laps * self._asked.lap_ns

    def bound_ns(self, name: str) -> int:
        """From the first start of a stream to its last bit at the last listener."""
        stream, between = self._streams[name], self._problem.clocks.between_ns
        starts, ends = [], []
        for way in self._ways.of(name):
            starts.append(self._start_ns(name, way))
            for step in way:
                link = self._problem.links[step.link]
                if step.before is None or link.target.node not in stream.listeners:
                    continue
                source = link.source.node
                apart = max(between(source, link.target.node), between(source, stream.talker))
                gap = self._times.of_link(step.link).gap_min_ns
                left = self._left_ns(step)
                ends.append(left - gap + link.propagation_ns + apart)
        return max(ends) - min(starts)

    def placed(self) -> Iterator[str]:
        late = set(self.late)
        return (name for name in self.slots if name not in late)

    def stream_plans(self) -> dict[str, StreamPlan]:
        return {name: self._planned(name) for name in self.placed()}

    def _planned(self, name: str) -> StreamPlan:
        windows, stream = self.windows, self._streams[name]
        ways = list(self._ways.of(name))
        since = self._asked.begins_ns(self.slots[name])
        # A talker is told an offset within its period.
        first = since + min(self._start_ns(name, way) for way in ways)
        since -= first // stream.period_ns * stream.period_ns
        paths = []
        for way in ways:
            hops = []
            for step in way:
                if step.before is None:
                    its = next(self._sent(name, way))
                    opens, lasts = its.sent_ns, its.lasts_ns
                else:
                    opens = windows.opens_ns[step.link]
                    lasts = windows.ends_ns[step.link, step.wave] - opens
                offset = since + opens + step.laps * self._asked.lap_ns
                source = self._problem.links[step.link].source
                hops.append(Hop(source, offset, self.traffic_class, lasts))
            paths.append(tuple(hops))
        return StreamPlan(tuple(paths), self.bound_ns(name))

    def gate_windows(self) -> dict[int, list[tuple[int, Window]]]:
        """For each link of a switch the windows in which its gate is to be open, each with its
        period: in the slots that are used. For each of a talker's with gates when it sends."""
        found = {}
        for link, (cycle, busy) in self._used().items():
            window = self._window(link)
            starts = (self._asked.begins_ns(slot) for slot in sorted(busy))
            found[link] = (
                [self.in_each_slot(link)]
                if len(busy) * self._asked.turns == cycle
                else [(self._asked.begins_ns(cycle), _later(window, ns)) for ns in starts]
            )
        gated = gated_links(self._problem)
        return found | {link: its for link, its in self.sent_in().items() if link in gated}

    def sent_in(self) -> dict[int, list[tuple[int, Window]]]:
        """When the frames of each talker's link leave, each time with its period."""
        sent: defaultdict[int, set[tuple[int, Window]]] = defaultdict(set)
        for name in self.placed():
            stream = self._streams[name]
            coming = {its.link: its for way in self._ways.of(name) for its in self._sent(name, way)}
            for link, _ in self._asked.sent_by(name):
                its = coming[link]
                lasts_ns = its.lasts_ns + self._times.of_link(link).early_ns
                opens_ns = its.sent_ns + self._asked.begins_ns(self.slots[name])
                opens_ns %= stream.period_ns
                window = Window(opens_ns, opens_ns + lasts_ns, self.traffic_class)
                sent[link].add((stream.period_ns, window))
        return {link: _apart(sorted(its)) for link, its in sent.items()}

    def in_each_slot(self, link: int) -> tuple[int, Window]:
        """A window in each slot of the class, used or not, of which a list repeats from one to the
        next."""
        return self._asked.lap_ns, _later(self._window(link), self._asked.begins_ns(self.turn))

    def _window(self, link: int) -> Window:
        windows = self.windows
        return Window(windows.opens_ns[link], windows.closes_ns(link), self.traffic_class)

    @property
    def links(self) -> Collection[int]:
        """The links of switches by which frames of placed streams leave."""
        return self._used().keys()

    def lateness(self) -> Lateness:
        """How late frames may be after a disturbance."""
        problem = self._problem
        return Lateness(problem.intent, problem.links, self._times, self.windows, self.queues)

    def recovery_ns(self, lateness: Lateness) -> dict[str, int]:
        """For how long after a disturbance frames may be sent that are late for it, by stream."""
        taking = {name: list(self._taking(name)) for name in self.placed()}
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
        coming = (its for way in ways for its in self._sent(name, way))
        return max(map(lateness.talker_over_ns, coming))

    def _taking(self, name: str) -> Iterator[tuple[int, int]]:
        """From when a stream is sent until its frames have left each link of a switch."""
        ways = list(self._ways.of(name))
        first = min(self._start_ns(name, way) for way in ways)
        for way in ways:
            for step in way:
                if step.before is not None:
                    yield step.link, self._left_ns(step) - first

    def crossings(self, first: int) -> Iterator[Crossing]:
        """The frames of all placed streams on links of switches, numbered from `first` on."""
        windows = self.windows
        number = first
        for name in self.placed():
            stream = self._streams[name]
            for way in self._ways.of(name):
                numbers: dict[int, int] = {}  # of the steps
                for index, step in enumerate(way):
                    if step.before is None:
                        continue
                    came = way[step.before]
                    frame = self._times.of_frame(step.link, stream).busy_ns
                    came_frame = self._times.of_frame(came.link, stream).busy_ns
                    since = self._start_ns(name, way)
                    if came.before is not None:
                        since = self._left_ns(came)
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
                        self._left_ns(step) - since,
                    )
                    numbers[index] = number
                    number += 1

    def _used(self) -> dict[int, tuple[int, set[int]]]:
        """The slots in which frames leave by a link, and after how many that repeats."""
        used: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        for name in self.placed():
            every = self._asked.slots_in(self._streams[name])
            for step in (
                its for way in self._ways.of(name) for its in way if its.before is not None
            ):
                slot = self._asked.left_in(self.slots[name], step)
                used[step.link].add((every, slot % every))
        found = {}
        for link, slots in used.items():
            cycle = lcm(*{every for every, _ in slots})
            busy = {at for every, slot in slots for at in range(slot, cycle, every)}
            found[link] = cycle, busy
        return found

    def stays(self) -> dict[int, list[tuple[int, int, int]]]:
        """When planned frames may be in the queue of a switch's link: start, duration, period."""
        windows = self.windows
        found = {}
        for link, its in self.gate_windows().items():
            if link in self.queues:
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
