"""Gate control lists as tables that tell quickly when a gate is open."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby
from math import lcm
from operator import itemgetter
from typing import Protocol

from cnc.model import GateControlList

_STATES = 256


class Openings(Protocol):
    """What tells how early a frame may leave a port."""

    def earliest_start_ns(
        self, number: int, earliest_ns: int, planned_ns: int, period_ns: int
    ) -> int:
        """As that of `Gate`, of class `number`."""
        ...


class GateCycle:
    """A gate control list that repeats for ever, from time 0 on.

    `gated` has a bit for each class whose gate must be shut at the planned time of another,
    `best_effort` for those of them that also must have been shut for `guard_ns` before. Gates may
    open and close up to `early_ns` sooner than the list says.
    """

    def __init__(
        self,
        gates: GateControlList,
        *,
        gated: int,
        best_effort: int,
        guard_ns: int,
        early_ns: int = 0,
    ) -> None:
        self.early_ns = early_ns
        self.cycle_ns = gates.cycle_ns
        self._gated = gated
        self._best_effort = best_effort
        self._guard_ns = guard_ns
        # Two cycles in a row, so that what goes on over the end of one is in one piece.
        self._states = bytes([entry.gate_states % _STATES for entry in gates.entries]) * 2
        intervals = [entry.interval_ns for entry in gates.entries]
        self._edges = array("q", accumulate(intervals * 2, initial=0))
        self._gates: dict[int, Gate] = {}

    def gate(self, number: int) -> Gate:
        """The gate of class `number`."""
        found = self._gates.get(number)
        if found is None:
            found = self._gates[number] = self._read(number)
        return found

    def earliest_start_ns(
        self, number: int, earliest_ns: int, planned_ns: int, period_ns: int
    ) -> int:
        """As that of the gate of class `number`."""
        return self.gate(number).earliest_start_ns(earliest_ns, planned_ns, period_ns)

    def open_ns(self, number: int, start_ns: int, end_ns: int) -> int:
        """For how long the gate of class `number` is open within [start, end)."""
        total = 0
        time = start_ns
        while time < end_ns:
            phase = time % self.cycle_ns
            entry = bisect_right(self._edges, phase) - 1
            until = min(end_ns, time + self._edges[entry + 1] - phase)
            total += (self._states[entry] >> number & 1) * (until - time)
            time = until
        return total

    def runs_ns(self, mask: int, value: int) -> Iterator[int]:
        """How long each run of entries lasts that agree with `value` in the bits of `mask`."""
        return (self._edges[end] - self._edges[first] for first, end in self._runs(mask, value))

    def stretches(self, *, opened: int, shut: int, within_ns: int) -> list[tuple[int, int]]:
        """When all gates of the mask `opened` are open and all of `shut` shut, as (start, end) in
        order of their starts, of those that start from 0 to `within_ns`, some cycles later."""
        once = sorted(
            (start % self.cycle_ns, start % self.cycle_ns + self._edges[end] - start)
            for first, end in self._runs(opened | shut, opened)
            for start in [self._edges[first]]
        )
        return [
            (start + later, end + later)
            for later in range(0, within_ns, self.cycle_ns)
            for start, end in once
        ]

    def _runs(self, mask: int, value: int) -> list[tuple[int, int]]:
        """The first entry of each run, and the one after its last."""
        agrees = self._states.translate(_agreeing(mask, value))
        count = len(agrees) // 2
        end = agrees.find(0)
        if end < 0:
            return [(0, count)]
        runs = []
        last = end + count
        while (first := agrees.find(1, end, last)) >= 0:
            end = agrees.find(0, first)
            runs.append((first, end))
        return runs

    def _read(self, number: int) -> Gate:
        bit = 1 << number
        opened = self._states.translate(_agreeing(bit, bit))
        alone = self._states.translate(_agreeing(self._gated, bit))
        quiet = self._states.translate(_agreeing(self._best_effort, 0))
        return Gate(
            cycle_ns=self.cycle_ns,
            edges=self._edges,
            opened=opened,
            alone=alone,
            quiet=quiet,
            guard_ns=self._guard_ns,
            early_ns=self.early_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The gate of one class: when it is open, and when a frame finds it clear.

    Of each entry of two cycles, which begin at `edges`, `opened` says whether the gate is open,
    `alone` whether it is so with no other gated one, and `quiet` whether those of best effort are
    shut. It is clear where it is alone, and best effort was shut for `guard_ns` before it was.
    """

    cycle_ns: int
    edges: Sequence[int]
    opened: bytes
    alone: bytes
    quiet: bytes
    guard_ns: int
    early_ns: int

    @property
    def when(self) -> tuple[int, int, list[tuple[int, bool]]]:
        """All that tells when it is open: the cycle, how early it may be, and its changes."""
        states = zip(self.edges, map(bool, self.opened), strict=False)
        changes = [next(run) for _, run in groupby(states, itemgetter(1))]
        return self.cycle_ns, self.early_ns, changes

    def last_open_ns(self, time_ns: int) -> int:
        """The end of the last open stretch that begins before `time_ns`, or that time."""
        edges, count = self.edges, len(self.opened) // 2
        phase = time_ns % self.cycle_ns
        entry = bisect_right(edges, phase, 0, count) - 1 + count
        last = self.opened.rfind(1, 0, entry + 1)
        if last == entry:
            return time_ns
        return time_ns - (phase if last < 0 else phase + self.cycle_ns - edges[last + 1])

    def earliest_start_ns(self, earliest_ns: int, planned_ns: int, period_ns: int) -> int:
        """The least time into any period, from `earliest_ns` on, at which the gate may be open.

        `planned_ns` at the latest: there the gate is open if the plan is sound.
        """
        edges, opened, cycle, early = self.edges, self.opened, self.cycle_ns, self.early_ns
        count = len(opened) // 2
        wait = max(planned_ns - earliest_ns, 0)
        for time in range(earliest_ns, earliest_ns + lcm(cycle, period_ns), period_ns):
            phase = time % cycle
            entry = bisect_right(edges, phase, 0, count) - 1
            following = opened.find(1, entry)
            if following == entry:
                return earliest_ns
            if following > 0 and (opens_in := edges[following] - phase - early) < wait:
                wait = max(opens_in, 0)
        return earliest_ns + wait

    def doubtful(self, offset_ns: int, duration_ns: int, period_ns: int) -> list[int]:
        """The multiples of the period at which a frame is not all in one clear stretch, which may
        end early."""
        duration_ns += self.early_ns
        edges, alone, cycle = self.edges, self.alone, self.cycle_ns
        count, found = len(alone) // 2, []
        for shift in range(0, lcm(cycle, period_ns), period_ns):
            phase = (offset_ns + shift) % cycle
            entry = bisect_right(edges, phase, 0, count) - 1
            end = alone.find(0, entry)
            if self._is_loud_before(entry) or (end >= 0 and edges[end] < phase + duration_ns):
                found.append(shift)
        return found

    def _is_loud_before(self, entry: int) -> bool:
        """Whether best effort was open shortly before the gate was alone."""
        edges, count = self.edges, len(self.alone) // 2
        first = self.alone.rfind(0, 0, entry + count) + 1
        first += 0 if first >= count else count  # with a whole cycle before it
        loud = self.quiet.rfind(0, first - count, first)
        return loud >= 0 and edges[first] - edges[loud + 1] < self.guard_ns


@cache
def _agreeing(mask: int, value: int) -> bytes:
    """For each gate state, whether it agrees with `value` in the bits of `mask`."""
    return bytes(states & mask == value for states in range(_STATES))
