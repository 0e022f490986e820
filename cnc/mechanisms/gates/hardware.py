"""What the hardware of a port takes over, in words, and what it will make of a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.data_tree.tree import GatesReport, HardwareReport, PortReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanisms.gates.openings import shortest_opening_octets
from cnc.model import GateMode, Plan, PortConfiguration, PortRef
from cnc.support.format import counted, gate_limits

_TAKEN = ("gates", "filters", "police", "stream-gates")  # in the order of tsn-linux


def described(its: HardwareReport) -> list[str]:
    """The driver, what it takes, within which limits, and where that is read, in parts."""
    if its.driver is None:
        taken = ["no driver"]
    elif its.offload is None:
        taken = [f"driver {its.driver}: what it offloads is not known"]
    elif its.offload.takes:
        words = [
            f"gates ({gate_limits(its.offload.limits)})" if each == "gates" else each
            for each in _TAKEN
            if each in its.offload.takes
        ]
        taken = [f"driver {its.driver} takes {', '.join(words)}"]
    else:
        taken = [f"driver {its.driver} takes neither gates nor filters"]
    taken += ["MAC merge"] if its.has_mac_merge else []
    if its.stamps is not None:
        taken.append("hardware stamps" if its.stamps else "no hardware stamps")
    if its.offload:
        taken += ["drops frames longer than the shortest gate"] * its.offload.drops_long_frames
        taken += its.offload.notes
        taken.append(f"by {' and '.join(its.offload.source)}")
    return taken


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
