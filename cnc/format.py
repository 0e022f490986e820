"""Figures as people read them: the one wording for every room that prints."""

from __future__ import annotations

from cnc.model import NS_PER_S, GateControlList


def microseconds(time_ns: int) -> str:
    """A time in microseconds without its unit, exact, no trailing zeros: 8.704."""
    return f"{time_ns / 1000:.3f}".rstrip("0").rstrip(".")


def duration(time_ns: int) -> str:
    """A time in the largest unit that keeps it readable: 312 ns, 4.5 µs, 1 ms, 1.2 s."""
    for unit, size_ns in (("s", NS_PER_S), ("ms", 1_000_000), ("µs", 1_000)):
        if abs(time_ns) >= size_ns:
            return f"{round(time_ns / size_ns, 3):g} {unit}"
    return f"{time_ns} ns"


def gate_summary(gates: GateControlList | None) -> str:
    """A gate control list in a table's cell."""
    if gates is None:
        return "–"  # noqa: RUF001
    return f"{duration(gates.cycle_ns)}, {len(gates.entries)} entries"
