"""Gate control lists that an operator gives, and what a port makes of them (802.1Q-2022 8.6.9).

A list begins anew with each cycle, `base_offset_ns` behind a multiple of it on TAI. Where its
entries last shorter, the states of the last one stay until then; where they last longer, what is
behind never runs: the list execute state machine (8.6.9.2) starts over whatever it was at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cnc.model import GateControlList, GateEntry, GivenWindow, PortRef
from cnc.support.format import counted, duration


@dataclass(frozen=True, slots=True)
class GivenList:
    """A list as it is stated; the entries may last otherwise than the cycle."""

    cycle_ns: int
    entries: tuple[GateEntry, ...]
    base_offset_ns: int = 0


@dataclass(frozen=True, slots=True)
class GivenLists:
    """Those of ports of switches. At the ports `shared` they follow from the windows that classes
    have by share, and streams may leave between these."""

    by_port: Mapping[PortRef, GivenList] = field(default_factory=dict)
    shares: Mapping[str, GivenWindow] = field(default_factory=dict)
    shared: frozenset[PortRef] = frozenset()


def operative(given: GivenList) -> GateControlList:
    """The list that a port runs from the start of a cycle on: lasting for the cycle, and begun so
    much later as `base_offset_ns` says."""
    left_ns = given.cycle_ns - given.base_offset_ns
    head: list[GateEntry] = []  # up to the end of the cycle
    tail: list[GateEntry] = []  # of the list that began the cycle before
    for each in _for_the_cycle(given):
        own_ns = min(left_ns, each.interval_ns)
        left_ns -= own_ns
        if own_ns:
            head.append(GateEntry(each.gate_states, own_ns))
        if own_ns < each.interval_ns:
            tail.append(GateEntry(each.gate_states, each.interval_ns - own_ns))
    return GateControlList(given.cycle_ns, (*tail, *head))


def _for_the_cycle(given: GivenList) -> Iterator[GateEntry]:
    left = given.cycle_ns
    for number, each in enumerate(given.entries, 1):
        is_last = number == len(given.entries)
        interval_ns = left if is_last else min(left, each.interval_ns)
        yield GateEntry(each.gate_states, interval_ns)
        left -= interval_ns
        if not left:
            return


def remark(given: GivenList) -> str | None:
    """What becomes of a list that does not last for its cycle, in words; None: it does."""
    lasts_ns = sum(each.interval_ns for each in given.entries)
    lasts = f"its list lasts {duration(lasts_ns)} of a cycle of {duration(given.cycle_ns)}"
    if lasts_ns < given.cycle_ns:
        states = given.entries[-1].gate_states
        rest = duration(given.cycle_ns - lasts_ns)
        return f"{lasts}: the states of its last entry, {states:#04x}, hold for the other {rest}"
    if lasts_ns == given.cycle_ns:
        return None
    run = list(_for_the_cycle(given))
    cut_ns = given.entries[len(run) - 1].interval_ns - run[-1].interval_ns
    lost = []
    if cut_ns:
        lost.append(f"{duration(cut_ns)} of entry {len(run) - 1}")
    if never := len(given.entries) - len(run):
        lost.append(f"the last {counted(never, 'entry')}")
    lasts = f"its list lasts {duration(lasts_ns)}, the cycle {duration(given.cycle_ns)}"
    return f"{lasts}: {' and '.join(lost)} never run"
