"""Traffic classes for gate control lists that switches run, from what their kernels report. Pure.

The class of priority 0, which frames without a mark have, is best effort; the highest other class
is control if no list ever shuts it; all others are scheduled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from cnc.data_tree.tree import PRIORITIES, GatesReport
from cnc.discover.model import DraftClass
from cnc.model import ClassRole, Forwarding
from cnc.support.format import counted

_CONTROL_MAX_OCTETS = 128
_BEST_EFFORT_MAX_OCTETS = 1522
_DSCPS = 64
_SELECTOR_STEP = 8  # class selectors (RFC 2474 4.2.2.1): CS1 is 8, CS2 is 16, …


def classes_of(
    gated: Sequence[GatesReport], forwarding: Forwarding
) -> tuple[tuple[DraftClass, ...], tuple[str, ...]]:
    """The classes that most of these ports have, the highest first, and remarks on the others."""
    sorts = Counter(_sorted_by(each) for each in gated)
    (priority_map, rules), ports = sorts.most_common(1)[0]
    remarks = []
    if others := len(gated) - ports:
        remarks.append(
            f"{counted(others, 'port')} with a gate control list sort frames into other traffic "
            "classes than most: masks of gates mean others there"
        )
    open_always = 0xFF
    for each in gated:
        for entry in each.newest.gates.entries if each.newest else ():
            open_always &= entry.gate_states
    made = tuple(_classes(priority_map, dict(rules), open_always, forwarding))
    owners = {each.priority: each.number for each in made}
    best_effort = priority_map[0]
    moved = [p for p, n in enumerate(priority_map) if owners.get(p, best_effort) != n]
    if moved:
        shown = ", ".join(map(str, moved))
        remarks.append(
            f"an intent has one priority a class: a push lets frames of {shown} go as best effort"
        )
    return made, tuple(remarks)


def _sorted_by(gates: GatesReport) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """What decides a frame's class: priorities, and rules by DSCP."""
    return gates.priority_map, tuple(sorted(gates.dscp_priorities.items()))


def _classes(
    priority_map: Sequence[int],
    rules: Mapping[int, int],
    open_always: int,
    forwarding: Forwarding,
) -> Iterator[DraftClass]:
    best_effort = priority_map[0]
    numbers = sorted({*priority_map}, reverse=True)
    above = [number for number in numbers if number != best_effort]
    control = next((number for number in above[:1] if open_always >> number & 1), None)
    cyclic = next((number for number in above if number != control), None)
    unused = [dscp for dscp in range(1, _DSCPS) if dscp not in rules]
    for number in numbers:
        priority = _priority(priority_map, number, rules)
        dscps = tuple(sorted(dscp for dscp, its in rules.items() if its == priority))
        if number == best_effort:
            name, role, octets = "best-effort", ClassRole.BEST_EFFORT, _BEST_EFFORT_MAX_OCTETS
            yield DraftClass(name, number, priority, dscps, role, octets)
        elif number == control:
            name, role, octets = "control", ClassRole.CONTROL, _CONTROL_MAX_OCTETS
            yield DraftClass(name, number, priority, dscps, role, octets)
        else:
            name = "cyclic" if number == cyclic else f"class-{number}"
            marks = tuple(dscp for dscp in dscps if dscp)  # 0 is that of unmarked frames
            if marks or forwarding is Forwarding.BRIDGED:
                yield DraftClass(name, number, priority, marks, ClassRole.SCHEDULED, None)
            else:
                yield _without_rule(name, number, priority, unused)


def _without_rule(name: str, number: int, priority: int, unused: list[int]) -> DraftClass:
    """A class that no frame has by its DSCP, which a scheduled one in a routed network has to have:
    of these that no class has, that of its priority if it is among them."""
    if not unused:
        remark = "no rule gives frames this class by their DSCP, and none is left for one"
        return DraftClass(name, number, priority, (), ClassRole.BEST_EFFORT, None, (remark,))
    selector = _SELECTOR_STEP * priority
    dscp = selector if selector in unused else unused[0]
    unused.remove(dscp)
    remark = "no rule gives frames this class by their DSCP: it is an assumption"
    return DraftClass(name, number, priority, (dscp,), ClassRole.SCHEDULED, None, (remark,))


def _priority(priority_map: Sequence[int], number: int, rules: Mapping[int, int]) -> int:
    """Of several that have a class: 0, one that a rule gives, that of its number, or the least."""
    candidates = [priority for priority in range(PRIORITIES) if priority_map[priority] == number]
    given = [priority for priority in candidates if priority in rules.values()]
    of_number = [priority for priority in candidates if priority == number]
    return 0 if 0 in candidates else [*given, *of_number, *candidates][0]
