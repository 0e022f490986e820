"""When a gate control list lets a class pass, by the clock of its switch (802.1Q 8.6.8.4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

from cnc.model import GateControlList, GateEntry

ALWAYS_NS = 1 << 62


class Stretch(NamedTuple):
    """Time in which a gate is open without a break; it may span several entries and cycles."""

    open_ns: int
    close_ns: int


def moved(gates: GateControlList, early_ns: Callable[[], int]) -> GateControlList:
    """The list with each edge sooner by what `early_ns` says, in their order all the same."""
    edges: list[int] = []
    at = 0
    for entry in gates.entries:
        edges.append(max(at - early_ns(), edges[-1] + 1 if edges else -gates.cycle_ns))
        at += entry.interval_ns
    ends = [*edges[1:], edges[0] + gates.cycle_ns]
    entries = [
        GateEntry(its.gate_states, end - start)
        for its, start, end in zip(gates.entries, edges, ends, strict=True)
    ]
    # The cycle begins where it did: what is before comes again at its end.
    before = -edges[0]
    while before > 0:
        first = entries.pop(0)
        part = min(before, first.interval_ns)
        before -= part
        entries.append(GateEntry(first.gate_states, part))
        if part < first.interval_ns:
            entries.insert(0, GateEntry(first.gate_states, first.interval_ns - part))
    return GateControlList(gates.cycle_ns, tuple(entries))


class Gate:
    """The time in which any class of `mask` may send. A port without a list has all gates open."""

    def __init__(self, gates: GateControlList | None, mask: int) -> None:
        entries = gates.entries if gates else ()
        is_open = [bool(entry.gate_states & mask) for entry in entries]
        self._always = all(is_open)
        self._cycle_ns = gates.cycle_ns if gates else ALWAYS_NS
        self._zero_ns = 0
        self._opens: list[int] = []
        self._closes: list[int] = []
        if self._always or not any(is_open):
            return
        count = len(entries)
        first = next(i for i in range(count) if is_open[i] and not is_open[i - 1])
        edges = [0, *accumulate(entry.interval_ns for entry in entries)]
        self._zero_ns = edges[first]
        at = 0
        for index in (*range(first, count), *range(first)):
            until = at + entries[index].interval_ns
            if is_open[index]:
                if self._closes and self._closes[-1] == at:
                    self._closes[-1] = until
                else:
                    self._opens.append(at)
                    self._closes.append(until)
            at = until

    def stretch(self, time_ns: int, least_ns: int = 0) -> Stretch | None:
        """The first stretch of at least `least_ns` that closes after `time_ns`."""
        if self._always:
            return Stretch(-ALWAYS_NS, ALWAYS_NS)
        phase = (time_ns - self._zero_ns) % self._cycle_ns
        index = bisect_right(self._closes, phase)
        begin = time_ns - phase
        count = len(self._closes)
        for number in range(index, index + count):
            turn, place = divmod(number, count)
            opens, closes = self._opens[place], self._closes[place]
            if closes - opens >= least_ns:
                shift = begin + turn * self._cycle_ns
                return Stretch(opens + shift, closes + shift)
        return None

    def last_open_ns(self, time_ns: int) -> int | None:
        """The last moment up to `time_ns` right before which the gate was open."""
        if self._always:
            return time_ns
        if not self._opens:
            return None
        phase = (time_ns - self._zero_ns) % self._cycle_ns
        if phase == 0:
            return time_ns - self._cycle_ns + self._closes[-1]
        place = bisect_right(self._opens, phase - 1) - 1
        return time_ns - phase + min(phase, self._closes[place])
