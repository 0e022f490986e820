"""Whether the filters of a port are where the intent wants them, and its driver takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.data_tree.tree import GatesReport, PortReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import BridgeForwarding, InHardware, Plan, PortRef

_USE = "state `filters-in-hardware: preferred` of the switch in the intent"


def examine_filters(
    plan: Plan, bridges: Mapping[PortRef, BridgeForwarding], reports: Mapping[PortRef, PortReport]
) -> Iterator[Finding]:
    """All failures, and warnings of drivers; nothing of a network that routes."""
    for ref, desired in bridges.items():
        wanted = plan.intent.network.bridges[ref.node].filters_in_hardware
        if wanted is InHardware.REQUIRED:
            for text in _programs(desired):
                yield Finding(*ref, Check.HARDWARE, Verdict.FAILED, text, _USE)
        for port, report in reports.items():
            if port.node == ref.node and port.port in desired.members:
                yield from _of_port(port, report, wanted)


def _programs(desired: BridgeForwarding) -> Iterator[str]:
    for each in MECHANISMS:
        its = each.switch
        if its.program and (concerned := its.concerned(desired[each.part], desired.names)):
            yield (
                f"filters-in-hardware is required, and {its.program} of the kernel is to "
                f"{its.yang.task} {concerned}: no driver takes it"
            )


def _of_port(port: PortRef, report: PortReport, wanted: InHardware) -> Iterator[Finding]:
    its = report[GatesReport].hardware
    forwards = its.forwards if its else None
    text = None
    if wanted is InHardware.REQUIRED and not forwards:
        text = "filters-in-hardware is required, and " + (
            "the switch does not say whether hardware forwards the frames of this port"
            if forwards is None
            else "the kernel forwards the frames of this port: its filters are in software"
        )
    elif wanted is InHardware.NEVER and forwards:
        text = (
            "filters-in-hardware is never, and the hardware of the switch forwards the frames of "
            "this port: filters in software do not see them"
        )
    if text:
        yield Finding(*port, Check.HARDWARE, Verdict.FAILED, text, _USE)
    elif forwards and its and its.offload and "filters" not in its.offload.takes:
        yield Finding(
            *port,
            Check.HARDWARE,
            Verdict.WARNING,
            f"its driver {its.driver} takes no filters, by {' and '.join(its.offload.source)} of "
            "Linux 6.12: it will refuse those of streams and priorities",
            "let the kernel forward, or use another switch for streams",
        )
