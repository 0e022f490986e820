"""A switch with a bridge of three ports, and its configuration, as ieee802-dot1q-bridge has it."""

from __future__ import annotations

from dataclasses import replace

from agent.model import LinuxBridge
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.sysrepo_client import NOW_NS

PORTS = ("p1", "p2", "p3")
BRIDGE = LinuxBridge(
    vlan_filtering=True,
    multicast_snooping=True,
    ports={name: number for number, name in enumerate(PORTS, 1)},
)


def switch():
    """A switch whose ports p1 to p3 are those of br0."""
    ports = [replace(port(name, index), bridge="br0") for index, name in enumerate(PORTS, 2)]
    return RecordingKernel(*ports, replace(port("br0", 9), as_bridge=BRIDGE), now_ns=NOW_NS)


def interfaces(*ports):
    """The configuration of ports about which nothing is said but that they are there."""
    listed = [{"name": name, "type": "iana-if-type:ethernetCsmacd"} for name in ports]
    return {"ietf-interfaces:interfaces": {"interface": listed}}


def rows(ports, content):
    return [
        {"port-ref": number, **content} | ({"tsn-linux:interface": name} if name else {})
        for number, name in enumerate(ports, 1)
    ]


def entry(address, *ports, vlan_id=10):
    """A static filtering entry."""
    forward = {"static-filtering-entries": {"control-element": "forward"}}
    return {
        "database-id": 1,
        "vids": str(vlan_id),
        "address": address,
        "entry-type": "static",
        "port-map": rows(ports, forward),
    }


def registration(*ports, vlan_id=10):
    """A VLAN registration entry."""
    member = {"registrar-admin-control": "fixed-new-ignored", "vlan-transmitted": "tagged"}
    return {
        "database-id": 1,
        "vids": str(vlan_id),
        "entry-type": "static",
        "port-map": rows(ports, {"static-vlan-registration-entries": member}),
    }


def bridges(*entries, members=PORTS, bridge="br0"):
    database = {
        "filtering-entry": list(entries),
        "vlan-registration-entry": [registration(*members)] if members else [],
    }
    component = {"name": bridge, "filtering-database": database}
    return {
        "ieee802-dot1q-bridge:bridges": {"bridge": [{"name": bridge, "component": [component]}]}
    }
