"""Which addresses and routes an emulated network gets: a pure function of the intent.

In a routed network every cable is an IPv4 and an IPv6 subnet of its own, and switches forward at
the network layer, as the DSCP rules of the agents need (frames that are bridged never pass
POSTROUTING). A bridged network is one subnet, in which each node has one address: an end station at
its first port, a switch at its bridge. There an end station has the MAC address that the intent
states, and the IP addresses by which streams are known that it sends untagged, or listens to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
)

from cnc.errors import InputError
from cnc.model import Forwarding, Intent, IpIdentification, Link, Network, PortRef
from cnc.testbed.lab.spanning_tree import spanning_tree

CABLES_V4 = IPv4Network("10.128.0.0/9")
CABLES_V6 = IPv6Network("fd00::/48")
BRIDGED_V4 = IPv4Network("10.128.0.0/16")
BRIDGED_V6 = IPv6Network("fd00::/64")


@dataclass(frozen=True, slots=True)
class PortAddresses:
    """What one end of a cable is called on each layer."""

    mac: str
    v4: IPv4Interface
    v6: IPv6Interface


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """Where a node is reached from anywhere in the lab: the addresses of its first port."""

    v4: IPv4Address
    v6: IPv6Address

    def of_version(self, ip_version: int) -> IPv4Address | IPv6Address:
        by_version: dict[int, IPv4Address | IPv6Address] = {4: self.v4, 6: self.v6}
        return by_version[ip_version]


@dataclass(frozen=True, slots=True)
class Route:
    """Packets for the host `destination` leave by `port` towards `gateway`."""

    destination: IPv4Address | IPv6Address
    gateway: IPv4Address | IPv6Address
    port: str


@dataclass(frozen=True, slots=True)
class ManagementNetwork:
    """The subnet of the NETCONF addresses, and the controller's place in it."""

    controller: IPv4Interface | IPv6Interface
    switches: Mapping[str, IPv4Interface | IPv6Interface]


def cables(network: Network) -> list[tuple[PortRef, PortRef]]:
    """Both ends of every cable, the lesser end first, in a fixed order."""
    return sorted(
        {
            (min(link.source, link.target), max(link.source, link.target))
            for link in network.links.values()
        }
    )


def port_addresses(network: Network) -> dict[PortRef, PortAddresses]:
    """Addresses of every port that has a cable."""
    result: dict[PortRef, PortAddresses] = {}
    for number, cable in enumerate(cables(network), start=1):
        v4 = int(CABLES_V4.network_address) + (number << 8)
        v6 = int(CABLES_V6.network_address) + (number << 64)
        for end, port in enumerate(cable, start=1):
            result[port] = PortAddresses(
                mac=f"02:00:{number >> 8:02x}:{number & 0xFF:02x}:00:{end:02x}",
                v4=IPv4Interface((v4 + end, 24)),
                v6=IPv6Interface((v6 + end, 64)),
            )
    first = {port.node: port for port in sorted(result, reverse=True)}
    for name, station in network.end_stations.items():
        if station.mac and name in first:
            result[first[name]] = replace(result[first[name]], mac=station.mac)
    return result


def bridged_addresses(network: Network) -> dict[str, PortAddresses]:
    """Addresses of every node in the one subnet of a bridged network."""
    ports = port_addresses(network)
    first = {port.node: port for port in sorted(ports, reverse=True)}
    return {
        node: PortAddresses(
            mac=bridge_mac(number) if node in network.bridges else ports[first[node]].mac,
            v4=IPv4Interface((int(BRIDGED_V4.network_address) + number, BRIDGED_V4.prefixlen)),
            v6=IPv6Interface((int(BRIDGED_V6.network_address) + number, BRIDGED_V6.prefixlen)),
        )
        for number, node in enumerate(sorted(first), start=1)
    }


def stated_addresses(intent: Intent) -> dict[str, frozenset[IPv4Address | IPv6Address]]:
    """The IP addresses, by node, by which streams are known that talkers send untagged.

    Raises:
        InputError: two nodes would have one of them.
    """
    owners: dict[IPv4Address | IPv6Address, str] = {}
    for node, own in addresses(intent).items():
        owners |= {own.v4: node, own.v6: node}
    found: dict[str, set[IPv4Address | IPv6Address]] = {}
    for stream in intent.streams.values():
        known_by = stream.identification
        if not isinstance(known_by, IpIdentification):
            continue
        ends = [(stream.listeners[0], known_by.destination)]
        ends += [(stream.talker, known_by.source)] if known_by.source else []
        for node, text in ends:
            address = ip_address(text)
            if (owner := owners.setdefault(address, node)) != node:
                raise InputError(
                    f"stream {stream.name}: {address} would be {node}, and is {owner} in the lab",
                    hint=f"the lab's own addresses are in {BRIDGED_V4} and {BRIDGED_V6}: state "
                    "others",
                )
            found.setdefault(node, set()).add(address)
    own_addresses = addresses(intent)
    return {
        node: frozenset(its - {own_addresses[node].v4, own_addresses[node].v6})
        for node, its in found.items()
    }


def bridge_mac(number: int) -> str:
    """The address of a switch's bridge device, apart from those of all ports."""
    return f"02:01:{number >> 8:02x}:{number & 0xFF:02x}:00:00"


def addresses(intent: Intent) -> dict[str, NodeAddresses]:
    """The addresses by which each node of the intent is reached."""
    if intent.network.forwarding is Forwarding.BRIDGED:
        nodes = bridged_addresses(intent.network)
        return {node: NodeAddresses(own.v4.ip, own.v6.ip) for node, own in nodes.items()}
    result: dict[str, NodeAddresses] = {}
    for port, found in sorted(port_addresses(intent.network).items()):
        result.setdefault(port.node, NodeAddresses(v4=found.v4.ip, v6=found.v6.ip))
    return result


def next_hops(network: Network, target: str) -> dict[str, Link]:
    """For every node that can reach `target`, the first link of its shortest path there.

    Only switches forward. Equal paths are told apart by port name, so every run routes alike. In a
    bridged network the path is that of ordinary frames: along the spanning tree.
    """
    into: dict[str, list[Link]] = {}
    is_bridged = network.forwarding is Forwarding.BRIDGED
    ports = spanning_tree(network) if is_bridged else network.links.keys()
    for port, link in sorted(network.links.items()):
        if port in ports:
            into.setdefault(link.target.node, []).append(link)
    first: dict[str, Link] = {}
    queue = deque([target])
    while queue:
        node = queue.popleft()
        for link in into.get(node, ()):
            if link.source.node != target and link.source.node not in first:
                first[link.source.node] = link
                if link.source.node in network.bridges:
                    queue.append(link.source.node)
    return first


def way(network: Network, node: str, target: str) -> Iterator[Link]:
    """The links of the shortest path from a node to another, which it can reach."""
    hops = next_hops(network, target)
    while node != target:
        yield hops[node]
        node = hops[node].target.node


def routes(intent: Intent, node: str) -> list[Route]:
    """How a node of a routed network reaches every other that is not at the far end of one of its
    own cables."""
    ports = port_addresses(intent.network)
    result: list[Route] = []
    for target, reached in sorted(addresses(intent).items()):
        hop = next_hops(intent.network, target).get(node)
        if hop is None:
            continue
        far = ports[hop.target]
        result += [
            Route(destination, gateway, hop.source.port)
            for destination, gateway in ((reached.v4, far.v4.ip), (reached.v6, far.v6.ip))
            if destination != gateway
        ]
    return result


def management(intent: Intent) -> ManagementNetwork:
    """The management subnet (/24, or /64 for IPv6) that holds the address of every managed node.

    Raises:
        InputError: a switch has no management address, or they do not share one subnet.
    """
    found: dict[str, IPv4Interface | IPv6Interface] = {}
    for name, node in intent.network.managed.items():
        if node.management is None:
            raise InputError(
                f"switch {name} has no management address",
                hint="give it one: the lab's NETCONF servers listen there",
            )
        try:
            address = ip_address(node.management.address)
        except ValueError:
            raise InputError(
                f"{intent.network.described(name)}: management address "
                f"{node.management.address!r} is a host name",
                hint="the lab makes the management network itself and needs an IP address",
            ) from None
        found[name] = ip_interface(f"{address}/{24 if isinstance(address, IPv4Address) else 64}")
    subnets = {interface.network for interface in found.values()}
    if len(subnets) != 1:
        raise InputError(
            "the switches' management addresses lie in several subnets: "
            + ", ".join(sorted(map(str, subnets))),
            hint="the lab joins them by one link: use one /24 (IPv6: /64)",
        )
    subnet = subnets.pop()
    if (CABLES_V4 if isinstance(subnet, IPv4Network) else CABLES_V6).overlaps(subnet):
        raise InputError(
            f"management subnet {subnet} overlaps the lab's own {CABLES_V4} and {CABLES_V6}",
            hint="choose management addresses outside of both",
        )
    taken = {interface.ip for interface in found.values()}
    # From the top: people number their switches from the bottom.
    free = next(
        subnet[host]
        for host in range(min(subnet.num_addresses, 1 << 16) - 2, 0, -1)
        if subnet[host] not in taken
    )
    return ManagementNetwork(controller=ip_interface(f"{free}/{subnet.prefixlen}"), switches=found)
