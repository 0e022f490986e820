"""What may be in a queue while its gate is open, and when all of it has left."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc.planner.gates import clear_of_seam
from cnc.planner.sharing.times import FrameTimes, Times

SLOTS_MAX = 4  # by how many slots frames may be early in windows that are any good
PARTS = 1 << 20  # of a ns, in which what comes in by a link is reckoned


@dataclass(slots=True)
class Origin:
    """Those of some frames that one talker sends at one time: `work_ns` in the fullest slot, the
    first of them from `earliest_ns` on."""

    works_ns: list[int]  # by slot
    work_ns: int = 0
    earliest_ns: int | None = None


@dataclass(slots=True)
class Coming:
    """Frames of one slot that come to a queue by one link, in one wave.

    They come from wave `before` of the link `link`; or from their talker, where `before` is None,
    which starts to send them at `sent_ns`; that is `start_ns`, if it may not choose. Their work on
    its link is `sent_work_ns` in the fullest slot, and they have left `lasts_ns` later; if they
    start up to `room_ns` sooner, they come after the window of the slot before. Around a ring
    they come `laps` later. The link that they leave by is theirs for `work_ns` in the fullest slot,
    of which the longest takes `frame_ns`, and all of one stream `burst_ns`, on the link before
    `came_burst_ns`; and they come as `flow` parts of that in each ns. `earliest_ns` and `latest_ns`
    are from the beginning of the slot on, as far as they are known. The first may be much earlier
    than others: so they are by `origins`, too.
    """

    link: int
    before: int | None
    start_ns: int | None
    laps: int
    wave: int
    works_ns: list[int]  # by slot
    sent_works_ns: list[int]
    work_ns: int = 0
    frame_ns: int = 0
    burst_ns: int = 0
    came_burst_ns: int = 0
    flow: int = 0
    flies_min_ns: int = 1 << 62
    sent_ns: int = 0
    sent_work_ns: int = 0
    lasts_ns: int = 0
    room_ns: int = 0
    earliest_ns: int | None = None
    latest_ns: int | None = None
    origins: dict[int, Origin] = field(default_factory=dict)

    def origin(self, key: int) -> Origin:
        if key not in self.origins:
            self.origins[key] = Origin([0] * len(self.works_ns))
        return self.origins[key]

    def early_ns(self, by_ns: int, until_ns: int) -> int:
        """How much work of a slot may come until an instant, if it comes earlier by so much."""
        comes = (
            (origin.work_ns, until_ns + by_ns - (origin.earliest_ns or 0))
            for origin in self.origins.values()
        )
        return sum(
            min(work, self.frame_ns - (-self.flow * since // PARTS))
            for work, since in comes
            if since >= 0
        )

    def add(self, frame_ns: int, came: FrameTimes, frames: int, flies_min_ns: int) -> None:
        """So many frames of one more stream, both copies of each, may be among them."""
        self.frame_ns = max(self.frame_ns, frame_ns)
        self.burst_ns = max(self.burst_ns, frames * frame_ns)
        self.came_burst_ns = max(self.came_burst_ns, frames * came.busy_ns)
        self.flow = max(self.flow, -(-frame_ns * PARTS // came.busy_min_ns))
        self.flies_min_ns = min(self.flies_min_ns, flies_min_ns)


class _Part(NamedTuple):
    """What may come by one link until some instant: `work_ns` in all, the last by `until_ns`."""

    work_ns: int
    frame_ns: int
    flow: int
    until_ns: int


class _Slot:
    """What may come of one slot from an instant on, which is no more than the fullest has: sums of
    straight lines, of which some begin or end at each of `turns`, in order."""

    def __init__(self, parts: Iterable[_Part], most_ns: int) -> None:
        self.most_ns = most_ns
        changes: list[tuple[int, int, int, int]] = []  # when, and what all, slope and rest become
        for work, frame, flow, until in parts:
            if flow and work > frame:
                rest = frame * PARTS + flow * until
                whole = until - (work - frame) * PARTS // flow
                changes += (until, 0, flow, rest), (whole, work * PARTS, -flow, -rest)
            else:
                changes.append((until, work * PARTS, 0, 0))
        changes.sort(reverse=True)
        self._before: list[int] = []  # when, negative, so that they are in order
        self._sums: list[tuple[int, int, int]] = [(0, 0, 0)]
        for at, work, flow, rest in changes:
            whole, slope, rests = self._sums[-1]
            self._before.append(-at)
            self._sums.append((whole + work, slope + flow, rests + rest))

    def from_ns(self, since_ns: int) -> int:
        whole, slope, rest = self._sums[bisect_right(self._before, -since_ns)]
        return min(self.most_ns, -(-(whole + rest - slope * since_ns) // PARTS))

    def turns_ns(self, last_ns: int) -> Iterator[int]:
        """The instants up to the last at which that changes its course."""
        before = None
        for at in (-at for at in self._before):
            yield from (turn for turn in (at, at + 1) if turn <= last_ns)
            if before is not None and self.from_ns(before) < self.from_ns(at) == self.most_ns:
                yield from (turn for turn in [self._last_full_ns(at, before)] if turn <= last_ns)
            before = at

    def _last_full_ns(self, low_ns: int, high_ns: int) -> int:
        """The last instant from which on the fullest slot may still come, between two."""
        while high_ns - low_ns > 1:
            middle = (low_ns + high_ns) // 2
            if self.from_ns(middle) == self.most_ns:
                low_ns = middle
            else:
                high_ns = middle
        return low_ns


class Queue:
    """What leaves by a link in one class."""

    def __init__(
        self,
        times: Times,
        link: int,
        lap_ns: int,
        begins_ns: Sequence[int] = (0,),
        reserve_ns: int = 0,
    ) -> None:
        """Its windows open once in each slot of a lap, which begin so long after it. In each slot
        there may come to be `reserve_ns` of work beside that of the streams."""
        self.times = times
        self.link = link
        self.its = times.of_link(link)
        self.lap_ns = lap_ns
        self._begins_ns = begins_ns
        self.reserve_ns = reserve_ns
        self.coming: dict[tuple[int, int | None, int | None, int, int], Coming] = {}
        self.work_ns = 0  # in the fullest slot
        self.shortest_ns = 1 << 62
        self.knows_waves = False  # whether frames of later waves count only if they come early

    def settle(self, work_ns: int) -> None:
        """All that comes is known: `work_ns` in the fullest slot."""
        self.work_ns = work_ns
        for its in self.coming.values():
            its.work_ns = max(its.works_ns)
            its.sent_work_ns = max(its.sent_works_ns)
            for origin in its.origins.values():
                origin.work_ns = max(origin.works_ns)

    def of_wave(self, wave: int) -> list[Coming]:
        return [its for its in self.coming.values() if its.wave == wave]

    def waves(self) -> list[int]:
        return sorted({its.wave for its in self.coming.values()})

    def clear_of_seam_ns(self, opens_ns: int) -> int:
        """An instant to open the gate, or one before it, at a tick of the port, such that the end
        of a cycle cuts off no entry that is too short for it."""
        opens_ns -= opens_ns % self.its.tick_ns
        for begin in self._begins_ns:
            opens_ns = clear_of_seam(opens_ns + begin, self.lap_ns, self.its.shortest_ns) - begin
        return opens_ns

    def clear_to_shut_ns(self, shuts_ns: int) -> int:
        """An instant to shut it, or one after it, of which the same holds; gates may be early."""
        shuts_ns += self.its.early_ns
        shuts_ns += -shuts_ns % self.its.tick_ns
        for begin in self._begins_ns:
            phase = (shuts_ns + begin) % self.lap_ns
            if 0 < phase < self.its.shortest_ns:
                shuts_ns += self.its.shortest_ns - phase
            elif phase > self.lap_ns - self.its.shortest_ns:
                shuts_ns += self.lap_ns - phase
        return shuts_ns

    def left_ns(self, since_ns: int, work_ns: int) -> int:
        return self.times.left_ns(self.link, since_ns, work_ns, self.shortest_ns)

    def wave_ns(self, wave: int, latest_ns: int, opens_ns: int | None) -> tuple[int, int]:
        """When the last of a wave has left that comes by `latest_ns`, and how much work may be
        ahead of it and its own; where `opens_ns` is None, if the gate has been open for long."""
        parts = self._parts(wave, latest_ns)
        # As many from each slot as the fullest has.
        most = [self.work_ns] * len(parts)
        if self.knows_waves:
            most[0] = self._fullest_ns(wave, latest_ns)
        if self.reserve_ns:
            parts[0].append(self._reserved(latest_ns))
            most[0] += self.reserve_ns
        coming = [_Slot(its, most_ns) for its, most_ns in zip(parts, most, strict=True)]
        since = {at for its in coming for at in its.turns_ns(latest_ns)}
        works = [sum(part.work_ns for part in its) for its in parts]
        works[0] += self._in_time(wave)
        everything = sum(map(min, most, works))
        ends = [-(1 << 62)]
        if opens_ns is not None:
            opened = opens_ns + self.its.late_ns
            since = {at for at in since if at > opened}
            ends.append(self.left_ns(opened, everything))
        ends += [self.left_ns(at, sum(its.from_ns(at) for its in coming)) for at in since]
        return max(ends) + _ROUNDING_NS, everything

    def _reserved(self, latest_ns: int) -> _Part:
        """What may join, by a link that is as fast as those by which others come."""
        flow = max(its.flow for its in self.coming.values())
        frame_ns = min(self.reserve_ns, max(its.frame_ns for its in self.coming.values()))
        return _Part(self.reserve_ns, frame_ns, flow, latest_ns)

    def _fullest_ns(self, wave: int, latest_ns: int) -> int:
        """The work in the fullest slot of what counts for a wave: no later one that comes later."""
        works = [
            its.works_ns
            for its in self.coming.values()
            if its.wave <= wave or its.earliest_ns is None or its.earliest_ns <= latest_ns
        ]
        return max(map(sum, zip(*works, strict=True)))

    def _in_time(self, wave: int) -> int:
        """The work of a wave, and those before, that is there before the gate opens for sure."""
        return sum(
            its.work_ns
            for its in self.coming.values()
            if its.wave <= wave and its.latest_ns is None
        )

    def _parts(self, wave: int, latest_ns: int) -> list[list[_Part]]:
        """What of this slot, and of each of those after it, may come by `latest_ns`."""
        found: list[list[_Part]] = [[]]
        last_ns = latest_ns + self.its.varies_ns
        for its in self.coming.values():
            comes = its.earliest_ns
            if its.wave <= wave and its.latest_ns is not None:
                found[0].append(self._part(its, comes, min(its.latest_ns, last_ns), latest_ns))
            elif its.wave > wave and comes is not None and comes <= latest_ns:
                found[0].append(self._part(its, comes, last_ns, latest_ns))
            if comes is None:
                continue
            slots = min((latest_ns - comes) // self.lap_ns, SLOTS_MAX)
            for slot in range(1, slots + 1):
                if slot == len(found):
                    found.append([])
                later_ns = slot * self.lap_ns
                part = self._part(its, comes + later_ns, last_ns, latest_ns)
                work = min(part.work_ns, its.early_ns(-later_ns, min(last_ns, latest_ns)))
                found[slot].append(part._replace(work_ns=work, frame_ns=min(work, part.frame_ns)))
        return found

    def _part(self, its: Coming, comes_ns: int | None, until_ns: int, latest_ns: int) -> _Part:
        work = its.work_ns
        if its.flow and comes_ns is not None:
            more = -(-its.flow * max(min(until_ns, latest_ns) - comes_ns, 0) // PARTS)
            work = min(work, its.frame_ns + more)
        return _Part(work, min(its.frame_ns, work), its.flow, until_ns)


_ROUNDING_NS = 16  # what sums of parts, each rounded up, may come to beside each other
