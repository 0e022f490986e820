"""Why a bridge cannot forward as it is asked to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.mac_addresses import problem_of_destination
from agent.mechanisms.forwarding.model import (
    FORWARDED_VLANS,
    Address,
    ForwardingConfig,
    ForwardingState,
    ForwardingTable,
    Member,
)
from agent.model import LinuxBridge, PortConfig, PortState


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """One line each, without the name of the bridge."""
    table = config[ForwardingConfig].table
    if not table:
        return
    if state.as_bridge is None:
        yield "it is no bridge, and only a bridge has a filtering database; name a bridge"
        return
    yield from _bridge_problems(table, state.name, state.as_bridge)
    yield from _vlan_problems(table)
    for address, ports in table.ports_by_address.items():
        yield from _address_problems(address, ports, table)
    yield from _conflicts(table, state[ForwardingState])


def _bridge_problems(table: ForwardingTable, name: str, bridge: LinuxBridge) -> Iterator[str]:
    if not bridge.vlan_filtering:
        yield (
            "VLAN filtering is off, so that the bridge has no VLANs; "
            f"ip link set {name} type bridge vlan_filtering 1"
        )
    groups = [str(each) for each in table.ports_by_address if each.is_group]
    if groups and not bridge.multicast_snooping:
        yield (
            f"multicast snooping is off, and the bridge forwards to no group without: {groups[0]} "
            f"is one; ip link set {name} type bridge mcast_snooping 1"
        )
    known = ", ".join(sorted(bridge.ports)) or "none"
    named = {each.port for each in table.entries} | {each.port for each in table.members}
    for port in sorted(named - bridge.ports.keys()):
        yield f"{port} is no port of this bridge; its ports: {known}"


def _vlan_problems(table: ForwardingTable) -> Iterator[str]:
    asked = {each.vlan_id for each in table.members}
    asked |= {each.address.vlan_id for each in table.entries}
    for vlan_id in sorted(asked - set(FORWARDED_VLANS)):
        yield f"VLAN {vlan_id} is none that a bridge forwards; choose one of 1 to 4094"


def _address_problems(
    address: Address, ports: Iterable[str], table: ForwardingTable
) -> Iterator[str]:
    by_ports = ", ".join(ports)
    if problem := problem_of_destination(address.mac):
        yield problem
    if not address.is_group and "," in by_ports:
        yield (
            f"frames to {address} are to leave by {by_ports}: the bridge forwards to an individual "
            "address by one port; choose a group address for several listeners"
        )
    for port in ports:
        if Member(address.vlan_id, port) not in table.members:
            yield (
                f"frames to {address} are to leave by {port}, which has no VLAN registration entry "
                f"for VLAN {address.vlan_id}"
            )


def _conflicts(table: ForwardingTable, state: ForwardingState) -> Iterator[str]:
    """What others have made is theirs: it is neither changed nor taken over."""
    foreign = state.foreign
    for vlan_id, ports in foreign.ports_by_vlan.items():
        if vlan_id in table.ports_by_vlan:
            yield (
                f"{', '.join(ports)}: a member of VLAN {vlan_id} that the agent has not made; "
                "choose another VLAN for streams, or remove it (bridge vlan del)"
            )
    for address, ports in foreign.ports_by_address.items():
        wanted = table.ports_by_address.get(address, ())
        if wanted and (not address.is_group or not set(wanted).isdisjoint(ports)):
            yield (
                f"there is an entry for {address} at {', '.join(ports)} that the agent has not "
                f"made; choose another address, or remove it "
                f"(bridge {'mdb' if address.is_group else 'fdb'} del)"
            )
