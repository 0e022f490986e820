"""Checks, before a change, that the kernel of a switch can do what its bridges are asked to.

Its agent has asked it for a table of nftables, for the actions of filters, and to verify the
programs (BPF) that police streams and take out copies. It says why it cannot, and which ports hide
the VLAN tags of frames from such a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cnc.finding import Check, Finding, Verdict
from cnc.mechanisms.frer.model import ports_of
from cnc.model import BridgeForwarding, PortRef
from cnc.support.wording import named
from cnc.switch.tree import AgentReport, BridgeReport


def examine_kernel(
    name: str, desired: Iterable[BridgeForwarding], agent: AgentReport
) -> Iterator[Finding]:
    """Failures of the switch `name` where its kernel refuses what its bridges are to do."""
    bridges = list(desired)
    for is_asked, refused, task, otherwise in (
        (
            any(each.entries or each.members for each in bridges),
            agent.forwarding_refused,
            "forward the frames of streams by their listed ports alone",
            "state `forwarding: routed`",
        ),
        (
            any(each.translations or each.named for each in bridges),
            agent.identification_refused,
            "identify streams",
            "state `policing: off`, and neither `identification` nor `elimination: switch`",
        ),
        (
            any(each.filters for each in bridges),
            agent.stream_filters_refused,
            "police what end stations send",
            "state `policing: off`",
        ),
        (
            any(each.sequencing for each in bridges),
            agent.frer_refused,
            "take out second copies of frames",
            "state `elimination: listener`",
        ),
    ):
        if is_asked and refused:
            text = f"cannot {task}: {refused}"
            hint = f"cure that on the switch, or {otherwise}"
            yield Finding(name, None, Check.KERNEL, Verdict.FAILED, text, hint)


def examine_tags(
    ref: PortRef, desired: BridgeForwarding, report: BridgeReport | None
) -> Iterator[Finding]:
    """A failure where numbers are to be written or read in frames whose tags a driver takes off."""
    numbering = {port for its in desired.sequencing.values() for port in ports_of(its)}
    hiding = sorted(numbering & report.hides_tags) if report else []
    if hiding:
        text = (
            f"cannot take out second copies of frames: the driver of {named(hiding)} takes their "
            "VLAN tags off (rx-vlan-offload)"
        )
        commands = "; ".join(f"ethtool -K {port} rxvlan off" for port in hiding)
        hint = f"turn that off on the switch, and at each start of it: {commands}"
        yield Finding(*ref, Check.BRIDGE, Verdict.FAILED, text, hint)
