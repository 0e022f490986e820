"""The preemptable priorities of a port of a switch: from a plan, compared, and in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cnc.data_tree.tree import PortReport
from cnc.mechanism import AtPlace, Kept, configured_or_drifted, leaving_former
from cnc.mechanisms.preemption.model import PortPreemption, PreemptionReport, Row
from cnc.mechanisms.preemption.preflight import examine, unverified
from cnc.mechanisms.preemption.tree import edit, reported, stored
from cnc.model import Plan, PortRef, StoredPort


def derive(plan: Plan, nodes: Collection[str]) -> dict[PortRef, PortPreemption]:
    """Of each port of these switches where best effort is to give way."""
    intent = plan.intent
    found = {}
    for port, link in intent.network.links.items():
        if port.node not in nodes or port not in plan.gates:
            continue
        numbers = {its.number for its in intent.preemptable_classes(link)}
        if numbers:
            led_to = enumerate(intent.priority_map())
            found[port] = PortPreemption(tuple(p for p, number in led_to if number in numbers))
    return found


def configured_difference(desired: PortPreemption, its: StoredPort) -> str | None:
    """How the configured priorities differ, in words; None where they are the same."""
    before = its[PortPreemption]
    if before == desired:
        return None
    return f"preemptable: {_words(before.priorities)} becomes {_words(desired.priorities)}"


def drifted(desired: PortPreemption, _stored: StoredPort, report: PortReport | None) -> str | None:
    """How the kernel differs from what is stored, which is desired."""
    found = report[PreemptionReport].priorities if report else ()
    if found == desired.priorities:
        return None
    return f"preemptable is {_words(found)}, expected {_words(desired.priorities)}"


def differs(desired: PortPreemption, report: PortReport | None, _base_ns: int | None) -> str | None:
    """How the port does otherwise than desired, in words; None where it does not."""
    if not desired.priorities or report is None:
        return drifted(desired, StoredPort(), report)
    if fault := unverified(report[PreemptionReport]):
        return f"best effort does not give way: {fault}"
    return drifted(desired, StoredPort(), report)


def since(before: PortReport, now: PortReport) -> str | None:
    """How the port does otherwise than before."""
    if before[PreemptionReport] == now[PreemptionReport]:
        return None
    return "frame preemption is not the same as before"


def _words(priorities: tuple[int, ...]) -> str:
    return f"priority {', '.join(map(str, priorities))}" if priorities else "none"


def _does(its: PortPreemption) -> str | None:
    return f"{_words(its.priorities)} gives way" if its.priorities else None


def _rows(its: PortPreemption) -> Iterator[Row]:
    yield from map(Row, its.priorities)


def _part(rows: tuple[Row, ...]) -> PortPreemption:
    return PortPreemption(tuple(its.priority for its in rows))


AT_PLACE = AtPlace(
    part=PortPreemption,
    derive=derive,
    leaving=leaving_former(derive, PortPreemption()),
    needs_change=configured_or_drifted("the switch", configured_difference, drifted),
    configured=configured_difference,
    differs=differs,
    drifted=drifted,
    since=since,
    waits=lambda its, report: bool(its.priorities) and not report[PreemptionReport].priorities,
    does=_does,
    idle="nothing gives way",
    previous=lambda _its, its_stored: its_stored[PortPreemption],
    edit=edit,
    stored=stored,
    reported=reported,
    kept=Kept("port-preemption", Row, _rows, _part),
    examine=examine,
)
