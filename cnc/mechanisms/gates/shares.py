"""The gate control list that a port gets for classes whose windows are given as shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lcm

from cnc.mechanisms.gates.given import GivenList
from cnc.model import GateEntry, GivenWindow
from cnc.support.format import duration


def share_list(shares: Sequence[GivenWindow], *, control: int, others: int) -> GivenList:
    """In each window its class is open, beside those of the mask `control`; between windows these
    and those of `others` are."""
    cycle_ns = lcm(*(each.every_ns for each in shares))
    entries: list[GateEntry] = []
    at_ns = 0
    for start_ns, end_ns, number in _windows(shares, cycle_ns):
        if start_ns > at_ns:
            entries.append(GateEntry(control | others, start_ns - at_ns))
        entries.append(GateEntry(control | 1 << number, end_ns - start_ns))
        at_ns = end_ns
    if at_ns < cycle_ns:
        entries.append(GateEntry(control | others, cycle_ns - at_ns))
    return GivenList(cycle_ns, tuple(entries))


def overlap(shares: Mapping[str, GivenWindow]) -> str | None:
    """Which windows meet first, in words; None: none do."""
    cycle_ns = lcm(*(each.every_ns for each in shares.values()))
    names = {each.number: name for name, each in shares.items()}
    ended_ns, before = 0, -1
    for start_ns, end_ns, number in _windows(tuple(shares.values()), cycle_ns):
        if start_ns < ended_ns:
            return (
                f"windows that begin at {duration(start_ns)}, while those of class "
                f"{names[before]} last until {duration(ended_ns)}"
            )
        ended_ns, before = end_ns, number
    return None


def _windows(shares: Sequence[GivenWindow], cycle_ns: int) -> Sequence[tuple[int, int, int]]:
    """All of a cycle in order: start, end and class."""
    return sorted(
        (start_ns, start_ns + each.window_ns, each.number)
        for each in shares
        for start_ns in range(each.start_ns, cycle_ns, each.every_ns)
    )


def entries_of(shares: Sequence[GivenWindow]) -> tuple[int, int]:
    """After how long all windows repeat together, and how many entries the list has at most: known
    without making it."""
    cycle_ns = lcm(*(each.every_ns for each in shares))
    return cycle_ns, 1 + sum(2 * (cycle_ns // each.every_ns) for each in shares)


def starts_ns(after: Mapping[str, int | str], lengths_ns: Mapping[str, int]) -> dict[str, int]:
    """When the windows of each class begin that states a duration, or a class behind which they
    follow; those that follow each other in a circle, or nobody, are left out."""
    return {name: start for name in after for start in _start_ns(name, after, lengths_ns)}


def _start_ns(
    name: str, after: Mapping[str, int | str], lengths_ns: Mapping[str, int]
) -> Iterator[int]:
    total_ns, seen = 0, {name}
    behind = after[name]
    while isinstance(behind, str):
        if behind in seen or behind not in after:
            return
        seen.add(behind)
        total_ns += lengths_ns[behind]
        behind = after[behind]
    yield total_ns + behind
