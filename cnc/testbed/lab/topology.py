"""Namespaces, cables, bridges, addresses and routes of an emulated network.

This module configures the kernel only; `lab.switch` starts the processes. Cables are veth pairs
that report 10 Gb/s. They have no delay, unless `cnc.testbed.lab.wires` is requested.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pyroute2 import IPRoute, netns
from pyroute2.ethtool.ioctl import IoctlEthtool

from cnc.errors import CncError
from cnc.model import Forwarding, Intent, PortRef
from cnc.testbed.intent.lab_model import ImpairedLinks
from cnc.testbed.lab import bridge, management, namespaces, wires
from cnc.testbed.lab.addressing import (
    PortAddresses,
    bridged_addresses,
    cables,
    port_addresses,
    routes,
    stated_addresses,
)
from cnc.testbed.lab.namespaces import bring_up, inside, sysctl
from cnc.testbed.lab.spanning_tree import spanning_tree
from cnc.testbed.lab.supported import GATES_LEAST_BPS, mtu_octets

QUEUES = 8  # one per traffic class: taprio refuses more classes than transmit queues

# With any of these a receiver gets merged frames, or taprio has to segment them.
OFFLOADS = ("tx-generic-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation", "rx-gro")
# With any of these the VLAN tag is beside the frame, where XDP programs do not see it.
VLAN_OFFLOADS = ("tx-vlan-hw-insert", "rx-vlan-hw-parse")


def build(intent: Intent, *, timed_wires: bool) -> None:
    """Create every namespace, cable, bridge, address, route and neighbour entry of the intent.

    `timed_wires`: cables have the delays of the intent.

    Raises:
        CncError: the kernel refused, or a namespace of that name exists already. What was created
            until then remains: `remove` deletes it.
    """
    nodes = [*intent.network.bridges, *intent.network.end_stations]
    names = [namespaces.of_node(intent.name, node) for node in nodes]
    for name in (*names, *namespaces.inner(intent.name)):
        if namespaces.exists(name):
            raise CncError(
                f"network namespace {name} exists already",
                hint=f"`cnc lab down {intent.name}` removes a running lab of that name",
            )
    for name in namespaces.inner(intent.name):
        netns.create(name)
    for node in nodes:
        make_node(intent, node)
    if timed_wires:
        _lay_timed_cables(intent)
    else:
        _lay_cables(intent)
    for node, name in zip(nodes, names, strict=True):
        inside(name, partial(configure_node, intent, node))
        if timed_wires and (slow := _below_gates(intent, node)):
            wires.shape(name, slow)
    management.lay(intent)


def make_node(intent: Intent, node: str) -> None:
    """Create the namespace of a node, for its interfaces to be moved into."""
    name = namespaces.of_node(intent.name, node)
    netns.create(name)
    is_routed = intent.network.forwarding is Forwarding.ROUTED
    inside(name, partial(_quieten, is_routed and node in intent.network.bridges))


def configure_node(intent: Intent, node: str) -> None:
    """Addresses, neighbours, routes and bridge of a node that has its interfaces; runs inside its
    namespace."""
    if intent.network.forwarding is Forwarding.ROUTED:
        _configure_routed_node(intent, node)
    else:
        _configure_bridged_node(intent, node)


def remove(lab: str, names: Iterable[str]) -> None:
    """Delete a lab's namespaces with all they contain; a missing one is not an error."""
    management.remove(lab)
    for name in (*names, *namespaces.inner(lab)):
        if namespaces.exists(name):
            netns.remove(name)


def _lay_cables(intent: Intent) -> None:
    ports = port_addresses(intent.network)
    mtu = mtu_octets(intent)
    with IPRoute() as ip:
        for one, other in cables(intent.network):
            ip.link(
                "add",
                kind="veth",
                **_end(intent.name, one, ports[one].mac, mtu),
                peer=_end(intent.name, other, ports[other].mac, mtu),
            )


def _lay_timed_cables(intent: Intent) -> None:
    """Every port's pair ends in the wires' namespace; there the ends are joined."""
    home = namespaces.of_wires(intent.name)
    inner = wires.interfaces(intent.network)
    mtu = mtu_octets(intent)
    # A cable sends nothing of its own: solicitations and reports at random instants would delay
    # frames, and make every run another one.
    inside(home, partial(sysctl, "net/ipv6/conf/default/disable_ipv6", 1))
    with IPRoute() as ip:
        for port, own in port_addresses(intent.network).items():
            peer = {"ifname": inner[port], "net_ns_fd": home, "mtu": mtu}
            ip.link("add", kind="veth", **_end(intent.name, port, own.mac, mtu), peer=peer)
    delays = {port: its.pareto_ns for port, its in intent[ImpairedLinks].by_port.items()}
    wires.connect(intent.network, home, inner, delays)
    if intent.network.forwarding is Forwarding.BRIDGED:
        inside(home, partial(_keep_vlan_tags, inner.values()))


def _below_gates(intent: Intent, node: str) -> dict[str, int]:
    """The rates of a node's ports that are too slow for gates, by port."""
    return {
        port.port: link.rate_bps
        for port, link in intent.network.links.items()
        if port.node == node and link.rate_bps < GATES_LEAST_BPS
    }


def _end(lab: str, port: PortRef, mac: str, mtu: int) -> dict[str, Any]:
    return {
        "ifname": port.port,
        "net_ns_fd": namespaces.of_node(lab, port.node),
        "address": mac,
        "mtu": mtu,
        "num_tx_queues": QUEUES,
        "num_rx_queues": QUEUES,
    }


def _quieten(routes_packets: bool) -> None:
    """Settings that interfaces copy when they are created; runs inside a node's namespace."""
    for family in ("ipv4", "ipv6"):
        sysctl(f"net/{family}/conf/all/forwarding", int(routes_packets))
    # No address detection, no solicitations: only the lab's own frames are on the cables. Reports
    # of multicast groups come within a few ticks, not a random second later (RFC 3810, 9.11).
    for scope in ("all", "default"):
        sysctl(f"net/ipv6/conf/{scope}/accept_dad", 0)
        sysctl(f"net/ipv6/conf/{scope}/accept_ra", 0)
        sysctl(f"net/ipv6/conf/{scope}/router_solicitations", 0)
        sysctl(f"net/ipv6/conf/{scope}/mldv2_unsolicited_report_interval", 1)


def _configure_routed_node(intent: Intent, node: str) -> None:
    """Addresses, neighbours and routes of one node; runs inside its namespace."""
    ports = port_addresses(intent.network)
    with IPRoute() as ip:
        bring_up(ip, "lo")
        for port, link in intent.network.links.items():
            if port.node == node:
                _configure_port(ip, port, ports[port], ports[link.target])
        for route in routes(intent, node):
            ip.route(
                "add",
                dst=f"{route.destination}/{route.destination.max_prefixlen}",
                gateway=str(route.gateway),
                oif=ip.link_lookup(ifname=route.port)[0],
            )


def _configure_bridged_node(intent: Intent, node: str) -> None:
    """Bridge, addresses and neighbours of one node of a bridged network; runs inside its namespace.

    The only interface of a switch with addresses is its bridge, that of an end station its first
    port.
    """
    network = intent.network
    ports = sorted(port.port for port in network.links if port.node == node)
    switch = network.bridges.get(node)
    addresses = bridged_addresses(network)
    with IPRoute() as ip:
        bring_up(ip, "lo")
        if switch and ports:
            ordinary = {port.port for port in spanning_tree(network) if port.node == node}
            bridge.make(switch.bridge_device, addresses[node].mac)
            set_offloads(switch.bridge_device)
            for port in ports:  # before they come up: one off the tree never carries VLAN 1
                bridge.join(switch.bridge_device, port, ordinary)
        _keep_vlan_tags(ports)
        for port in ports:
            set_offloads(port)
            bring_up(ip, port)
        if ports:
            own = switch.bridge_device if switch else ports[0]
            others = [each for name, each in addresses.items() if name != node]
            _assign(ip, own, addresses[node], others)
            if not switch:
                _assign_stated(ip, own, intent, node)


def _assign_stated(ip: IPRoute, interface: str, intent: Intent, node: str) -> None:
    """The addresses that the intent states of stations, beside those of the lab: each is a subnet
    of its own, which all stations have on their link."""
    index = ip.link_lookup(ifname=interface)[0]
    nodes = bridged_addresses(intent.network)
    for owner, stated in stated_addresses(intent).items():
        for address in stated:
            host = f"{address}/{address.max_prefixlen}"
            if owner == node:
                ip.addr("add", index=index, address=str(address), prefixlen=address.max_prefixlen)
                continue
            ip.route("add", dst=host, oif=index, scope="link")
            ip.neigh(
                "replace",
                ifindex=index,
                dst=str(address),
                lladdr=nodes[owner].mac,
                state="permanent",
            )


def _configure_port(ip: IPRoute, port: PortRef, own: PortAddresses, peer: PortAddresses) -> None:
    set_offloads(port.port)
    _assign(ip, port.port, own, [peer])


def _assign(
    ip: IPRoute, interface: str, own: PortAddresses, neighbours: Iterable[PortAddresses]
) -> None:
    index = ip.link_lookup(ifname=interface)[0]
    for address in (own.v4, own.v6):
        ip.addr("add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen)
    bring_up(ip, interface)
    for far in neighbours:
        for neighbour in (far.v4.ip, far.v6.ip):
            ip.neigh(
                "replace", ifindex=index, dst=str(neighbour), lladdr=far.mac, state="permanent"
            )


def _keep_vlan_tags(interfaces: Iterable[str]) -> None:
    for interface in interfaces:
        set_offloads(interface, VLAN_OFFLOADS)


def set_offloads(
    interface: str, offloads: Iterable[str] = OFFLOADS, *, active: bool = False
) -> None:
    """Switch those off, or on, that an interface of this namespace has."""
    device = IoctlEthtool(interface)
    try:
        features = device.get_features()
        changed = [name for name in offloads if features.is_active(name) != active]
        for name in changed:
            features[name] = active
        if changed:  # a card that never had one of them refuses to be told
            device.set_features(features)
    finally:
        device.close()
