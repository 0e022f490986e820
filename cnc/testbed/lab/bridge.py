"""The Linux bridge of a switch in a bridged lab, and what of it carries ordinary traffic.

The lab makes the bridge with its ports and the VLAN of ordinary traffic, as an installation does;
what streams need is for the agents to set. All functions run inside the switch's namespace.
"""

from __future__ import annotations

from collections.abc import Collection

from pyroute2 import IPRoute, NetlinkError

from cnc.errors import CncError
from cnc.testbed.lab.namespaces import bring_up, sysctl

ORDINARY_VLAN = 1


def make(device: str, mac: str) -> None:
    """Create the bridge: it filters by VLAN, learns and floods, and runs no spanning tree protocol.

    Group addresses of streams need snooping. Without a querier all other groups are flooded.

    Raises:
        CncError: the kernel refused, most likely because it has no bridge with VLAN filtering.
    """
    with IPRoute() as ip:
        try:
            ip.link(
                "add",
                ifname=device,
                kind="bridge",
                address=mac,
                br_vlan_filtering=1,
                br_vlan_default_pvid=ORDINARY_VLAN,
                br_mcast_snooping=1,
                br_mcast_querier=0,
                br_stp_state=0,
            )
        except NetlinkError as error:
            raise CncError(
                f"the kernel refused a bridge {device}: {error}",
                hint="it needs CONFIG_BRIDGE, CONFIG_BRIDGE_VLAN_FILTERING and "
                "CONFIG_BRIDGE_IGMP_SNOOPING",
            ) from None
        bring_up(ip, device)


def join(device: str, port: str, ordinary: Collection[str]) -> None:
    """Make a port a member of the bridge; the VLAN of ordinary traffic only if it is `ordinary`."""
    sysctl(f"net/ipv6/conf/{port}/disable_ipv6", 1)  # else it has an address of its own
    with IPRoute() as ip:
        index = ip.link_lookup(ifname=port)[0]
        ip.link("set", index=index, master=ip.link_lookup(ifname=device)[0])
        if port not in ordinary:
            ip.vlan_filter("del", index=index, vlan_info={"vid": ORDINARY_VLAN})
