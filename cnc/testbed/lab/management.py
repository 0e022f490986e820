"""The management network of a lab, which connects the controller to the switches.

controller's namespace                 namespace "tsn-LAB.management"            switch s1
tsn-LAB ════════ veth ════════ controller ── bridge ── s1 ════════ veth ════════ mgmt
"""

from __future__ import annotations

from functools import partial
from ipaddress import IPv4Interface, IPv6Interface
from zlib import crc32

from pyroute2 import IPRoute

from cnc.errors import CncError
from cnc.model import Intent
from cnc.testbed.lab import namespaces
from cnc.testbed.lab.addressing import management
from cnc.testbed.lab.namespaces import bring_up, inside, sysctl

SWITCH_PORT = "mgmt"


def lay(intent: Intent) -> None:
    """Join the controller and every switch by a bridge: outside, the lab is one interface.

    Raises:
        CncError: the controller's address is in use.
    """
    plan = management(intent)
    home = namespaces.of_management(intent.name)
    outside = _outside_interface(intent.name)
    with IPRoute() as ip:
        if ip.get_addr(
            match=lambda address: address.get_attr("IFA_ADDRESS") == str(plan.controller.ip)
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
                ifname=SWITCH_PORT,
                net_ns_fd=namespaces.of_node(intent.name, switch),
                kind="veth",
                peer={"ifname": switch, "net_ns_fd": home},
            )
    _assign(outside, plan.controller)
    inside(home, partial(_join, ["controller", *plan.switches]))
    for switch, address in plan.switches.items():
        inside(namespaces.of_node(intent.name, switch), partial(_assign, SWITCH_PORT, address))


def remove(lab: str) -> None:
    """Delete the lab's interface in the controller's namespace; a missing one is not an error."""
    with IPRoute() as ip:
        # A namespace removes its veth pairs some time after its end; this end is removed at once.
        for index in ip.link_lookup(ifname=_outside_interface(lab)):
            ip.link("del", index=index)


def set_link(lab: str, switch: str, state: str) -> None:
    """Set the cable to a switch `up` or `down`, at the bridge.

    While it is down packets are lost in both directions; no connection is reset.
    """

    def apply() -> None:
        with IPRoute() as ip:
            ip.link("set", index=ip.link_lookup(ifname=switch)[0], state=state)

    inside(namespaces.of_management(lab), apply)


def _outside_interface(lab: str) -> str:
    name = f"tsn-{lab}"
    longest = 15  # IFNAMSIZ less the terminating zero
    return name if len(name) <= longest else f"tsn-{crc32(lab.encode()):08x}"


def _assign(interface: str, address: IPv4Interface | IPv6Interface) -> None:
    with IPRoute() as ip:
        index = ip.link_lookup(ifname=interface)[0]
        ip.addr("add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen)
        bring_up(ip, interface)


def _join(ports: list[str]) -> None:
    sysctl("net/ipv6/conf/default/disable_ipv6", 1)
    with IPRoute() as ip:
        ip.link("add", ifname="bridge", kind="bridge")
        bridge = ip.link_lookup(ifname="bridge")[0]
        for port in ports:
            ip.link("set", index=ip.link_lookup(ifname=port)[0], master=bridge, state="up")
        bring_up(ip, "bridge")
