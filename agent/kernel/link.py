"""What the kernel says about network interfaces: state, transmit queues, counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyroute2 import IPRoute

from agent.model import LinuxBridge, OperStatus

# The interface of `agent.kernel.timer_probe`: no port, although it is one of Ethernet.
WAKE_UP_PROBE = "tsn-wake-ups"

# IF_OPER_* of linux/if.h as pyroute2 writes them
_OPER_STATUS = {
    "UP": OperStatus.UP,
    "DOWN": OperStatus.DOWN,
    "TESTING": OperStatus.TESTING,
    "DORMANT": OperStatus.DORMANT,
    "NOTPRESENT": OperStatus.NOT_PRESENT,
    "LOWERLAYERDOWN": OperStatus.LOWER_LAYER_DOWN,
}
# BR_STATE_* of linux/if_bridge.h
_PORT_STATES = dict(enumerate(("disabled", "listening", "learning", "forwarding", "blocking")))


@dataclass(frozen=True, slots=True)
class Link:
    """`qdisc` is the root queueing discipline's kind, also where the qdisc dump omits it (noop).

    `bridge` is the name of the bridge that forwards the frames of this interface, `as_bridge` what
    the interface is set to if it is a bridge itself. `switch_id` is that of the hardware that
    forwards the frames of this interface (switchdev), None where the kernel does. `xdp_program` is
    the number of the XDP program that is attached.
    """

    index: int
    name: str
    tx_queues: int
    qdisc: str
    oper_status: OperStatus
    mac_address: str | None
    statistics: Mapping[str, int]
    carrier_losses: int
    bridge: str | None
    as_bridge: LinuxBridge | None
    mtu_octets: int | None
    switch_id: str | None
    xdp_program: int | None


def read(ipr: IPRoute) -> list[Link]:
    """Every interface of the network namespace except the loopback and the agent's own."""
    messages = list(ipr.get_links())
    names = {message["index"]: message.get("IFLA_IFNAME") for message in messages}
    return [
        Link(
            index=message["index"],
            name=message.get("IFLA_IFNAME"),
            tx_queues=message.get("IFLA_NUM_TX_QUEUES") or 1,
            qdisc=message.get("IFLA_QDISC") or "noqueue",
            oper_status=_OPER_STATUS.get(message.get("IFLA_OPERSTATE"), OperStatus.UNKNOWN),
            mac_address=message.get("IFLA_ADDRESS"),
            statistics=_statistics(message.get("IFLA_STATS64") or {}),
            carrier_losses=message.get("IFLA_CARRIER_DOWN_COUNT") or 0,
            bridge=names.get(message.get("IFLA_MASTER")) if _is_bridged(message) else None,
            as_bridge=_as_bridge(message, messages),
            mtu_octets=message.get("IFLA_MTU"),
            switch_id=message.get("IFLA_PHYS_SWITCH_ID"),
            xdp_program=message.get(("xdp", "xdp_prog_id")),
        )
        for message in messages
        if message.get("IFLA_IFNAME") not in ("lo", WAKE_UP_PROBE)
    ]


def _is_bridged(message: Any) -> bool:
    """Whether its master is a bridge: a bond, a team or a VRF is a master, too."""
    return bool(message.get(("linkinfo", "slave_kind")) == "bridge")


def _as_bridge(message: Any, links: Iterable[Any]) -> LinuxBridge | None:
    if message.get(("linkinfo", "kind")) != "bridge":
        return None
    options = message.get(("linkinfo", "data")) or {}
    members = [each for each in links if each.get("IFLA_MASTER") == message["index"]]
    return LinuxBridge(
        vlan_filtering=bool(options.get("IFLA_BR_VLAN_FILTERING")),
        multicast_snooping=bool(options.get("IFLA_BR_MCAST_SNOOPING")),
        ports={
            port.get("IFLA_IFNAME"): port.get(("linkinfo", "slave_data", "IFLA_BRPORT_NO"))
            for port in members
        },
        port_states={
            port.get("IFLA_IFNAME"): _PORT_STATES[state]
            for port in members
            if (state := port.get(("linkinfo", "slave_data", "IFLA_BRPORT_STATE"))) in _PORT_STATES
        },
    )


def _statistics(counted: Mapping[str, Any]) -> dict[str, int]:
    """struct rtnl_link_stats64 in the words of RFC 8343.

    The kernel tells multicast apart only on receipt and broadcast nowhere: what it does not tell
    apart counts as unicast.
    """
    if not counted:
        return {}
    return {
        "in-octets": counted["rx_bytes"],
        "in-unicast-pkts": max(0, counted["rx_packets"] - counted["multicast"]),
        "in-multicast-pkts": counted["multicast"],
        "in-discards": counted["rx_dropped"] + counted["rx_missed_errors"],
        "in-errors": counted["rx_errors"],
        "out-octets": counted["tx_bytes"],
        "out-unicast-pkts": counted["tx_packets"],
        "out-discards": counted["tx_dropped"],
        "out-errors": counted["tx_errors"],
    }
