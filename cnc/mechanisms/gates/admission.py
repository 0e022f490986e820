"""Lists that are given, in a plan: which ports have them, and what these cannot do."""

from __future__ import annotations

from cnc.mechanism import Admission
from cnc.mechanisms.gates.given import GivenLists, operative
from cnc.mechanisms.gates.runnable import obstacles
from cnc.model import GateControlList, Intent, Plan, PortRef


def _lists(intent: Intent) -> dict[PortRef, GateControlList]:
    return {port: operative(its) for port, its in intent[GivenLists].by_port.items()}


def _refused(plan: Plan) -> dict[str, str]:
    """By port: limits that switches have stated may be tighter than those of the intent."""
    found = {}
    for port in plan.intent[GivenLists].by_port:
        if its := next(obstacles(plan.intent, port, plan.gates[port]), None):
            found[f"port {port}"] = (
                f"the list that is given has {its.found}, expected {its.expected}"
            )
    return found


ADMISSION = Admission(lists=_lists, refused=_refused)
