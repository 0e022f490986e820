"""What the kernel says about network interfaces: index, transmit queues, speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyroute2 import IPRoute
from pyroute2.ethtool import Ethtool
from pyroute2.ethtool.ioctl import NotSupportedError
from pyroute2.netlink.exceptions import NetlinkError

BPS_PER_MBPS = 1_000_000
SPEED_UNKNOWN_MBPS = 0xFFFF_FFFF  # SPEED_UNKNOWN of linux/ethtool.h, read as unsigned

SpeedOf = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class Link:
    """`qdisc` is the root queueing discipline's kind, also where the qdisc dump omits it (noop)."""

    index: int
    name: str
    tx_queues: int
    speed_bps: int | None
    qdisc: str


def read(ipr: IPRoute, speed_of: SpeedOf) -> list[Link]:
    """Every interface of the network namespace except the loopback."""
    return [
        Link(
            index=message["index"],
            name=(name := message.get("IFLA_IFNAME")),
            tx_queues=message.get("IFLA_NUM_TX_QUEUES") or 1,
            speed_bps=speed_of(name),
            qdisc=message.get("IFLA_QDISC") or "noqueue",
        )
        for message in ipr.get_links()
        if message.get("IFLA_IFNAME") != "lo"
    ]


class LinkSpeed:
    """Asks the driver through ethtool, which unlike sysfs follows the network namespace."""

    def __init__(self) -> None:
        self._ethtool = Ethtool()

    def __call__(self, name: str) -> int | None:
        """Bits per second; None when the link is down or the driver does not say."""
        try:
            speed_mbps = self._ethtool.get_link_mode(name).speed
        except (NotSupportedError, NetlinkError, OSError):
            return None
        if not speed_mbps or speed_mbps == SPEED_UNKNOWN_MBPS:
            return None
        return int(speed_mbps) * BPS_PER_MBPS

    def close(self) -> None:
        self._ethtool.close()
