"""What the hardware of a port takes over, and what it will make of a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.data_tree.hardware import HardwareReport, described
from cnc.data_tree.tree import GatesReport, PortReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanisms.gates.openings import shortest_opening_octets
from cnc.model import GateMode, Plan, PortConfiguration, PortRef
from cnc.support.format import counted


def examine_hardware(
    plan: Plan, desired: Mapping[PortRef, PortConfiguration], reports: Mapping[PortRef, PortReport]
) -> Iterator[Finding]:
    """What the driver of each port takes, and what it will make of the list that is asked for."""
    for port, report in sorted(reports.items()):
        its = report[GatesReport].hardware
        if its is None or port not in plan.intent.network.links:
            continue
        asked = desired.get(port)
        warnings = [*_warnings(plan, port, asked, its)] if asked else []
        for text, hint in warnings:
            yield Finding(*port, Check.HARDWARE, Verdict.WARNING, text, hint)
        if not warnings:
            yield Finding(*port, Check.HARDWARE, Verdict.OK, "; ".join(described(its)))


def _warnings(
    plan: Plan, port: PortRef, asked: PortConfiguration, its: HardwareReport
) -> Iterator[tuple[str, str]]:
    """No failure: a driver may have learned since its source was read, and refuses by itself."""
    if its.offload is None or asked.mode is not GateMode.FULL_OFFLOAD:
        return
    by = f"by {' and '.join(its.offload.source)} of Linux 6.12"
    if "gates" not in its.offload.takes:
        yield (
            f"the driver {its.driver} takes no gates, {by}: it will refuse full-offload",
            "state `gates: software` of the switch in the intent",
        )
    if its.offload.drops_long_frames:
        link = plan.intent.network.links[port]
        for each in plan.intent.classes.values():
            octets = shortest_opening_octets(plan.intent, link, asked.gates, each.number)
            if octets is not None and octets < each.max_frame_octets:
                text = (
                    f"the driver {its.driver} drops frames of class {each.name} longer than "
                    f"{counted(octets, 'octet')}, which do not fit its shortest opening, {by}"
                )
                yield text, "state its `max-frame`, if its frames are shorter, or software gates"
