"""What a gate margin takes from best effort."""

from __future__ import annotations

from cnc.model import ClassRole, GateControlList, Intent, Plan, PortRef
from cnc.planner.gates import gate_control_lists
from cnc.planner.incremental import planned_placements
from cnc.planner.problem import Problem


def best_effort_shares(plan: Plan) -> tuple[PortRef, float, float] | None:
    """The port with the least time for best effort, the share of time that it has there, and the
    one that it would have beside the same offsets without the margin; None without any list."""
    shares = {port: _open_share(plan.intent, gates) for port, gates in plan.gates.items()}
    if not shares:
        return None
    fullest = min(shares, key=lambda port: (shares[port], port))
    exact = plan.intent.with_gate_margin(0)
    crossing = {
        name: its
        for name, its in plan.streams.items()
        if any(hop.egress == fullest for hop in its.hops)
    }
    problem = Problem(exact, {})
    gates = gate_control_lists(problem, planned_placements(problem, crossing).values())
    return fullest, shares[fullest], _open_share(exact, gates.lists[fullest])


def _open_share(intent: Intent, gates: GateControlList) -> float:
    best_effort = sum(1 << c.number for c in intent.classes_with(ClassRole.BEST_EFFORT))
    opened_ns = sum(its.interval_ns for its in gates.entries if its.gate_states & best_effort)
    return opened_ns / gates.cycle_ns
