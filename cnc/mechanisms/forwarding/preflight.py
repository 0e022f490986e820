"""Checks, before a change, that a switch's bridge can forward the frames of streams as desired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cnc.data_tree.tree import EACH_PRIORITY, BridgeReport, PortReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanism import described
from cnc.mechanisms.forwarding.code_points import misleading
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import BridgeForwarding, Network, PortRef, Profile
from cnc.support.format import counted
from cnc.support.wording import named


def examine_bridge(
    ref: PortRef,
    desired: BridgeForwarding,
    report: PortReport | None,
    classes: Sequence[int] = EACH_PRIORITY,
) -> Iterator[Finding]:
    """All findings about the bridge `ref`. One that is to forward nothing need not be there.

    `classes` are the traffic classes of its ports, by priority.
    """
    bridge = report.get(BridgeReport) if report else None
    is_needed = bool(desired.members or desired.parts.parts)
    profile = report.profile if report else None
    failures = list(_failures(ref, desired, bridge, profile)) if is_needed else []
    if bridge and desired.members:
        failures += _recoded(desired, bridge, classes)
    for text, hint in failures:
        yield Finding(*ref, Check.BRIDGE, Verdict.FAILED, text, hint)
    if bridge:
        for port in sorted(desired.members & bridge.held_back.keys()):
            yield Finding(*ref, Check.BRIDGE, Verdict.WARNING, *_held_back(port, bridge, ref.port))
    if bridge and not failures:
        text = f"{counted(len(bridge.ports), 'port')}, filters VLANs"
        yield Finding(*ref, Check.BRIDGE, Verdict.OK, text)


_UPDATE = "update the switch's agent and its YANG modules, or "


def _why_not(module: str, profile: Profile | None) -> str:
    if profile:
        return f"its profile {profile.name} knows gates and forwarding alone"
    return f"the YANG module {module} is not installed"


def _failures(
    ref: PortRef,
    desired: BridgeForwarding,
    bridge: BridgeReport | None,
    profile: Profile | None,
) -> Iterator[tuple[str, str]]:
    """What prevents it, and what to do about that."""
    device = ref.port
    if bridge is None:
        yield (
            "the switch has no such bridge",
            f"create it (ip link add {device} type bridge vlan_filtering 1), or correct the intent",
        )
        return
    if not bridge.filters_vlans:
        yield (
            "its VLAN filtering is off: it forwards by address alone",
            f"turn it on, on the switch: ip link set {device} type bridge vlan_filtering 1",
        )
    if missing := sorted(desired.members - {*bridge.ports}):
        yield (
            f"is not the bridge of {named(missing)}, by which frames of streams pass",
            f"add each on the switch: ip link set PORT master {device}",
        )
    for each in MECHANISMS:
        yield from each.switch.preflight(device, desired, bridge)
    if not bridge.snoops_multicast and any(address.is_group for address in desired.entries):
        yield (
            "its multicast snooping is off: frames of a group address would leave by all ports",
            f"turn it on, on the switch: ip link set {device} type bridge mcast_snooping 1",
        )
    yield from _lacking_modules(desired, bridge, profile)
    yield from _older_modules(desired, bridge)
    for vlan_id in sorted(vlan_id for vlan_id, ports in desired.vlans.items() if ports):
        yield from _foreign_members(vlan_id, bridge, device)
    yield from _foreign_entries(desired, bridge, device)


def _lacking_modules(
    desired: BridgeForwarding, bridge: BridgeReport, profile: Profile | None
) -> Iterator[tuple[str, str]]:
    """What the switch has no YANG module for, or nothing is known of by its profile."""
    for each in MECHANISMS:
        concerned = each.switch.concerned(desired[each.part], desired.names)
        lacking = [module for module in each.switch.modules if module in bridge.lacking_modules]
        if concerned and lacking:
            task, otherwise = each.switch.yang
            yield (
                f"cannot {task} {concerned}: {_why_not(lacking[0], profile)}",
                f"{'' if profile else _UPDATE}{otherwise}",
            )


def _older_modules(desired: BridgeForwarding, bridge: BridgeReport) -> Iterator[tuple[str, str]]:
    """What modules of the switch do not have yet, in a revision that it names."""
    for each in MECHANISMS:
        for since in each.switch.since(desired[each.part]):
            revision = bridge.revisions.get(since.module)
            if revision and revision < since.revision:
                its = f"its YANG module {since.module} is of {revision}"
                why = f"{its}, {since.node} came with {since.revision}"
                yield f"cannot {since.needs.task}: {why}", f"{_UPDATE}{since.needs.otherwise}"


def _recoded(
    desired: BridgeForwarding, bridge: BridgeReport, classes: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """Tables that lead frames of streams to another traffic class, here or at the next switch."""
    of_members = {port: its for port, its in bridge.recoded.items() if port in desired.members}
    for port, row in misleading(of_members, classes):
        what = f"the {row.table} of {port} makes {row.before} {row.after}"
        yield (
            f"{what}, which is the priority of another traffic class",
            f"remove the row with a NETCONF client ({row.table} of a bridge port)",
        )


def _foreign_members(vlan_id: int, bridge: BridgeReport, device: str) -> Iterator[tuple[str, str]]:
    """Members of a VLAN of streams that others have made; the agent takes over none."""
    ports = sorted(port for port, vlan_ids in bridge.foreign_vlans.items() if vlan_id in vlan_ids)
    if not ports:
        return
    other_vlan = "choose another VLAN for streams in the intent (addresses)"
    if {*ports} >= {*bridge.ports}:
        text = f"VLAN {vlan_id} is for streams, and all ports are members without the agent"
        cure = f"if it is the default PVID: ip link set {device} type bridge vlan_default_pvid 1"
    else:
        text = f"VLAN {vlan_id} is for streams, and {named(ports)} is a member without the agent"
        own = " self" if ports[0] == device else ""
        cure = f"remove it on the switch: bridge vlan del dev {ports[0]} vid {vlan_id}{own}"
    yield text, f"{cure}; or {other_vlan}"


def _foreign_entries(
    desired: BridgeForwarding, bridge: BridgeReport, device: str
) -> Iterator[tuple[str, str]]:
    """Entries for the addresses of streams that others have made; the agent takes over none. Of a
    group address each port has an entry of its own."""
    in_the_way = [
        (address, entry.port)
        for address, ports in sorted(desired.entries.items(), key=str)
        for entry in bridge.foreign_entries.get(address.destination_mac, ())
        if entry.has(address.vlan_id) and (not address.is_group or entry.port in ports)
    ]
    if not in_the_way:
        return
    places = (f"{described(each, desired.names)} at {port}" for each, port in in_the_way)
    (address, port), mac = in_the_way[0], in_the_way[0][0].destination_mac
    if address.is_group:
        command = f"bridge mdb del dev {device} port {port} grp {mac} vid {address.vlan_id}"
    else:
        kind = "self" if port == device else "master"
        command = f"bridge fdb del {mac} dev {port} {kind} vlan {address.vlan_id}"
    which = "each" if in_the_way[1:] else "it"
    other = "choose another address for the stream in the intent (destination-mac, addresses)"
    yield (
        f"has filtering entries that the agent has not made: for {named(places)}",
        f"remove {which} on the switch: {command}; or {other}",
    )


def _held_back(port: str, bridge: BridgeReport, device: str) -> tuple[str, str]:
    """What the spanning tree protocol does to a port, and what to do about that."""
    state = bridge.held_back[port]
    text = f"spanning tree keeps {port} {state}: no frame of a stream passes there"
    if state != "blocking":
        return text, "wait until the port forwards, and run cnc doctor again"
    cure = (
        f"let the ring end for ordinary VLANs alone (bridge vlan del dev {port} vid 1), and then "
        f"turn the protocol off: ip link set {device} type bridge stp_state 0"
    )
    return text, cure


def examine_rings(network: Network, bridges: Mapping[str, BridgeReport]) -> Iterator[Finding]:
    """A warning where frames of ordinary VLANs go around a ring of cables: what is flooded there
    never ends. `bridges` is by switch. VLANs that pass the same cables are one warning."""
    for cables, vlan_ids in _cables_of_vlans(network, bridges).items():
        closing = _closing_cable(network, cables)
        if closing is None:
            continue
        others = f" (and {counted(len(vlan_ids) - 1, 'other')})" if vlan_ids[1:] else ""
        text = (
            f"VLAN {vlan_ids[0]}{others} goes around a ring that the cable at {closing.port} "
            "closes: what is flooded in it never ends"
        )
        cure = (
            "streams pass the cable in VLANs of their own; take this one off it: "
            f"bridge vlan del dev {closing.port} vid {vlan_ids[0]}"
        )
        device = network.bridges[closing.node].bridge_device
        yield Finding(closing.node, device, Check.BRIDGE, Verdict.WARNING, text, cure)


def _cables_of_vlans(
    network: Network, bridges: Mapping[str, BridgeReport]
) -> dict[tuple[PortRef, ...], list[int]]:
    """By the cables between switches that they pass, each by its first port, the VLANs that are not
    those of streams."""

    def passing(port: PortRef) -> frozenset[int]:
        bridge = bridges.get(port.node)
        if not bridge or port.port not in bridge.ports or port.port in bridge.held_back:
            return frozenset()
        return bridge.foreign_vlans.get(port.port, frozenset())

    by_vlan: dict[int, list[PortRef]] = {}
    for port, link in sorted(network.links.items()):
        if port < link.target:
            for vlan_id in passing(port) & passing(link.target):
                by_vlan.setdefault(vlan_id, []).append(port)
    by_cables: dict[tuple[PortRef, ...], list[int]] = {}
    for vlan_id, ports in sorted(by_vlan.items()):
        by_cables.setdefault(tuple(ports), []).append(vlan_id)
    return by_cables


def _closing_cable(network: Network, cables: Iterable[PortRef]) -> PortRef | None:
    """The first of `cables` that joins two switches which those before it join already."""
    part = {name: name for name in network.bridges}
    for port in cables:
        one, other = part[port.node], part[network.links[port].target.node]
        if one == other:
            return port
        part = {name: one if its == other else its for name, its in part.items()}
    return None
