"""When talkers start to send on a link, which all of their frames share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from operator import le

from cnc.planner.sharing.queue import Coming
from cnc.planner.sharing.times import Times


class Turns(Enum):
    """Which frames of a talker are in each other's way: those of a group that start together, all
    of one slot, those of two slots; or those of one slot, which then start together."""

    APART = auto()
    SLOT = auto()
    TWO_SLOTS = auto()
    TOGETHER = auto()


class Talker:
    """What a talker sends by a link in each slot: `groups` of frames that start together.

    The fewer frames are in each other's way, the sooner they have left; but groups that do not meet
    may have to start much sooner for that. `works_ns` are for how long the frames of the fullest
    slot keep the link, and the shortest of them.
    """

    def __init__(
        self,
        times: Times,
        link: int,
        slot_ns: int,
        groups: Sequence[Sequence[Coming]],
        works_ns: tuple[int, int],
        *,
        takes_turns: bool = False,
    ) -> None:
        self._slot_ns = slot_ns
        self._groups = groups
        self._is_free = all(its.start_ns is None for group in groups for its in group)
        self._takes_turns = takes_turns

        def lasts_ns(work_ns: int) -> int:
            its = times.of_link(link)
            return times.left_ns(link, its.late_ns - its.ahead_ns, work_ns, works_ns[1])

        by_group = [sum(its.sent_work_ns for its in group) for group in groups]
        slot, two_slots = lasts_ns(works_ns[0]), lasts_ns(sum(by_group))
        # From when each group starts until it has left.
        self._lasts_ns = {
            Turns.APART: list(map(lasts_ns, by_group)),
            Turns.SLOT: [slot] * len(groups),
            Turns.TWO_SLOTS: [two_slots] * len(groups),
            Turns.TOGETHER: [slot] * len(groups),
        }
        self._turns: Turns | None = None
        for group in groups:
            for its in group:
                its.lasts_ns = slot

    def resume(self) -> bool:
        """Find by which turns all groups have left in the time that they have from when they start;
        whether there are such."""
        starts = [group[0].sent_ns for group in self._groups]
        lasts = [min(its.lasts_ns for its in group) for group in self._groups]
        spans = sorted((ns % self._slot_ns, last) for ns, last in zip(starts, lasts, strict=True))
        following = [*(start for start, _ in spans[1:]), spans[0][0] + self._slot_ns]
        is_apart = all(ns + last <= on for (ns, last), on in zip(spans, following, strict=True))
        slot, two_slots = (self._lasts_ns[each][0] for each in (Turns.SLOT, Turns.TWO_SLOTS))
        possible = []
        if is_apart and all(map(le, self._lasts_ns[Turns.APART], lasts)):
            possible.append(Turns.APART)
        if slot <= min(lasts) and max(starts) - min(starts) + slot <= self._slot_ns:
            possible.append(Turns.SLOT)
        if two_slots <= min(*lasts, self._slot_ns):
            possible.append(Turns.TWO_SLOTS)
        busy_ns = {}
        for self._turns in possible:
            busy_ns[self._turns] = self.busy_ns - self.pause_ns
        self._turns = min(busy_ns, key=busy_ns.__getitem__, default=None)
        return bool(possible)

    @property
    def busy_ns(self) -> int:
        """From when the first frames of a slot start until all have left; a slot at most, if those
        of the next start meanwhile."""
        every = [its for group in self._groups for its in group]
        ended_ns = max(its.sent_ns + its.lasts_ns for its in every)
        busy_ns = ended_ns - min(its.sent_ns for its in every)
        if self._turns in (Turns.APART, Turns.TWO_SLOTS):
            return min(busy_ns, self._slot_ns)
        return busy_ns

    @property
    def pause_ns(self) -> int:
        """For how long the talker sends nothing in each slot."""
        busy_ns = self.busy_ns
        if self._turns is Turns.APART:
            busy_ns = sum(self._lasts_ns[Turns.APART])
        elif self._turns is Turns.TWO_SLOTS:
            busy_ns = self._lasts_ns[Turns.TWO_SLOTS][0]
        return self._slot_ns - busy_ns

    def agree(self) -> None:
        """Let frames have left no later than each group is to, and start such that they fit into
        slots; once it is known how, in that way again."""
        ended = [min(its.sent_ns + its.lasts_ns for its in group) for group in self._groups]
        first = [max(its.sent_ns - its.room_ns for its in group) for group in self._groups]
        starts = self._starts(self._turns, ended) if self._turns else None
        if self._turns is None or starts is None:
            self._turns, starts = self._chosen(first, ended)
        for group, start_ns, lasts_ns in zip(
            self._groups, starts, self._lasts_ns[self._turns], strict=True
        ):
            for its in group:
                its.sent_ns = start_ns if its.start_ns is None else its.start_ns
                its.lasts_ns = lasts_ns

    def _chosen(self, first: Sequence[int], ended: Sequence[int]) -> tuple[Turns, list[int]]:
        """The turns in which fewest frames start before the `first` times at which they are not
        early for their slot, and wait shortest; and when they start."""

        def cost(starts: Sequence[int]) -> tuple[int, int]:
            early = max(max(0, ns - start) for ns, start in zip(first, starts, strict=True))
            return early, max(end - start for end, start in zip(ended, starts, strict=True))

        ways = (turns for turns in Turns if turns is not Turns.TOGETHER)
        found = [(turns, starts) for turns in ways if (starts := self._starts(turns, ended))]
        if found:
            return min(found, key=lambda each: cost(each[1]))
        return Turns.TOGETHER, self._starts(Turns.TOGETHER, ended) or []

    def _starts(self, turns: Turns, ended: Sequence[int]) -> list[int] | None:
        """When each group starts, to have left by then; None, if a slot is too short for it."""
        lasts = self._lasts_ns[turns]
        starts = [end - ns for end, ns in zip(ended, lasts, strict=True)]
        if turns is Turns.APART:
            if not self._is_free or sum(lasts) > self._slot_ns:
                return None
            apart = self._apart(starts)
            if apart and self._takes_turns:
                ended_ns = max(start + ns for start, ns in zip(apart, lasts, strict=True))
                return apart if ended_ns - min(apart) <= self._slot_ns else None
            return apart
        if turns is Turns.TWO_SLOTS:
            is_possible = self._is_free and not self._takes_turns
            return starts if is_possible and lasts[0] <= self._slot_ns else None
        fixed = [group[0].start_ns for group in self._groups]
        starts = [ns if its is None else its for ns, its in zip(starts, fixed, strict=True)]
        if turns is Turns.TOGETHER:
            return [min(starts)] * len(starts)
        return starts if max(starts) - min(starts) + lasts[0] <= self._slot_ns else None

    def _apart(self, starts: Sequence[int]) -> list[int] | None:
        """Starts so much sooner that groups do not meet, if there is a place for each: those with
        much room for it after those with little."""
        lasts = self._lasts_ns[Turns.APART]
        found = dict[int, int]()
        rooms = [min(its.room_ns for its in group) for group in self._groups]
        for number in sorted(range(len(starts)), key=lambda n: (rooms[n], -starts[n])):
            start_ns, sooner_ns = starts[number], 1
            while sooner_ns:
                sooner_ns = max(
                    (
                        self._meets_ns(start_ns, lasts[number], ns, lasts[n])
                        for n, ns in found.items()
                    ),
                    default=0,
                )
                start_ns -= sooner_ns
                if starts[number] - start_ns > self._slot_ns:
                    return None
            found[number] = start_ns
        return [found[number] for number in range(len(starts))]

    def _meets_ns(self, start_ns: int, lasts_ns: int, other_ns: int, other_lasts_ns: int) -> int:
        """How much sooner some are to start that would meet others, of any slot."""
        behind_ns = (start_ns - other_ns) % self._slot_ns
        if behind_ns < other_lasts_ns:
            return behind_ns + lasts_ns
        return max(0, behind_ns + lasts_ns - self._slot_ns)
