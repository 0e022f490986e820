"""Whether gates are open only when those of another list are."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from cnc.model import GateControlList


def opens_within(one: GateControlList, other: GateControlList) -> bool:
    """Whether each gate that a list opens is open by the other one at that time as well."""
    until_ns = lcm(one.cycle_ns, other.cycle_ns)
    its, others = _entries(one, until_ns), _entries(other, until_ns)
    states, end_ns = next(its)
    other_states, other_end_ns = next(others)
    while True:
        if states & ~other_states:
            return False
        if end_ns == other_end_ns == until_ns:
            return True
        now_ns = min(end_ns, other_end_ns)
        if end_ns == now_ns:
            states, end_ns = next(its)
        if other_end_ns == now_ns:
            other_states, other_end_ns = next(others)


def _entries(gates: GateControlList, until_ns: int) -> Iterator[tuple[int, int]]:
    """What is open until when, cycle after cycle."""
    end_ns = 0
    while end_ns < until_ns:
        for entry in gates.entries:
            end_ns += entry.interval_ns
            yield entry.gate_states, end_ns
