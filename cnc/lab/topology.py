"""Namespaces, cables, addresses and routes of an emulated network.

Every function is about the kernel only: which processes run there is `cnc.lab.switch`'s business.
Cables are veth pairs and call themselves 10 Gb/s. They carry frames in no time at all, unless the
lab is asked for `cnc.lab.wires`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from pyroute2 import IPRoute, netns
from pyroute2.ethtool.ioctl import IoctlEthtool

from cnc.errors import CncError
from cnc.lab import wires
from cnc.lab.addressing import (
    PortAddresses,
    cables,
    management,
    port_addresses,
    routes,
)
from cnc.model import Intent, PortRef

NETNS_DIRECTORY = Path("/run/netns")
QUEUES = 8  # one per traffic class: taprio refuses more classes than transmit queues
MANAGEMENT_PORT = "mgmt"

# With any of these a receiver sees merged frames, or taprio has to cut them up again.
OFFLOADS = ("tx-generic-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation", "rx-gro")

_Result = TypeVar("_Result")


def namespace(lab: str, node: str) -> str:
    """The namespace of a node, as `ip netns` lists it."""
    return f"tsn-{lab}-{node}"


def exists(name: str) -> bool:
    """Whether there is a namespace of that name."""
    return (NETNS_DIRECTORY / name).exists()


def _management_namespace(lab: str) -> str:
    return f"tsn-{lab}.management"


def _wires_namespace(lab: str) -> str:
    return f"tsn-{lab}.wires"


def _inner_namespaces(lab: str) -> tuple[str, str]:
    """What a lab has beside its nodes. No node's name has a full stop in it."""
    return _management_namespace(lab), _wires_namespace(lab)


def management_interface(lab: str) -> str:
    """The controller's end of the management network: the lab's only interface outside."""
    name = f"tsn-{lab}"
    longest = 15  # IFNAMSIZ less the terminating zero
    return name if len(name) <= longest else f"tsn-{crc32(lab.encode()):08x}"


def inside(name: str, action: Callable[[], _Result]) -> _Result:
    """Run `action` in a thread that has moved into namespace `name`, and return what it returns."""

    def moved() -> _Result:
        # Not pyroute2's own setns: it creates what it does not find.
        netns.setns(name, flags=0)
        return action()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(moved).result()


def members(name: str) -> list[int]:
    """Processes whose network namespace is `name`; none if there is no such namespace."""
    try:
        wanted = (NETNS_DIRECTORY / name).stat().st_ino
    except FileNotFoundError:
        return []
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and _netns_inode(entry) == wanted
    ]


def _netns_inode(process: Path) -> int | None:
    try:
        return (process / "ns/net").stat().st_ino
    except OSError:  # it ended meanwhile
        return None


def build(intent: Intent, *, timed_wires: bool) -> None:
    """Create every namespace, cable, address, route and neighbour entry of the intent.

    `timed_wires`: cables take the time the intent says.

    Raises:
        CncError: the kernel refused, or something of that name is there already. What was made
            until then stays: `remove` takes it away.
    """
    nodes = [*intent.network.bridges, *intent.network.end_stations]
    names = [namespace(intent.name, node) for node in nodes]
    for name in (*names, *_inner_namespaces(intent.name)):
        if exists(name):
            raise CncError(
                f"network namespace {name} exists already",
                hint=f"`cnc lab down {intent.name}` removes a running lab of that name",
            )
        netns.create(name)
    for node, name in zip(nodes, names, strict=True):
        inside(name, partial(_quieten, node in intent.network.bridges))
    if timed_wires:
        _lay_timed_cables(intent)
    else:
        _lay_cables(intent)
    for node, name in zip(nodes, names, strict=True):
        inside(name, partial(_configure_node, intent, node))
    _lay_management(intent)


def remove(lab: str, names: Iterable[str]) -> None:
    """Delete a lab's namespaces and with them all they hold; what is not there is no error."""
    with IPRoute() as ip:
        # A dying namespace takes its veth pairs along only some time later; this end goes at once.
        for index in ip.link_lookup(ifname=management_interface(lab)):
            ip.link("del", index=index)
    for name in (*names, *_inner_namespaces(lab)):
        if exists(name):
            netns.remove(name)


def _lay_cables(intent: Intent) -> None:
    ports = port_addresses(intent.network)
    with IPRoute() as ip:
        for one, other in cables(intent.network):
            ip.link(
                "add",
                kind="veth",
                **_end(intent.name, one, ports[one].mac),
                peer=_end(intent.name, other, ports[other].mac),
            )


def _lay_timed_cables(intent: Intent) -> None:
    """Every port's pair ends in the wires' namespace; there the ends are joined."""
    home = _wires_namespace(intent.name)
    inner = {}
    with IPRoute() as ip:
        for number, (port, found) in enumerate(port_addresses(intent.network).items()):
            inner[port] = f"w{number}"
            peer = {"ifname": inner[port], "net_ns_fd": home}
            ip.link("add", kind="veth", **_end(intent.name, port, found.mac), peer=peer)
    wires.connect(intent.network, home, inner)


def _end(lab: str, port: PortRef, mac: str) -> dict[str, Any]:
    return {
        "ifname": port.port,
        "net_ns_fd": namespace(lab, port.node),
        "address": mac,
        "num_tx_queues": QUEUES,
        "num_rx_queues": QUEUES,
    }


def _quieten(is_switch: bool) -> None:
    """Settings that interfaces copy when they are made; runs inside a node's namespace."""
    for family in ("ipv4", "ipv6"):
        _sysctl(f"net/{family}/conf/all/forwarding", int(is_switch))
    # No address detection, no solicitations: nothing but what the lab sends is on the cables.
    for scope in ("all", "default"):
        _sysctl(f"net/ipv6/conf/{scope}/accept_dad", 0)
        _sysctl(f"net/ipv6/conf/{scope}/accept_ra", 0)
        _sysctl(f"net/ipv6/conf/{scope}/router_solicitations", 0)


def _configure_node(intent: Intent, node: str) -> None:
    """Addresses, neighbours and routes of one node; runs inside its namespace."""
    ports = port_addresses(intent.network)
    with IPRoute() as ip:
        _bring_up(ip, "lo")
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


def _configure_port(ip: IPRoute, port: PortRef, own: PortAddresses, peer: PortAddresses) -> None:
    index = ip.link_lookup(ifname=port.port)[0]
    _disable_offloads(port.port)
    for address in (own.v4, own.v6):
        ip.addr("add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen)
    _bring_up(ip, port.port)
    for neighbour in (peer.v4.ip, peer.v6.ip):
        ip.neigh("replace", ifindex=index, dst=str(neighbour), lladdr=peer.mac, state="permanent")


def _lay_management(intent: Intent) -> None:
    """A bridge in a namespace of its own: outside, the lab is one interface."""
    plan = management(intent)
    home = _management_namespace(intent.name)
    outside = management_interface(intent.name)
    with IPRoute() as ip:
        if ip.get_addr(
            match=lambda found: found.get_attr("IFA_ADDRESS") == str(plan.controller.ip)
        ):
            raise CncError(
                f"this machine has the controller's address {plan.controller.ip} already",
                hint="another lab uses the same management subnet: `cnc lab down` it first",
            )
        ip.link(
            "add", ifname=outside, kind="veth", peer={"ifname": "controller", "net_ns_fd": home}
        )
        for switch in plan.switches:
            ip.link(
                "add",
                ifname=MANAGEMENT_PORT,
                net_ns_fd=namespace(intent.name, switch),
                kind="veth",
                peer={"ifname": switch, "net_ns_fd": home},
            )
    _assign(outside, plan.controller)
    inside(home, partial(_join, ["controller", *plan.switches]))
    for switch, address in plan.switches.items():
        inside(namespace(intent.name, switch), partial(_assign, MANAGEMENT_PORT, address))


def _assign(interface: str, address: IPv4Interface | IPv6Interface) -> None:
    with IPRoute() as ip:
        index = ip.link_lookup(ifname=interface)[0]
        ip.addr("add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen)
        _bring_up(ip, interface)


def _join(ports: list[str]) -> None:
    _sysctl("net/ipv6/conf/default/disable_ipv6", 1)
    with IPRoute() as ip:
        ip.link("add", ifname="bridge", kind="bridge")
        bridge = ip.link_lookup(ifname="bridge")[0]
        for port in ports:
            ip.link("set", index=ip.link_lookup(ifname=port)[0], master=bridge, state="up")
        _bring_up(ip, "bridge")


def _bring_up(ip: IPRoute, interface: str) -> None:
    ip.link("set", index=ip.link_lookup(ifname=interface)[0], state="up")


def _disable_offloads(interface: str) -> None:
    device = IoctlEthtool(interface)
    try:
        features = device.get_features()
        for name in OFFLOADS:
            features[name] = False
        device.set_features(features)
    finally:
        device.close()


def _sysctl(key: str, value: int) -> None:
    # /proc/sys/net shows the namespace of the thread that opens it.
    Path("/proc/sys", key).write_text(f"{value}\n")
