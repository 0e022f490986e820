"""How what a port runs differs from something else, in words short enough for a table's cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from cnc.format import counted
from cnc.model import NS_PER_S, GateControlList, GateEntry

# Of more differences of one kind only these many are named.
MAX_NAMED = 4


def gates_apart(has: GateControlList, other: GateControlList) -> str:
    """Two lists that are not equal: their sizes, and where they part first."""
    words = f"another gate control list: {gates(has)} instead of {gates(other)}"
    for index, (one, two) in enumerate(zip_longest(has.entries, other.entries)):
        if one != two:
            parted = f"{_entry(one)} instead of {_entry(two)}"
            return f"{words}; first difference in entry {index}: {parted}"
    return words


def gates(its: GateControlList) -> str:
    return f"{counted(len(its.entries), 'entry')}, cycle {_exact(its.cycle_ns)}"


def priorities_apart(has: Sequence[int], other: Sequence[int]) -> str:
    """Two maps from priority (the index) to traffic class that are not equal."""
    return "another priority map: " + named(
        f"priority {priority} in class {one} instead of {two}"
        for priority, (one, two) in enumerate(zip(has, other, strict=True))
        if one != two
    )


def rules_apart(has: Mapping[int, int], other: Mapping[int, int], surplus: str) -> str:
    """Two maps from DSCP to priority that are not equal; of a rule too many is said `surplus`."""
    parted = sorted(
        (*rule, what)
        for what, rules in (
            ("is missing", other.items() - has.items()),
            (surplus, has.items() - other.items()),
        )
        for rule in rules
    )
    return named(f"DSCP {dscp} to priority {priority} {what}" for dscp, priority, what in parted)


def configured_beside(extras: Sequence[str]) -> str:
    """What a port has besides what a rollout sets; there is at least one such thing."""
    return f"also configured, but in no plan: {named(extras)}"


def extras_apart(has: Sequence[str], other: Sequence[str], surplus: str) -> str:
    """Two sets of what a port has besides, "" if equal; of one too many is said `surplus`."""
    return named(
        [
            *(f"{extra} is missing" for extra in other if extra not in has),
            *(f"{extra} {surplus}" for extra in has if extra not in other),
        ]
    )


def named(things: Iterable[str]) -> str:
    """All of them, or the first and how many more there are."""
    listed = list(things)
    more = len(listed) - MAX_NAMED
    return ", ".join(listed[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _entry(entry: GateEntry | None) -> str:
    return f"gates {entry.gate_states:#04x} for {_exact(entry.interval_ns)}" if entry else "none"


def _exact(time_ns: int) -> str:
    """In the largest unit of which it is a whole number: two that differ never read alike."""
    for unit, size_ns in (("s", NS_PER_S), ("ms", 1_000_000), ("µs", 1_000)):
        if time_ns and time_ns % size_ns == 0:
            return f"{time_ns // size_ns} {unit}"
    return f"{time_ns} ns"
