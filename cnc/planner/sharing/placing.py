"""Slots for streams, such that windows hold their frames and these come in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, lcm
from typing import NamedTuple

from cnc.model import Hop, Stream, StreamPlan
from cnc.planner.gates import Window
from cnc.planner.graph import Tree
from cnc.planner.problem import Problem
from cnc.planner.sharing.order import ordered
from cnc.planner.sharing.queue import Coming, Queue
from cnc.planner.sharing.times import Times
from cnc.planner.sharing.ways import ForwardWays
from cnc.planner.sharing.windows import Windows

_REPAIRS_MAX = 12
_FULL = 1 << 10
_REROUTINGS_MAX = 5


class Step(NamedTuple):
    """A hop of a way: its link, the step before, the wave in which frames leave by it, and how many
    slots after they were sent."""

    link: int
    before: int | None
    wave: int = 0
    slots: int = 0


class Style(NamedTuple):
    """How windows are laid out: whether tight streams go first, whether frames that go around a
    ring do so in a second wave or in the next slot, and what lies between windows of successive
    ports beside what it takes."""

    by_hops: bool = False
    rings_in_waves: bool = True
    lag_ns: int = 0


@dataclass(slots=True)
class Shared:
    """Streams in shared windows: in which slot each begins, and the windows."""

    slots: dict[str, int]
    windows: Windows
    queues: dict[int, Queue]
    late: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many streams have a place and come in time."""
        return len(self.slots) - len(self.late)


class Sharing:
    """Some streams of a problem in windows of one class."""

    def __init__(
        self, problem: Problem, names: Collection[str], traffic_class: int, style: Style
    ) -> None:
        self._problem = problem
        self._streams = {name: problem.intent.streams[name] for name in names}
        self._class = traffic_class
        self._style = style
        self._times = Times(problem)
        periods = {stream.period_ns for stream in self._streams.values()}
        self.slot_ns = gcd(*periods)
        self._count = lcm(*periods) // self.slot_ns
        self._tight = {
            name for name, its in self._streams.items() if its.max_latency_ns <= self.slot_ns
        }
        self._trees = {name: problem.trees[name] for name in names}
        self._ways = self._order()
        self._most: dict[int, int] = {}  # the work that a window may hold
        self._full, self._less = _FULL, dict[int, int]()
        self._placed = 0

    def _order(self) -> dict[tuple[str, int], tuple[Step, ...]]:
        """The steps of all ways; `self._links` are the links of switches in their order."""
        router = self._problem.router
        forward = ForwardWays(self._problem, router.loads if router else ())
        possible = dict.fromkeys(forward.turns(), 1e-9)
        for attempt in range(_REROUTINGS_MAX):
            ways = {
                (name, path): self._way(tree)
                for name, trees in self._trees.items()
                for path, tree in enumerate(trees)
            }
            turns = self._turns(ways)
            used = {step.link for way in ways.values() for step in way if step.before is not None}
            links = used | {link for turn in possible for link in turn}
            order = ordered(links, possible | turns)
            place = {link: index for index, link in enumerate(order)}
            back = {turn for turn in turns if place[turn[1]] <= place[turn[0]]}
            if not back or self._style.by_hops or attempt == _REROUTINGS_MAX - 1 or not self._lead_forward(
                forward, ways, place, back
            ):
                break
        self._links = [link for link in order if link in used]
        self.has_rings = bool(back)
        return {key: self._stepped(key[0], way, back) for key, way in ways.items()}

    def _way(self, tree: Tree) -> tuple[Step, ...]:
        inbound: dict[str, int] = {}
        way: list[Step] = []
        for index, number in enumerate(tree):
            link = self._problem.links[number]
            way.append(Step(number, inbound.get(link.source.node)))
            inbound[link.target.node] = index
        return tuple(way)

    def _turns(self, ways: Mapping[tuple[str, int], Sequence[Step]]) -> dict[tuple[int, int], float]:
        """How much goes from each link between switches on to each other."""
        turns: defaultdict[tuple[int, int], float] = defaultdict(float)
        for (name, _), way in ways.items():
            stream = self._streams[name]
            urgency = 1 + 4 * self.slot_ns / stream.max_latency_ns
            for step in way:
                if step.before is not None and way[step.before].before is not None:
                    share = self._share(stream, step.link)
                    turns[way[step.before].link, step.link] += share * urgency
        return turns

    def _share(self, stream: Stream, link: int) -> float:
        busy = self._times.of_frame(link, stream).busy_ns
        return stream.frames * busy / stream.period_ns

    def _lead_forward(
        self,
        forward: ForwardWays,
        ways: Mapping[tuple[str, int], Sequence[Step]],
        place: Mapping[int, int],
        back: Collection[tuple[int, int]],
    ) -> bool:
        """Give streams other ways that take none of the turns `back`, where there are some; whether
        any has."""
        moved = False
        for (name, _), way in ways.items():
            stream, trees = self._streams[name], self._trees[name]
            if len(trees) > 1 or len(stream.listeners) > 1:
                continue
            if not any(
                step.before is not None and (way[step.before].link, step.link) in back
                for step in way
            ):
                continue
            share = self._share(stream, way[-1].link)
            for step in way:
                forward.loads[step.link] -= share
            tree = forward.find(stream.talker, stream.listeners[0], share, place)
            self._trees[name] = (tree or trees[0],)
            moved = moved or tree is not None
            for number in self._trees[name][0]:
                forward.loads[number] += share
        return moved

    def _stepped(
        self, name: str, way: Sequence[Step], back: Collection[tuple[int, int]]
    ) -> tuple[Step, ...]:
        found: list[Step] = []
        for link, before, _, _ in way:
            if before is None:
                found.append(Step(link, None))
                continue
            _, _, wave, slots = found[before]
            if self._style.by_hops:
                found.append(Step(link, before, wave + 1))
                continue
            if (way[before].link, link) in back:
                wave += self._style.rings_in_waves
                slots += not self._style.rings_in_waves
            found.append(Step(link, before, wave, slots))
        return tuple(found)

    def place(self) -> Shared:
        """As many of the streams as find a place.

        The fuller windows may be, the more frames of the next slot are early for them, and the
        more streams are late. So it is tried how full they may be at most.
        """
        names = sorted(self._streams, key=self._demand)
        best = Shared({}, *self._windows({}))
        full = _FULL
        while full > _FULL // 4:
            self._full, self._less = full, {}
            found = self._repaired(names)
            if found is not None and found.count > best.count:
                best = found
            if found is not None and len(found.slots) == len(names) and not found.late:
                break
            if self._placed <= best.count:
                break
            full -= _FULL // 32
        return best

    def _windows(self, slots: dict[str, int]) -> tuple[Windows, dict[int, Queue]]:
        queues, talkers, ties = self._fill(slots)
        lag_ns = self._style.lag_ns
        windows = Windows(self._times, self.slot_ns, queues, talkers, ties, lag_ns=lag_ns)
        return windows, queues

    def _repaired(self, names: Sequence[str]) -> Shared | None:
        """Windows where none is too long, after some were filled less than they might be; streams
        that are late in them are the first to go without a place."""
        found = None
        for _ in range(_REPAIRS_MAX):
            slots = self._assign(names)
            self._placed = len(slots)
            windows, queues = self._windows(slots)
            holds = windows.find()
            long = self._too_long(windows, queues)
            if not holds or len(long) > max(3, len(queues) // 20):
                return found
            if not long:
                shared = Shared(slots, windows, queues)
                shared.late = self._late(shared)
                if found is None or shared.count > found.count:
                    found = shared
                if not shared.late:
                    return found
                gone = set(shared.late[: max(1, len(shared.late) // 2)])
                names = [name for name in names if name not in gone]
            for link, over_ns in long.items():
                self._less[link] = self._less.get(link, 0) + over_ns
        return found

    def _late(self, shared: Shared) -> list[str]:
        """The streams whose bound is beyond what is allowed, the worst first."""
        over = {
            name: self.bound_ns(shared, name) - self._streams[name].max_latency_ns
            for name in shared.slots
        }
        return sorted((name for name, ns in over.items() if ns > 0), key=lambda n: (-over[n], n))

    def _demand(self, name: str) -> tuple[int, int, str]:
        stream = self._streams[name]
        return stream.period_ns, -stream.frames * stream.payload_octets, name

    def _most_ns(self, link: int) -> int:
        """The most work that a window may hold beside best effort's turn."""
        if link not in self._most:
            its = self._times.of_link(link)
            low, high, room = 0, self.slot_ns, self._room_ns(link)
            shortest = min(self._times.of_frame(link, s).busy_ns for s in self._streams.values())
            while low < high:
                work = (low + high + 1) // 2
                if self._times.left_ns(link, its.late_ns, work, min(work, shortest)) <= room:
                    low = work
                else:
                    high = work - 1
            self._most[link] = low
        return self._most[link] * self._full // _FULL - self._less.get(link, 0)

    def _room_ns(self, link: int) -> int:
        its = self._times.of_link(link)
        return self.slot_ns - its.beside_ns - 2 * its.early_ns - its.shortest_ns

    def _too_long(self, windows: Windows, queues: dict[int, Queue]) -> dict[int, int]:
        over = {link: windows.length_ns(link) - self._room_ns(link) for link in queues}
        return {link: ns for link, ns in over.items() if ns > 0}

    def _fixed_ns(self, stream: Stream) -> int | None:
        """When a talker starts that may not choose its time within a slot."""
        last = stream.period_ns - 1 if stream.latest_ns is None else stream.latest_ns
        return stream.earliest_ns if last - stream.earliest_ns < self.slot_ns - 1 else None

    def _assign(self, names: Sequence[str]) -> dict[str, int]:
        """The slot of each stream: that in which the fullest port of its way is least full."""
        count = self._count
        taken: defaultdict[int, list[int]] = defaultdict(lambda: [0] * count)
        found: dict[str, int] = {}
        for name in names:
            stream = self._streams[name]
            every = stream.period_ns // self.slot_ns
            steps = [
                (step, stream.frames * self._times.of_frame(step.link, stream).busy_ns)
                for way in self._ways_of(name)
                for step in way
                if step.before is not None
            ]
            fixed = self._fixed_ns(stream)
            choices = range(every) if fixed is None else (fixed // self.slot_ns,)
            least, chosen = 1.0, None
            for slot in choices:
                fullest = 0.0
                for step, work in steps:
                    most = self._most_ns(step.link)
                    there = taken[step.link][(slot + step.slots) % every :: every]
                    fullest = max(fullest, (max(there) + work) / max(most, 1))
                    if fullest > least:
                        break
                if fullest < least or (chosen is None and fullest <= least):
                    least, chosen = fullest, slot
            if chosen is None:
                continue
            found[name] = chosen
            for step, work in steps:
                there = taken[step.link]
                for slot in range((chosen + step.slots) % every, count, every):
                    there[slot] += work
        return found

    def _ways_of(self, name: str) -> Iterator[tuple[Step, ...]]:
        return (self._ways[name, path] for path in range(len(self._trees[name])))

    def _fill(
        self, slots: dict[str, int]
    ) -> tuple[dict[int, Queue], dict[int, tuple[int, int]], list[list[Coming]]]:
        queues = {link: Queue(self._times, link, self.slot_ns) for link in self._links}
        works: defaultdict[int, list[int]] = defaultdict(lambda: [0] * self._count)
        coming_works: dict[int, tuple[Coming, list[int]]] = {}
        talkers: defaultdict[int, list[int]] = defaultdict(lambda: [0] * self._count)
        shortest: dict[int, int] = {}
        tied: dict[tuple[int, ...], list[Coming]] = {}
        for name, slot in slots.items():
            stream = self._streams[name]
            every = stream.period_ns // self.slot_ns
            fixed = self._fixed_ns(stream)
            phase = None if fixed is None else fixed % self.slot_ns
            firsts: defaultdict[int, list[Coming]] = defaultdict(list)
            for way in self._ways_of(name):
                for step in way:
                    busy, _, _ = self._times.of_frame(step.link, stream)
                    shortest[step.link] = min(busy, shortest.get(step.link, busy))
                    if step.before is None:
                        sent = talkers[step.link]
                        if name not in firsts or True:
                            pass
                        self._add(sent, slot, every, stream.frames * busy)
                        continue
                    queue, before = queues[step.link], way[step.before]
                    is_first = before.before is None
                    key = (
                        before.link,
                        None if is_first else before.wave,
                        phase if is_first else None,
                        step.slots - before.slots,
                        step.wave,
                    )
                    its = queue.coming.get(key)
                    if its is None:
                        its = queue.coming[key] = Coming(*key)
                        coming_works[id(its)] = its, [0] * self._count
                    came = self._times.of_frame(before.link, stream)
                    flies = came.received_min_ns + self._times.of_link(before.link).flies_min_ns
                    if is_first:
                        flies -= self._times.sooner_ns(before.link, stream)
                        firsts[before.link].append(its)
                    its.add(busy, came.busy_min_ns, flies)
                    work = stream.frames * busy
                    self._add(coming_works[id(its)][1], slot + step.slots, every, work)
                    self._add(works[step.link], slot + step.slots, every, work)
            for several in firsts.values():
                if len(several) > 1:
                    tied[tuple(sorted(map(id, several)))] = several
        for its, work_by_slot in coming_works.values():
            its.work_ns = max(work_by_slot)
        for link, queue in queues.items():
            queue.work_ns, queue.shortest_ns = max(works[link]), shortest.get(link, 1)
        sent_by = {link: (max(sent), shortest[link]) for link, sent in talkers.items()}
        return {link: q for link, q in queues.items() if q.coming}, sent_by, list(tied.values())

    def _add(self, works: list[int], slot: int, every: int, work_ns: int) -> None:
        for index in range(slot % every, self._count, every):
            works[index] += work_ns

    def _start_ns(self, shared: Shared, name: str, way: Sequence[Step]) -> int:
        """When the talker starts to send on a way, from the beginning of its slot on."""
        step = next(step for step in way if step.before is not None and way[step.before].before is None)
        before = way[step.before or 0]
        fixed = self._fixed_ns(self._streams[name])
        phase = None if fixed is None else fixed % self.slot_ns
        key = before.link, None, phase, step.slots - before.slots, step.wave
        return shared.queues[step.link].coming[key].sent_ns

    def bound_ns(self, shared: Shared, name: str) -> int:
        """From the first start of a stream to its last bit at the last listener."""
        stream = self._streams[name]
        starts, ends = [], []
        between = self._problem.clocks.between_ns
        for way in self._ways_of(name):
            starts.append(self._start_ns(shared, name, way))
            for step in way:
                link = self._problem.links[step.link]
                if step.before is None or link.target.node not in stream.listeners:
                    continue
                apart = max(between(link.source.node, link.target.node), between(link.source.node, stream.talker))
                left = shared.windows.ends_ns[step.link, step.wave] + step.slots * self.slot_ns
                gap = self._times.of_link(step.link).gap_min_ns
                ends.append(left - gap + link.propagation_ns + apart)
        return max(ends) - min(starts)

    def stream_plans(self, shared: Shared) -> dict[str, StreamPlan]:
        return {name: self._planned(shared, name) for name in shared.slots if name not in shared.late}

    def _planned(self, shared: Shared, name: str) -> StreamPlan:
        stream = self._streams[name]
        windows = shared.windows
        ways = list(self._ways_of(name))
        first = min(self._start_ns(shared, name, way) for way in ways)
        since = shared.slots[name] * self.slot_ns
        # A talker is told an offset within its period.
        since -= (first + since) // stream.period_ns * stream.period_ns
        paths = []
        for way in ways:
            hops = []
            for step in way:
                if step.before is None:
                    opens, lasts = self._start_ns(shared, name, way), windows.talker_ns[step.link]
                else:
                    opens = windows.opens_ns[step.link]
                    lasts = windows.ends_ns[step.link, step.wave] - opens
                source = self._problem.links[step.link].source
                offset = since + opens + step.slots * self.slot_ns
                hops.append(Hop(source, offset, self._class, lasts))
            paths.append(tuple(hops))
        return StreamPlan(tuple(paths), self.bound_ns(shared, name))

    def gate_windows(self, shared: Shared) -> dict[int, list[tuple[int, Window]]]:
        """For each link of a switch the windows in which its gate is to be open, each with its
        period."""
        used: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        for name, slot in shared.slots.items():
            if name in shared.late:
                continue
            every = self._streams[name].period_ns // self.slot_ns
            for way in self._ways_of(name):
                for step in way:
                    if step.before is not None:
                        used[step.link].add((every, (slot + step.slots) % every))
        found = {}
        for link, slots in used.items():
            cycle = lcm(*{every for every, _ in slots})
            busy = {at for every, slot in slots for at in range(slot, cycle, every)}
            opens = shared.windows.opens_ns[link]
            closes = shared.windows.closes_ns(link)
            window = Window(opens, closes, self._class)
            if len(busy) == cycle:
                found[link] = [(self.slot_ns, window)]
                continue
            found[link] = [
                (
                    cycle * self.slot_ns,
                    window._replace(
                        open_ns=window.open_ns + at * self.slot_ns,
                        close_ns=window.close_ns + at * self.slot_ns,
                    ),
                )
                for at in sorted(busy)
            ]
        return found

