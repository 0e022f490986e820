"""Checks, before a change, that the kernel of a switch can do what its bridges are asked to.

Its agent has asked it for a table of nftables, for the actions of filters, and to verify the
programs (BPF) that police streams and take out copies. It says why it cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cnc.data_tree.tree import AgentReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanism import Needs
from cnc.mechanisms.composition import is_asked
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import BridgeForwarding

_FORWARDING = Needs(
    "forward the frames of streams by their listed ports alone", "state `forwarding: routed`"
)


def examine_kernel(
    name: str, desired: Iterable[BridgeForwarding], agent: AgentReport
) -> Iterator[Finding]:
    """Failures of the switch `name` where its kernel refuses what its bridges are to do."""
    bridges = list(desired)
    asked = [("forwarding", _FORWARDING, any(each.entries or each.members for each in bridges))]
    asked += [
        (each.name, each.switch.kernel, any(is_asked(bridge, each) for bridge in bridges))
        for each in MECHANISMS
    ]
    for mechanism, needs, needed in asked:
        if needed and (refused := agent.refused.get(mechanism)):
            text = f"cannot {needs.task}: {refused}"
            hint = f"cure that on the switch, or {needs.otherwise}"
            yield Finding(name, None, Check.KERNEL, Verdict.FAILED, text, hint)
