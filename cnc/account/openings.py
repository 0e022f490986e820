"""Gate control lists as tables that tell quickly when a gate is open."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from math import lcm
from typing import Protocol

from cnc.model import GateControlList

_NEVER_NS = 2**63
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
        self._states = bytes(entry.gate_states % _STATES for entry in gates.entries) * 2
        intervals = [entry.interval_ns for entry in gates.entries]
        self._edges = array("q", accumulate(intervals * 2, initial=0))
        self._gates: dict[int, Gate] = {}

    def gate(self, number: int) -> Gate:
        """The gate of class `number`."""
        if number not in self._gates:
            self._gates[number] = self._read(number)
        return self._gates[number]

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
        edges = self._edges
        alone = self._states.translate(_agreeing(self._gated, bit))
        quiet = self._states.translate(_agreeing(self._best_effort, 0))
        count = len(alone) // 2
        stretches, clear = [], []
        for first, end in self._runs(bit, bit):
            stretches.append((edges[first], edges[end]))
            begin = alone.find(1, first, end)
            while begin >= 0:
                stop = alone.find(0, begin, end)
                stop = end if stop < 0 else stop
                again = begin if begin >= count else begin + count  # with a whole cycle before it
                noisy = quiet.rfind(0, again - count, again)
                if noisy < 0 or edges[again] - edges[noisy + 1] >= self._guard_ns:
                    clear.append((edges[begin], edges[stop]))
                begin = alone.find(1, stop, end)
        return Gate(self.cycle_ns, stretches, clear, self.early_ns)


class Gate:
    """The gate of one class: `stretches` of open time, in order, within one cycle.

    Each is (opening, closing). Those parts of them are `clear` in which no other gated class is
    open, and before which none of best effort is for its guard time.
    """

    def __init__(
        self,
        cycle_ns: int,
        stretches: list[tuple[int, int]],
        clear: list[tuple[int, int]],
        early_ns: int,
    ) -> None:
        self._early_ns = early_ns
        self.when = cycle_ns, early_ns, stretches
        # Times count from the first opening, so that no stretch crosses the end of the cycle.
        zero = stretches[0][0] if stretches else 0
        self._cycle_ns = cycle_ns
        self._zero_ns = zero
        self._opens = [opening - zero for opening, _ in stretches] or [0]
        self._opens.append(cycle_ns if stretches else _NEVER_NS)
        self._closes = [closing - zero for _, closing in stretches] or [0]
        # What comes before the first is in none.
        self._clear_from = [-1, *(begin - zero for begin, _ in clear)]
        self._clear_until = [-1, *(end - zero for _, end in clear)]

    def last_open_ns(self, time_ns: int) -> int:
        """The end of the last open stretch that begins before `time_ns`, or that time."""
        phase = (time_ns - self._zero_ns) % self._cycle_ns
        stretch = bisect_right(self._opens, phase) - 1
        return time_ns - max(0, phase - self._closes[stretch])

    def earliest_start_ns(self, earliest_ns: int, planned_ns: int, period_ns: int) -> int:
        """The least time into any period, from `earliest_ns` on, at which the gate may be open.

        `planned_ns` at the latest: there the gate is open if the plan is sound.
        """
        opens, closes, cycle = self._opens, self._closes, self._cycle_ns
        wait = max(planned_ns - earliest_ns, 0)
        first = earliest_ns - self._zero_ns
        for time in range(first, first + lcm(cycle, period_ns), period_ns):
            phase = time % cycle
            following = bisect_right(opens, phase)
            if phase < closes[following - 1]:
                return earliest_ns
            wait = min(wait, max(opens[following] - phase - self._early_ns, 0))
        return earliest_ns + wait

    def doubtful(self, offset_ns: int, duration_ns: int, period_ns: int) -> Iterator[int]:
        """The multiples of the period at which a frame is not all in one clear stretch, which may
        end early."""
        duration_ns += self._early_ns
        clear_from, clear_until, cycle = self._clear_from, self._clear_until, self._cycle_ns
        first = offset_ns - self._zero_ns
        for shift in range(0, lcm(cycle, period_ns), period_ns):
            phase = (first + shift) % cycle
            stretch = bisect_right(clear_from, phase) - 1
            if phase + duration_ns > clear_until[stretch]:
                yield shift


@cache
def _agreeing(mask: int, value: int) -> bytes:
    """For each gate state, whether it agrees with `value` in the bits of `mask`."""
    return bytes(states & mask == value for states in range(_STATES))
