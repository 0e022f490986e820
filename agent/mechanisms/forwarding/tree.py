"""The static forwarding of a bridge in the tree of ieee802-dot1q-bridge. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agent.mechanism import BRIDGE, Node, Refused, Tree
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingConfig,
    ForwardingState,
    ForwardingTable,
    Member,
)
from agent.model import PortState

INTERFACE = "tsn-linux:interface"
DATABASE_ID = 1  # of all VLANs


def configured(interface: Tree, _state: PortState | None) -> ForwardingConfig:
    """The table of the bridge of this name; raises `Refused` where it contradicts itself.

    What a row has beside its port is given by the deviations of tsn-linux-unsupported.
    """
    components = interface.get(BRIDGE, {}).get("component", [])
    databases = [each.get("filtering-database", {}) for each in components]
    entries = [
        Entry(Address(row["address"].upper(), int(row["vids"])), port)
        for database in databases
        for row in database.get("filtering-entry", [])
        for port in _ports(row)
    ]
    members = [
        Member(int(row["vids"]), port)
        for database in databases
        for row in database.get("vlan-registration-entry", [])
        for port in _ports(row)
    ]
    _refuse_repeated(entries)
    _refuse_repeated(members)
    return ForwardingConfig(ForwardingTable(frozenset(entries), frozenset(members)))


def operational(state: PortState) -> Node:
    """The filtering database of the bridge's component: the entries that the agent has made, as the
    kernel has them. What the kernel learned is not listed."""
    if state.as_bridge is None:
        return {}
    table, numbers = state[ForwardingState].table, state.as_bridge.ports
    entries = [
        {
            "database-id": DATABASE_ID,
            "vids": str(address.vlan_id),
            "address": address.mac,
            "entry-type": "static",
            "status": "mgmt",
            "port-map": [
                {**row, "static-filtering-entries": {"control-element": "forward"}}
                for row in _rows(ports, numbers)
            ],
        }
        for address, ports in table.ports_by_address.items()
    ]
    registrations = [
        {
            "database-id": DATABASE_ID,
            "vids": str(vlan_id),
            "entry-type": "static",
            "port-map": [
                {
                    **row,
                    "static-vlan-registration-entries": {
                        "registrar-admin-control": "fixed-new-ignored",
                        "vlan-transmitted": "tagged",
                    },
                }
                for row in _rows(ports, numbers)
            ],
        }
        for vlan_id, ports in table.ports_by_vlan.items()
    ]
    database: Node = {
        "static-entries": len(entries),
        "static-vlan-registration-entries": len(registrations),
    }
    if entries:
        database["filtering-entry"] = entries
    if registrations:
        database["vlan-registration-entry"] = registrations
    node: Node = {"filtering-database": database}
    foreign = state[ForwardingState].foreign
    if vlans := foreign.vlans_by_port:
        node["tsn-linux:foreign-vlans"] = [
            {"interface": port, "vids": _ranges(vlan_ids)} for port, vlan_ids in vlans.items()
        ]
    if places := foreign.vlans_by_place:
        node["tsn-linux:foreign-entries"] = [
            {"address": mac, "interface": port, "vids": _ranges(vlan_ids)}
            for (mac, port), vlan_ids in places.items()
        ]
    return node


def _ranges(vlan_ids: Iterable[int]) -> str:
    """Ascending numbers as IEEE 802.1Q's modules write them: 1,10-100,250."""
    ranges: list[tuple[int, int]] = []
    for each in vlan_ids:
        if ranges and ranges[-1][1] == each - 1:
            ranges[-1] = ranges[-1][0], each
        else:
            ranges.append((each, each))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _ports(row: Tree) -> list[str]:
    what = f"{row['address']} in VLAN" if "address" in row else "VLAN"
    ports = [port_map.get(INTERFACE) for port_map in row.get("port-map", [])]
    if None in ports:
        raise Refused(
            f"a port-map of {what} {row['vids']} has no {INTERFACE}; port-ref does not say which "
            "port is meant"
        )
    if not ports:
        raise Refused(
            f"the entry of {what} {row['vids']} names no port; add a port-map or remove it"
        )
    return ports


def _rows(ports: Iterable[str], numbers: Tree) -> list[Node]:
    return [{"port-ref": numbers[port], INTERFACE: port} for port in ports]


def _refuse_repeated(rows: Iterable[Entry | Member]) -> None:
    seen: set[Entry | Member] = set()
    for row in rows:
        if row in seen:
            what = row.address if isinstance(row, Entry) else f"VLAN {row.vlan_id}"
            raise Refused(f"{row.port} is named twice for {what}; name each port once")
        seen.add(row)
