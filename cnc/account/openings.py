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
_ENDLESS_NS = 1 << 62


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
        clear = self._clear(bit)
        return Gate(
            cycle_ns=self.cycle_ns,
            edges=self._edges,
            opened=self._states.translate(_agreeing(bit, bit)),
            clear_from_ns=[start for start, _ in clear],
            clear_until_ns=[end for _, end in clear],
            early_ns=self.early_ns,
        )

    def _clear(self, bit: int) -> list[tuple[int, int]]:
        """When the gate of one class is open with no other gated one, and best effort was shut for
        `guard_ns` before, as (start, end): what starts in a cycle, and the last of that before.
        """
        edges, count = self._edges, len(self._states) // 2
        quiet = self._states.translate(_agreeing(self._best_effort, 0))
        found = []
        for first, end in self._runs(self._gated, bit):
            first_again = first if first >= count else first + count  # with a cycle before it
            loud = quiet.rfind(0, first_again - count, first_again)
            if loud < 0 or edges[first_again] - edges[loud + 1] >= self._guard_ns:
                start_ns = edges[first_again] - self.cycle_ns
                lasts_ns = edges[end] - edges[first] if end - first < count else _ENDLESS_NS
                found.append((start_ns, start_ns + lasts_ns))
        found.sort()
        last_ns, until_ns = found[-1] if found else (0, 0)
        return [(last_ns - self.cycle_ns, until_ns - self.cycle_ns), *found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The gate of one class: when it is open, and when a frame finds it clear.

    Of each entry of two cycles, which begin at `edges`, `opened` says whether the gate is open. It
    is clear from each of `clear_from_ns`, which are in order, until that of `clear_until_ns`.
    """

    cycle_ns: int
    edges: Sequence[int]
    opened: bytes
    clear_from_ns: Sequence[int]
    clear_until_ns: Sequence[int]
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
        starts, ends, cycle = self.clear_from_ns, self.clear_until_ns, self.cycle_ns
        found = []
        for shift in range(0, lcm(cycle, period_ns), period_ns):
            phase = (offset_ns + shift) % cycle
            if ends[bisect_right(starts, phase) - 1] < phase + duration_ns:
                found.append(shift)
        return found


@cache
def _agreeing(mask: int, value: int) -> bytes:
    """For each gate state, whether it agrees with `value` in the bits of `mask`."""
    return bytes(states & mask == value for states in range(_STATES))
