"""Where a stream may join windows that others share: slots, starts of its talker, and ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import NamedTuple

from cnc.errors import Lack
from cnc.model import Stream
from cnc.planner.floor import us
from cnc.planner.graph import Tree
from cnc.planner.live.running import Joined, RunningLayout, Stated
from cnc.planner.problem import Problem
from cnc.planner.route import Member
from cnc.planner.sharing.queue import Queue
from cnc.planner.sharing.taken import Taken
from cnc.planner.sharing.times import Times
from cnc.planner.sharing.ways import Step

_NO_ROOM = (
    "the windows that frames share on its path have no room for it in any slot. What would help: a "
    "`reserve` of its class in the next plan (`cnc plan`)"
)
_SLOTS_MAX = 8  # that are tried, the emptiest first
_ENDS_MAX = 5  # tries of ends for one start


class OfClass(NamedTuple):
    """What there is of a class: its number, the windows that are stated, what they hold now if
    there are any, and what others take of the links."""

    number: int
    stated: Stated
    layout: RunningLayout | None
    taken: Taken


class Joining:
    """The ways for a stream to take part in the windows of a class; `problem` has it and all that
    run. `why` and `lacks` say why there are none, once `tried` is through."""

    def __init__(
        self, problem: Problem, there: OfClass, stream: Stream, trees: Sequence[Tree]
    ) -> None:
        self._problem = problem
        self._number, self._stated, self._layout, self._taken = there
        self._stream = stream
        self._trees = trees
        self._times = Times(problem)
        self._slot_ns = there.stated.slot_ns
        self.why, self.lacks = "", Lack.ROOM

    def tried(self) -> Iterator[RunningLayout]:
        """Layouts that hold, with all streams in time."""
        self.why = _NO_ROOM
        self.lacks = Lack.ROOM
        for is_behind, slot in product((False, True), self._slots()):
            for sent_ns in self._starts_ns(slot):
                layout = self._with(slot, sent_ns, is_behind=is_behind)
                if layout is None:
                    continue
                bound_ns = layout.bound_ns(self._stream.name)
                if bound_ns > self._stream.max_latency_ns:
                    self.lacks = Lack.TIME
                    self.why = (
                        f"no window that frames share brings it in time: it would take up to "
                        f"{us(bound_ns)}, its max-latency is {us(self._stream.max_latency_ns)}"
                    )
                elif reason := layout.impossible(self._stream.name):
                    self.why, self.lacks = reason, Lack.ROOM
                else:
                    self.why = ""
                    yield layout

    def _slots(self) -> list[int]:
        """The slots to begin in, the emptiest first."""
        every = self._stream.period_ns // self._slot_ns
        if self._layout is None:
            return list(range(min(every, _SLOTS_MAX)))
        layout, links = self._layout, {link for tree in self._trees for link in tree}
        known = links & layout.queues.keys()
        load = {n: layout.load(self._stream, n, dict.fromkeys(known, 0)) for n in range(every)}
        return sorted(load, key=lambda n: (load[n], n))[:_SLOTS_MAX]

    def _starts_ns(self, slot: int) -> Iterator[tuple[int, int]]:
        """When the talker may start, from the beginning of the slot on, and in how long its frames
        have left."""
        stream = self._stream
        latest = stream.period_ns - 1 if stream.latest_ns is None else stream.latest_ns
        begins_ns, alone_ns = slot * self._slot_ns, self._sent_lasts_ns(self._trees[0][0])
        tried = set()
        for start_ns, lasts_ns in (*self._good_starts_ns(alone_ns), (0, alone_ns)):
            offset_ns = (begins_ns + start_ns) % stream.period_ns
            if (start_ns, lasts_ns) not in tried and stream.earliest_ns <= offset_ns <= latest:
                tried.add((start_ns, lasts_ns))
                yield start_ns, lasts_ns
        if not tried and stream.earliest_ns // self._slot_ns == slot:
            yield stream.earliest_ns % self._slot_ns, alone_ns

    def _good_starts_ns(self, alone_ns: int) -> Iterator[tuple[int, int]]:
        """With others of the talker, or apart from them; such that the frames come as the first
        window opens, or behind all others in it."""
        first = self._trees[0][0]
        others = {
            its.sent_ns[first] for its in self._stated.joined.values() if first in its.sent_ns
        }
        yield from sorted(others)
        for start_ns, lasts_ns in sorted(others):
            yield start_ns - alone_ns, alone_ns
            yield start_ns + lasts_ns, alone_ns
        second = next((n for n in self._trees[0][1:]), None)
        if second is None or second not in self._stated.opens_ns or self._layout is None:
            return
        opened_ns = self._stated.opens_ns[second] + self._times.of_link(second).late_ns
        yield opened_ns - self._comes_ns(first, second, alone_ns), alone_ns
        if queue := self._layout.queues.get(second):
            last_ns = max(coming.latest_ns or 0 for coming in queue.coming.values())
            ended_ns = self._layout.windows.ended_ns(second)
            # So that those before it have left each link for sure, however quick its own are.
            turns = list(pairwise(self._trees[0]))
            vary_ns = sum(self._comes_ns(*each, 0) - self._flies_ns(*each) for each in turns)
            for behind_ns in (last_ns, ended_ns + vary_ns):
                yield behind_ns - self._flies_ns(first, second) + 1, alone_ns

    def _sent_lasts_ns(self, link: int) -> int:
        """How long the frames take to leave their talker, alone."""
        its = self._times.of_link(link)
        frame_ns = self._times.of_frame(link, self._stream).busy_ns
        work_ns = self._stream.frames * frame_ns
        return self._times.left_ns(link, its.late_ns - its.ahead_ns, work_ns, frame_ns)

    def _comes_ns(self, one: int, other: int, left_ns: int) -> int:
        """When frames are surely in the queue of a link that have left the one before."""
        apart_ns = self._times.apart_ns(one, other)
        return left_ns + self._times.of_link(one).arrives_ns + apart_ns

    def _flies_ns(self, one: int, other: int) -> int:
        """In what time the first frame may be there."""
        frame = self._times.of_frame(one, self._stream)
        flies_ns = frame.received_min_ns + self._times.of_link(one).flies_min_ns
        flies_ns -= self._times.sooner_ns(one, self._stream)
        return flies_ns - self._times.apart_ns(one, other)

    def _with(
        self, slot: int, sent_ns: tuple[int, int], *, is_behind: bool
    ) -> RunningLayout | None:
        """What becomes of the windows if the stream begins so; None where they do not hold."""
        trial = _Trial(self._stated.copy(), Joined(slot, []), is_behind)
        trial.stated.joined[self._stream.name] = trial.joined
        for tree in self._trees:
            self._lay(trial, tree, sent_ns)
        for _ in range(_ENDS_MAX):
            layout = RunningLayout(self._problem, self._number, trial.stated, self._taken)
            if not layout.is_known or not layout.is_possible():
                return None
            over = layout.windows.over()
            if not over:
                return layout
            if not all(trial.lengthen(*at, left_ns) for at, left_ns in over.items()):
                return None
        return None

    def _lay(self, trial: _Trial, tree: Tree, sent_ns: tuple[int, int]) -> None:
        """Let a way lead through the last waves of windows, and open those that are missing."""
        stated, joined, links = trial.stated, trial.joined, self._problem.links
        inbound: dict[str, int] = {}
        way: list[Step] = []
        ends: list[int] = []  # when frames have left, from the beginning of the slot on
        is_copy = self._problem.starts_with_copy(Member(self._stream.name, len(joined.ways)))
        for index, link in enumerate(tree):
            before = inbound.get(links[link].source.node)
            if before is None:
                if not (is_copy and link in joined.sent_ns):
                    joined.sent_ns[link] = sent_ns
                way.append(Step(link, None))
                ends.append(sum(joined.sent_ns[link]))
            else:
                comes_ns = self._comes_ns(way[before].link, link, ends[before])
                if link not in stated.opens_ns:
                    self._open(trial, link, comes_ns, is_first=way[before].before is None)
                slots = self._slots_after(trial, link, comes_ns)
                wave = len(stated.lasts_ns[link]) - 1
                way.append(Step(link, before, wave, slots))
                ended_ns = stated.opens_ns[link] + stated.lasts_ns[link][wave]
                ends.append(ended_ns + slots * self._slot_ns)
            inbound[links[link].target.node] = index
        joined.ways.append(tuple(way))

    def _slots_after(self, trial: _Trial, link: int, comes_ns: int) -> int:
        """How many slots after it was sent a frame leaves in the window of a link: the first in
        which there is time left, or, behind others, the one that may last longer for it."""
        stated = trial.stated
        opens_ns, lasts_ns = stated.opens_ns[link], stated.lasts_ns[link][-1]
        frame_ns = self._times.of_frame(link, self._stream).busy_ns
        work_ns = self._stream.frames * frame_ns
        if not trial.is_behind:
            return -((opens_ns + lasts_ns - work_ns - comes_ns) // self._slot_ns)
        slots = (comes_ns - opens_ns) // self._slot_ns
        left_ns = self._times.left_ns(link, comes_ns, work_ns, frame_ns) - slots * self._slot_ns
        if left_ns - opens_ns > lasts_ns and link not in trial.own:
            trial.own[link] = len(stated.lasts_ns[link])
            stated.lasts_ns[link].append(left_ns - opens_ns)
        return slots

    def _open(self, trial: _Trial, link: int, comes_ns: int, *, is_first: bool) -> None:
        """Open a window where there is none: so that frames wait for nothing but those before, and
        those who join later have the reserve of the class. Behind the first switch these may come
        as late as the window before it ends, of which the reserve is a part already."""
        its = self._times.of_link(link)
        frame_ns = self._times.of_frame(link, self._stream).busy_ns
        work_ns = self._stream.frames * frame_ns
        reserve_ns = self._problem.reserve_ns(self._number, self._slot_ns)
        opens_ns = comes_ns - its.late_ns - (0 if is_first else reserve_ns)
        opens_ns = Queue(self._times, link, self._slot_ns).clear_of_seam_ns(opens_ns)
        behind_ns = min(reserve_ns, frame_ns)
        left_ns = max(
            self._times.left_ns(link, since_ns, work, frame_ns)
            for since_ns, work in (
                (comes_ns, work_ns + behind_ns),
                (opens_ns + its.late_ns, work_ns + reserve_ns + behind_ns),
            )
        )
        trial.stated.opens_ns[link] = opens_ns % self._slot_ns
        trial.stated.lasts_ns[link] = [left_ns - opens_ns]
        trial.own[link] = 0


@dataclass(slots=True)
class _Trial:
    """A stream that is joined for a trial, with the windows for it, among others or `is_behind`
    them; `own` are the waves that are its alone, by link."""

    stated: Stated
    joined: Joined
    is_behind: bool
    own: dict[int, int] = field(default_factory=dict)

    def lengthen(self, link: int, wave: int, left_ns: int) -> bool:
        """Let the window of the stream on a link last until all have left, behind those of others;
        whether it is the stream's own wave that needs more time."""
        steps = [step for way in self.joined.ways for step in way if step.before is not None]
        if (link, wave) not in {(step.link, step.wave) for step in steps}:
            return False
        lasts_ns = left_ns - self.stated.opens_ns[link]
        if link in self.own:
            self.stated.lasts_ns[link][self.own[link]] = lasts_ns
            return True
        self.own[link] = len(self.stated.lasts_ns[link])
        self.stated.lasts_ns[link].append(lasts_ns)
        self.joined.ways[:] = [
            tuple(its._replace(wave=self.own[link]) if its.link == link else its for its in way)
            for way in self.joined.ways
        ]
        return True
