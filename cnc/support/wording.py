"""Differences between two configurations of a port as text that fits a table's cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from cnc.model import NS_PER_S, GateControlList, GateEntry, StoredGates
from cnc.support.format import counted

# Further differences of one kind are only counted.
MAX_NAMED = 4
DRAFT = "gates are on, but what is configured is no list in force (another client's draft?)"
INTERFACE_GATES = (
    "gates are configured in ieee802-dot1dc-sched-if:gate-parameter-table, which no plan uses"
)
FOREIGN_GATES_HINT = (
    "push again, which replaces what the other client has configured by what is planned"
)
GATES_WAIT_HINT = (
    "the agent sets them once the clock has settled; until then frames leave at any time, and "
    "talkers get no offsets"
)

NO_BRIDGE = "the switch has no such bridge"


def foreign_gates(stored: StoredGates) -> str | None:
    """Why the gates of a port are no rollout's, whatever list they have; None: they may be one's.
    FOREIGN_GATES_HINT says what to do."""
    if stored.has_interface_gates:
        return INTERFACE_GATES
    return DRAFT if stored.is_draft else None


def link_hint(port: str) -> str:
    """What to do about a port whose link carries no frames."""
    return f"check the cable and the far end; ip link set {port} up"


def gate_difference(actual: GateControlList, reference: GateControlList) -> str:
    """Two lists that are not equal: their sizes, and the first entry that differs."""
    text = f"another gate control list: {gates(actual)} instead of {gates(reference)}"
    for index, (one, two) in enumerate(zip_longest(actual.entries, reference.entries)):
        if one != two:
            entries = f"{_entry(one)} instead of {_entry(two)}"
            return f"{text}; first difference in entry {index}: {entries}"
    return text


def gates(gcl: GateControlList) -> str:
    return f"{counted(len(gcl.entries), 'entry')}, cycle {_exact(gcl.cycle_ns)}"


def priority_difference(actual: Sequence[int], reference: Sequence[int]) -> str:
    """Two maps from priority (the index) to traffic class that are not equal."""
    return "another priority map: " + named(
        f"priority {priority} in class {one} instead of {two}"
        for priority, (one, two) in enumerate(zip(actual, reference, strict=True))
        if one != two
    )


def rule_difference(actual: Mapping[int, int], reference: Mapping[int, int], surplus: str) -> str:
    """Two maps from DSCP to priority that are not equal; `surplus` describes a rule that only
    `actual` has."""
    differences = sorted(
        (*rule, what)
        for what, rules in (
            ("is missing", reference.items() - actual.items()),
            (surplus, actual.items() - reference.items()),
        )
        for rule in rules
    )
    return named(
        f"DSCP {dscp} to priority {priority} {what}" for dscp, priority, what in differences
    )


def configured_beside(extras: Sequence[str]) -> str:
    """Settings of a port that a rollout does not manage; there is at least one."""
    return f"also configured, but in no plan: {named(extras)}"


def gates_wait(reason: str) -> str:
    """Of a switch that has started, and holds stored gates back."""
    return f"gates wait for the clock: {reason}"


def extras_difference(actual: Sequence[str], reference: Sequence[str], surplus: str) -> str:
    """Two sets of further settings, "" if equal; `surplus` describes one that only `actual` has."""
    return named(
        [
            *(f"{extra} is missing" for extra in reference if extra not in actual),
            *(f"{extra} {surplus}" for extra in actual if extra not in reference),
        ]
    )


def named(items: Iterable[str]) -> str:
    """All items, or the first MAX_NAMED and the number of further ones."""
    listed = list(items)
    more = len(listed) - MAX_NAMED
    return ", ".join(listed[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _entry(entry: GateEntry | None) -> str:
    return f"gates {entry.gate_states:#04x} for {_exact(entry.interval_ns)}" if entry else "none"


def _exact(time_ns: int) -> str:
    """In the largest unit of which it is a whole number, so that different times differ as text."""
    for unit, size_ns in (("s", NS_PER_S), ("ms", 1_000_000), ("µs", 1_000)):
        if time_ns and time_ns % size_ns == 0:
            return f"{time_ns // size_ns} {unit}"
    return f"{time_ns} ns"
