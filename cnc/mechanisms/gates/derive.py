"""The gates that a plan asks of the ports of switches and end stations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from cnc.data_tree.tree import PRIORITIES
from cnc.model import (
    FIXED_CLASSES,
    Plan,
    PortConfiguration,
    PortGates,
    PortRef,
    PortSettings,
)


def derive(plan: Plan, nodes: Collection[str]) -> dict[PortRef, PortGates]:
    """Of each cabled port of the nodes with gates; a list is planned, or given (gates.md). A switch
    with a profile has no DSCP rules, and perhaps classes that nothing can set."""
    network, classes = plan.intent.network, plan.intent.classes.values()
    modes = {name: mode for name in nodes if (mode := network.gate_mode(name)) is not None}
    priority_map = plan.intent.priority_map()
    dscp_priorities = {dscp: c.priority for c in classes for dscp in c.dscps}
    count = 1 + max(c.number for c in classes)

    def configuration(egress: PortRef) -> PortConfiguration:
        its = PortConfiguration(
            count, priority_map, modes[egress.node], plan.gates[egress], dscp_priorities
        )
        profile = network.profile(egress.node)
        if profile is None:
            return its
        if profile.sets_classes:
            return replace(its, dscp_priorities={})
        return replace(
            its, number_of_classes=PRIORITIES, priority_map=FIXED_CLASSES, dscp_priorities={}
        )

    return {
        egress: PortGates(configuration(egress) if egress in plan.gates else None)
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
