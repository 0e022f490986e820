"""The gates that a plan asks of the ports of switches and end stations."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cnc.data_tree.tree import PRIORITIES
from cnc.model import ClassRole, Plan, PortConfiguration, PortGates, PortRef, PortSettings


def derive(plan: Plan, nodes: Collection[str]) -> dict[PortRef, PortGates]:
    """Of each cabled port of the nodes with gates; a list is planned, or given (gates.md)."""
    network, classes = plan.intent.network, plan.intent.classes.values()
    modes = {name: mode for name in nodes if (mode := network.gate_mode(name)) is not None}
    fallback = plan.intent.classes_with(ClassRole.BEST_EFFORT)[0].number
    by_priority = {c.priority: c.number for c in classes}
    priority_map = tuple(by_priority.get(p, fallback) for p in range(PRIORITIES))
    dscp_priorities = {dscp: c.priority for c in classes for dscp in c.dscps}
    return {
        egress: PortGates(
            PortConfiguration(
                number_of_classes=1 + max(c.number for c in classes),
                priority_map=priority_map,
                mode=modes[egress.node],
                gates=plan.gates[egress],
                dscp_priorities=dscp_priorities,
            )
            if egress in plan.gates
            else None
        )
        for egress in network.links
        if egress.node in modes
    }


def leaving(
    desired: Mapping[str, dict[str, PortSettings]], former: Plan
) -> dict[str, dict[str, PortSettings]]:
    """`desired` by node, without the gates of ports of end stations that only `former` has, the
    plan before."""
    network = former.intent.network
    return {
        name: {port: its.having(PortGates()) for port, its in settings.items()}
        if name in network.end_stations
        and network.gate_mode(name) is not None
        and not any(its.get(PortGates) for its in settings.values())
        else settings
        for name, settings in desired.items()
    }
