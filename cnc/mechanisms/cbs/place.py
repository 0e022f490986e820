"""The idle slopes of a port of a switch: from a plan, compared, and in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from cnc.data_tree.tree import PortReport
from cnc.mechanism import AtPlace, Kept, configured_or_drifted, leaving_former
from cnc.mechanisms.cbs.model import IdleSlopes, PortSlopes, Row, SlopeReport
from cnc.mechanisms.cbs.tree import edit, reported, stored
from cnc.model import Plan, PortRef, StoredPort
from cnc.support.format import rate


def derive(plan: Plan, nodes: Collection[str]) -> dict[PortRef, PortSlopes]:
    """Of each port of these switches by which a class with credit leaves."""
    slopes = plan[IdleSlopes].by_port
    return {port: PortSlopes(its) for port, its in slopes.items() if port.node in nodes}


def configured_difference(desired: PortSlopes, its: StoredPort) -> str | None:
    """How the configured idle slopes differ, in words; None where they are the same."""
    before = its[PortSlopes]
    if before == desired:
        return None
    return f"idle slopes: {_words(before.by_class)} become {_words(desired.by_class)}"


def drifted(desired: PortSlopes, _stored: StoredPort, report: PortReport | None) -> str | None:
    """How the kernel differs from what is stored, which is desired."""
    return differs(desired, report, None)


def differs(desired: PortSlopes, report: PortReport | None, _base_ns: int | None) -> str | None:
    """How the kernel differs from what is desired, in words; None where it does not."""
    found = report[SlopeReport].by_class if report else {}
    if found == desired.by_class:
        return None
    return f"idle slopes are {_words(found)}, expected {_words(desired.by_class)}"


def since(before: PortReport, now: PortReport) -> str | None:
    """How the kernel does otherwise than before."""
    if before[SlopeReport] == now[SlopeReport]:
        return None
    return "the idle slopes are not the same as before"


def _words(by_class: Mapping[int, int]) -> str:
    found = (f"traffic class {number} {rate(bps)}" for number, bps in sorted(by_class.items()))
    return ", ".join(found) or "none"


def _does(its: PortSlopes) -> str | None:
    return f"idle slopes {_words(its.by_class)}" if its.by_class else None


def _rows(its: PortSlopes) -> Iterator[Row]:
    for number, slope_bps in sorted(its.by_class.items()):
        yield Row(number, slope_bps)


def _part(rows: tuple[Row, ...]) -> PortSlopes:
    return PortSlopes({its.traffic_class: its.idle_slope_bps for its in rows})


AT_PLACE = AtPlace(
    part=PortSlopes,
    derive=derive,
    leaving=leaving_former(derive, PortSlopes()),
    needs_change=configured_or_drifted("the switch", configured_difference, drifted),
    configured=configured_difference,
    differs=differs,
    drifted=drifted,
    since=since,
    waits=lambda its, report: bool(its.by_class) and not report[SlopeReport].by_class,
    does=_does,
    idle="no idle slopes",
    previous=lambda _its, its_stored: its_stored[PortSlopes],
    edit=edit,
    stored=stored,
    reported=reported,
    kept=Kept("port-idle-slopes", Row, _rows, _part),
)
