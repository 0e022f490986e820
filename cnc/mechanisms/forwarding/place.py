"""How a bridge forwards the frames of streams, with all that mechanisms do there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from cnc.data_tree.tree import AgentReport, BridgeReport, PortReport
from cnc.finding import Finding
from cnc.mechanism import Around, AtPlace, Names, configured_or_drifted
from cnc.mechanisms.composition import bridge_forwardings, names_by_address
from cnc.mechanisms.forwarding.compare import (
    configured_difference,
    difference_since,
    drifted,
    forwarding_difference,
    previous,
    waits,
)
from cnc.mechanisms.forwarding.hardware import examine_filters
from cnc.mechanisms.forwarding.kernel import examine_kernel
from cnc.mechanisms.forwarding.preflight import examine_bridge, examine_rings
from cnc.mechanisms.forwarding.tree import (
    all_bridge_reports,
    bridge_reports,
    configured_filters,
    edit,
    settings_filter,
    state_filters,
    stored_bridges,
)
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    BridgeForwarding,
    Forwarding,
    Plan,
    PortRef,
    PortSettings,
    StreamAddress,
)


def _derive(plan: Plan, nodes: Collection[str]) -> dict[PortRef, BridgeForwarding]:
    network = plan.intent.network
    if network.forwarding is Forwarding.ROUTED:
        return {}
    names = names_by_address(plan)
    return {
        PortRef(name, network.bridges[name].bridge_device): replace(
            its,
            names=_of(its, names),
            # By the standard each bridge port does: what regenerates priorities is refused.
            trusting=() if network.profile(name) else its.trusting,
        )
        for name, its in bridge_forwardings(
            plan, [name for name in nodes if name in network.bridges]
        ).items()
    }


def _of(its: BridgeForwarding, names: Mapping[StreamAddress, Names]) -> dict[StreamAddress, str]:
    """The names of the streams that a bridge forwards."""
    known = (names.get(entry, {}) for entry in its.entries)
    return {each: name for found in known for each, name in found.items()}


def _leaving(
    desired: Mapping[str, dict[str, PortSettings]], former: Plan
) -> dict[str, dict[str, PortSettings]]:
    """`desired` by node, with the VLANs in which only `former`, the plan before, had streams."""
    if former.intent.network.forwarding is Forwarding.ROUTED:
        return {**desired}
    bridges, before = former.intent.network.bridges, bridge_forwardings(former)
    names = names_by_address(former)
    return {
        node: _with_vlans(settings, bridges[node].bridge_device, before[node], names)
        if node in bridges
        else settings
        for node, settings in desired.items()
    }


def _with_vlans(
    desired: dict[str, PortSettings],
    device: str,
    before: BridgeForwarding,
    names_before: Mapping[StreamAddress, Names],
) -> dict[str, PortSettings]:
    settings = desired.get(device, PortSettings())
    after = settings[BridgeForwarding]
    left: dict[int, tuple[str, ...]] = dict.fromkeys(before.vlans, ())
    # Messages name also the streams that go.
    names = {**_of(before, names_before), **after.names}
    with_left = replace(after, vlans={**left, **after.vlans}, names=names)
    return {**desired, device: settings.having(with_left)}


def _cycles_ns(its: BridgeForwarding) -> Iterator[int]:
    for each in MECHANISMS:
        yield from each.planned.cycles_ns(its[each.part])


def _examine(
    ref: PortRef, desired: BridgeForwarding, report: PortReport | None, around: Around
) -> Iterator[Finding]:
    yield from examine_bridge(ref, desired, report, around.classes)


def _examine_node(
    node: str, settings: Mapping[str, PortSettings], agent: AgentReport
) -> Iterator[Finding]:
    asked = (each.get(BridgeForwarding) for each in settings.values())
    return examine_kernel(node, [its for its in asked if its is not None], agent)


def _examine_network(
    plan: Plan, bridges: Mapping[PortRef, BridgeForwarding], reports: Mapping[PortRef, PortReport]
) -> Iterator[Finding]:
    """Without the switches that do not answer; nothing of a network that routes."""
    yield from examine_filters(plan, bridges, reports)
    answering = {
        ref.node: its
        for ref in bridges
        if (report := reports.get(ref)) and (its := report.get(BridgeReport))
    }
    yield from examine_rings(plan.intent.network, answering)


AT_PLACE = AtPlace(
    part=BridgeForwarding,
    cycles_ns=_cycles_ns,
    of_bridges=True,
    derive=_derive,
    leaving=_leaving,
    needs_change=configured_or_drifted(
        "the kernel",
        configured_difference,
        lambda desired, _its, report: forwarding_difference(desired, report),
    ),
    configured=configured_difference,
    differs=forwarding_difference,
    drifted=drifted,
    since=difference_since,
    waits=waits,
    does=lambda its: "running" if its.entries else None,
    idle="no streams",
    previous=previous,
    edit=edit,
    stored=stored_bridges,
    reported=bridge_reports,
    filters=configured_filters,
    state=state_filters,
    settings=lambda: [settings_filter()],
    bridges=all_bridge_reports,
    examine=_examine,
    examine_node=_examine_node,
    examine_network=_examine_network,
)
