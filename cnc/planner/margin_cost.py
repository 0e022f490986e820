"""What a gate margin takes from best effort, and of latency bounds."""

from __future__ import annotations

from cnc.model import ClassRole, GateControlList, Intent, Plan, PortRef, StreamPlan
from cnc.planner.gates import gate_control_lists
from cnc.planner.incremental import planned_placements
from cnc.planner.problem import Problem


def best_effort_shares(plan: Plan) -> tuple[PortRef, float, float] | None:
    """The port with the least time for best effort, the share of time that it has there, and the
    one that it would have beside the same offsets without the margin; None without any list for
    streams."""
    instants = {name: its for name, its in plan.streams.items() if its.has_instants}
    planned = {hop.egress for its in instants.values() for hop in its.hops}
    shares = {
        port: _open_share(plan.intent, gates)
        for port, gates in plan.gates.items()
        if port in planned
    }
    if not shares:
        return None
    fullest = min(shares, key=lambda port: (shares[port], port))
    exact = plan.intent.with_gate_margin(0)
    crossing = {
        name: its
        for name, its in instants.items()
        if any(hop.egress == fullest for hop in its.hops)
    }
    problem = Problem(exact, {})
    gates = gate_control_lists(problem, planned_placements(problem, crossing).values())
    return fullest, shares[fullest], _open_share(exact, gates.lists[fullest])


def _open_share(intent: Intent, gates: GateControlList) -> float:
    best_effort = sum(1 << c.number for c in intent.classes_with(ClassRole.BEST_EFFORT))
    opened_ns = sum(its.interval_ns for its in gates.entries if its.gate_states & best_effort)
    return opened_ns / gates.cycle_ns


def cost_ns(plan: Plan, planned: StreamPlan) -> int:
    """How much of a stream's latency bound is gate margin: once for each sender on the way, the
    talker not among them where its own lateness is stated."""
    network = plan.intent.network
    senders = max(map(len, _branches(plan, planned)), default=0)
    if senders and network.end_stations[planned.hops[0].egress.node].lateness_ns is not None:
        senders -= 1
    return network.gate_margin_ns * senders


def _branches(plan: Plan, planned: StreamPlan) -> list[list[PortRef]]:
    """The ports on the way to each listener."""
    branches: list[list[PortRef]] = []
    for path in planned.paths:
        arriving = {plan.intent.network.links[hop.egress].target.node: hop.egress for hop in path}
        for listener in arriving.keys() & plan.intent.network.end_stations.keys():
            branch = [arriving[listener]]
            while (port := arriving.get(branch[-1].node)) is not None:
                branch.append(port)
            branches.append(branch)
    return branches
