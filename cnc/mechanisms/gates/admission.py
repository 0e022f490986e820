"""Lists that are given, in a plan: which ports have them, and what these cannot do."""

from __future__ import annotations

from cnc.mechanism import Admission
from cnc.mechanisms.gates.given import GivenLists, operative
from cnc.mechanisms.runnable import obstacles, obstacles_of
from cnc.model import GateControlList, GivenWindow, Intent, Plan, PortRef


def _lists(intent: Intent) -> dict[PortRef, GateControlList]:
    return {port: operative(its) for port, its in intent[GivenLists].by_port.items()}


def _windows(intent: Intent) -> dict[PortRef, tuple[GivenWindow, ...]]:
    given = intent[GivenLists]
    return dict.fromkeys(given.shared, tuple(given.shares.values()))


def _refused(plan: Plan) -> dict[str, str]:
    """By port: limits that switches have stated may be tighter than those of the intent. What
    streams ask of a list the planner knows."""
    given, found = plan.intent[GivenLists], {}
    shares = given.shares.keys()
    crossed = {hop.egress for its in plan.streams.values() for hop in its.hops} & given.shared
    for port in given.by_port:
        gates = plan.gates[port]
        its = (
            next(obstacles_of(plan.intent, port, gates, shares), None)
            if port in crossed
            else next(obstacles(plan.intent, port, gates), None)
        )
        if its:
            found[f"port {port}"] = (
                f"the list that is given has {its.found}, expected {its.expected}"
            )
    return found


ADMISSION = Admission(lists=_lists, windows=_windows, refused=_refused)
