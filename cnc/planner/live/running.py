"""Shared windows of one class as a plan has them: streams may join, the windows of others stay.

The frames of a plan that runs leave in windows whose ends were stated. So nothing is laid out here:
it is asked whether all frames have left by these ends, with one stream more or less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm

from cnc.model import Plan, PortRef, Stream, StreamPlan
from cnc.planner.problem import Problem
from cnc.planner.sharing.layout import Asked, Layout
from cnc.planner.sharing.order import Turn, ordered
from cnc.planner.sharing.taken import Taken
from cnc.planner.sharing.times import Times
from cnc.planner.sharing.ways import Step
from cnc.planner.sharing.windows import Windows

Way = tuple[Step, ...]


@dataclass(slots=True)
class Joined:
    """How a stream takes part: the slot that it begins in, its ways, and by the links of its talker
    when in the slot it starts and until when it has left."""

    slot: int
    ways: list[Way]
    sent_ns: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Stated:
    """The windows of one class: when in a slot they open, by link, and by when the frames of each
    wave have left, counted from there."""

    slot_ns: int
    opens_ns: dict[int, int] = field(default_factory=dict)
    lasts_ns: dict[int, list[int]] = field(default_factory=dict)
    joined: dict[str, Joined] = field(default_factory=dict)

    def copy(self) -> Stated:
        """The same, to be changed."""
        lasts = {link: list(its) for link, its in self.lasts_ns.items()}
        return Stated(self.slot_ns, dict(self.opens_ns), lasts, dict(self.joined))

    def without_unused(self) -> Stated:
        """The same without windows that no frames leave in."""
        used: defaultdict[int, set[int]] = defaultdict(set)
        for its in self.joined.values():
            for step in (step for way in its.ways for step in way if step.before is not None):
                used[step.link].add(step.wave)
        found = Stated(self.slot_ns)
        number = {link: {wave: n for n, wave in enumerate(sorted(w))} for link, w in used.items()}
        for link, waves in number.items():
            found.opens_ns[link] = self.opens_ns[link]
            found.lasts_ns[link] = [self.lasts_ns[link][wave] for wave in waves]
        for name, its in self.joined.items():
            ways = [
                tuple(
                    step
                    if step.before is None
                    else step._replace(wave=number[step.link][step.wave])
                    for step in way
                )
                for way in its.ways
            ]
            found.joined[name] = replace(its, ways=ways)
        return found


def stated_by(
    plan: Plan, names: Collection[str], numbers: Mapping[PortRef, int], *, turned: bool
) -> Stated:
    """The windows of the streams of one class; `numbers` are those of links, by port. What talkers
    start in one slot by this account depends on when it begins: with the period, or, if `turned`,
    behind the longest time in which they start nothing."""
    slot_ns = _slot_ns(plan, names)
    found = Stated(slot_ns)
    ends: defaultdict[int, set[int]] = defaultdict(set)
    for name in names:
        for hop in plan.streams[name].hops:
            link = numbers[hop.egress]
            if hop.egress.node in plan.intent.network.bridges:
                found.opens_ns[link] = hop.offset_ns % slot_ns
                ends[link].add(hop.window_ns)
    found.lasts_ns = {link: sorted(its) for link, its in ends.items()}
    begins_ns = _begins_ns(plan, names, slot_ns) if turned else {}
    for name in names:
        found.joined[name] = _joined(plan, name, numbers, found, begins_ns)
    return found


def _begins_ns(plan: Plan, names: Collection[str], slot_ns: int) -> dict[PortRef, int]:
    """When slots are to begin at talkers."""
    starts: defaultdict[PortRef, set[int]] = defaultdict(set)
    for name in names:
        for path in plan.streams[name].paths:
            starts[path[0].egress].add(path[0].offset_ns % slot_ns)
    found = {}
    for port, its in starts.items():
        phases = sorted(its)
        before = [phases[-1] - slot_ns, *phases[:-1]]
        gaps = [start - last for start, last in zip(phases, before, strict=True)]
        found[port] = phases[gaps.index(max(gaps))]
    return found


def _slot_ns(plan: Plan, names: Collection[str]) -> int:
    """The longest slot in each of which all windows may open at one time."""
    slot_ns = gcd(*(plan.intent.streams[name].period_ns for name in names))
    first: dict[PortRef, int] = {}
    for name in names:
        for hop in plan.streams[name].hops:
            if hop.egress.node in plan.intent.network.bridges:
                slot_ns = gcd(slot_ns, hop.offset_ns - first.setdefault(hop.egress, hop.offset_ns))
    return slot_ns


def _joined(
    plan: Plan,
    name: str,
    numbers: Mapping[PortRef, int],
    stated: Stated,
    begins_ns: Mapping[PortRef, int],
) -> Joined:
    planned, stream = plan.streams[name], plan.intent.streams[name]
    slot_ns, links = stated.slot_ns, plan.intent.network.links
    first, port = min((path[0].offset_ns, path[0].egress) for path in planned.paths)
    begins = begins_ns.get(port, 0)
    since = first - (first - begins) % slot_ns - begins
    its = Joined(since // slot_ns % (stream.period_ns // slot_ns), [])
    for path in planned.paths:
        inbound: dict[str, int] = {}
        way: list[Step] = []
        for index, hop in enumerate(path):
            link, before = numbers[hop.egress], inbound.get(hop.egress.node)
            if before is None:
                its.sent_ns[link] = hop.offset_ns - since, hop.window_ns
                way.append(Step(link, None))
            else:
                slots = (hop.offset_ns - since - stated.opens_ns[link]) // slot_ns
                wave = stated.lasts_ns[link].index(hop.window_ns)
                way.append(Step(link, before, wave, slots))
            inbound[links[hop.egress].target.node] = index
        its.ways.append(tuple(way))
    return its


class _JoinedWays:
    """The ways of streams that run."""

    has_rings = False

    def __init__(self, joined: Mapping[str, Joined]) -> None:
        self._joined = joined
        turns: defaultdict[Turn, float] = defaultdict(float)
        links: set[int] = set()
        for its in joined.values():
            for way in its.ways:
                for step in way:
                    if step.before is not None:
                        links.add(step.link)
                        if way[step.before].before is not None:
                            turns[way[step.before].link, step.link] += 1
        self.links = ordered(links, turns)

    def of(self, name: str) -> Iterator[Way]:
        """The ways of a stream."""
        return iter(self._joined[name].ways)


class _StatedWindows(Windows):
    def resume(self, stated: Stated) -> bool:
        """Have the windows that are stated; whether it is known of all frames when they come."""
        self.opens_ns = {link: stated.opens_ns[link] for link in self._queues}
        self.ends_ns = {
            (link, wave): self.opens_ns[link] + stated.lasts_ns[link][wave]
            for link, queue in self._queues.items()
            for wave in queue.waves()
        }
        lasts = {
            (link, sent): lasts
            for its in stated.joined.values()
            for link, (sent, lasts) in its.sent_ns.items()
        }
        for queue in self._queues.values():
            for its in queue.coming.values():
                if its.before is None:
                    its.sent_ns = its.start_ns or 0
                    its.lasts_ns = lasts[its.link, its.sent_ns]
        return self._spread() and not self._is_hopeless()

    def over(self) -> dict[tuple[int, int], int]:
        """The waves whose frames may not have left by their ends, and when they have."""
        return {
            (link, wave): left_ns
            for (link, wave), end_ns in self.ends_ns.items()
            if (left_ns := self._ends_by_ns(self._queues[link], wave)) > end_ns
        }

    def meets_others(self) -> bool:
        """Whether some are open, or talkers send, in times that are not theirs."""
        is_free = all(
            self._is_free(at, self.opens_ns[at], self.closes_ns(at)) for at in self.opens_ns
        )
        return not is_free or bool(self.in_the_way())

    def meet_each_other(self) -> bool:
        """Whether a window may be open into that of the next slot, or into what is best effort's
        between them."""
        return any(
            self.length_ns(link) + its.beside_ns + 2 * its.early_ns + its.shortest_ns
            > self._slot_ns
            for link, its in ((link, queue.its) for link, queue in self._queues.items())
        )

    def are_sent_in_time(self) -> bool:
        """Whether the frames of all talkers have left by when they are to."""
        late = [link for link, talker in self._talkers.items() if not talker.resume()]
        return not late


class RunningLayout(Layout):
    """The windows that are stated, with the streams that are joined."""

    _kind_of_windows = _StatedWindows
    windows: _StatedWindows

    def __init__(self, problem: Problem, number: int, stated: Stated, taken: Taken) -> None:
        self.stated = stated
        streams = {name: problem.intent.streams[name] for name in stated.joined}
        cycle = lcm(stated.slot_ns, *(its.period_ns for its in streams.values()))
        starts = {
            (name, link): sent
            for name, its in stated.joined.items()
            for link, (sent, _) in its.sent_ns.items()
        }
        ways = _JoinedWays(stated.joined)
        asked = Asked(
            problem,
            streams,
            (number,),
            stated.slot_ns,
            stated.slot_ns,
            cycle // stated.slot_ns,
            Times(problem),
            ways,
            taken,
            starts,
        )
        super().__init__(asked, {name: its.slot for name, its in stated.joined.items()})
        for queue in self.queues.values():
            queue.knows_waves = True
        self.is_known = self.windows.resume(stated)
        self._is_sent = self.windows.are_sent_in_time()

    def holds(self) -> bool:
        """Whether all frames have left by the ends that are stated."""
        return self.is_known and not self.windows.over() and self.is_possible()

    def is_possible(self) -> bool:
        """Whether talkers do, and no window is in the way of another, or of what else is there."""
        meets = self.windows.meets_others() or self.windows.meet_each_other()
        return self._is_sent and not meets

    def taken(self) -> Iterator[tuple[int, int, int]]:
        """The times of links in each slot that no other frame may have: the link, and from when on
        and for how long its window is open, or its talker sends."""
        for link, queue in self.queues.items():
            yield link, self.windows.opens_ns[link], self.windows.length_ns(link)
            for its in queue.coming.values():
                if its.before is None:
                    yield its.link, its.sent_ns, its.lasts_ns

    def load(self, stream: Stream, slot: int, links: Mapping[int, int]) -> int:
        """The most work in any of the slots that a stream would take of links, by link with how
        many slots after it began."""
        every = stream.period_ns // self.stated.slot_ns
        fullest = 0
        for link, slots in links.items():
            works = self.works_in(link)
            fullest = max(fullest, *works[(slot + slots) % every :: every], 0)
        return fullest

    def works_in(self, link: int) -> Sequence[int]:
        """The work on a link by slot."""
        if link not in self.queues:
            return [0] * self._asked.cycle_slots
        coming = self.queues[link].coming.values()
        return [sum(works) for works in zip(*(its.works_ns for its in coming), strict=True)]

    def plans_of(self, names: Collection[str]) -> dict[str, StreamPlan]:
        """What is planned of some streams."""
        return {name: self._planned(name) for name in names}
