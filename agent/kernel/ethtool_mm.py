"""The MAC merge layer of ports through ethtool netlink (`ETHTOOL_MSG_MM_*`, `ETHTOOL_A_MM_*` of
linux/ethtool_netlink.h, net/ethtool/mm.c), in the form of `pyroute2/netlink/generic/ethtool.py`.
"""

# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

from pyroute2.netlink import genlmsg
from pyroute2.netlink.generic.ethtool import ETHTOOL_GENL_VERSION, ethtoolheader

from agent.model import MacMerge, VerifyStatus

ETHTOOL_MSG_MM_GET = 42  # since Linux 6.3

# enum ethtool_mm_verify_status of linux/ethtool.h
_VERIFY_STATUS = (
    VerifyStatus.UNKNOWN,
    VerifyStatus.INITIAL,
    VerifyStatus.VERIFYING,
    VerifyStatus.SUCCEEDED,
    VerifyStatus.FAILED,
    VerifyStatus.DISABLED,
)


class mac_merge_msg(genlmsg):  # noqa: N801 (as pyroute2 names messages)
    """A request of ETHTOOL_MSG_MM_GET, and its reply."""

    nla_map = (
        ("ETHTOOL_A_MM_UNSPEC", "none"),
        ("ETHTOOL_A_MM_HEADER", "ethtoolheader"),
        ("ETHTOOL_A_MM_PMAC_ENABLED", "uint8"),
        ("ETHTOOL_A_MM_TX_ENABLED", "uint8"),
        ("ETHTOOL_A_MM_TX_ACTIVE", "uint8"),
        ("ETHTOOL_A_MM_TX_MIN_FRAG_SIZE", "uint32"),
        ("ETHTOOL_A_MM_RX_MIN_FRAG_SIZE", "uint32"),
        ("ETHTOOL_A_MM_VERIFY_ENABLED", "uint8"),
        ("ETHTOOL_A_MM_VERIFY_STATUS", "uint8"),
        ("ETHTOOL_A_MM_VERIFY_TIME", "uint32"),
        ("ETHTOOL_A_MM_MAX_VERIFY_TIME", "uint32"),
        ("ETHTOOL_A_MM_STATS", "hex"),
    )
    ethtoolheader = ethtoolheader


def request() -> mac_merge_msg:
    """Asks for those of all ports: the kernel leaves out what has none."""
    message = mac_merge_msg()
    message["cmd"], message["version"] = ETHTOOL_MSG_MM_GET, ETHTOOL_GENL_VERSION
    message["attrs"] = [("ETHTOOL_A_MM_HEADER", {"attrs": []})]
    return message


def reply(message: Any) -> tuple[int, MacMerge]:
    """The index of a port, and what its driver says of its MAC merge layer."""
    status = message.get("ETHTOOL_A_MM_VERIFY_STATUS", 0)
    return message.get("ETHTOOL_A_MM_HEADER").get("ETHTOOL_A_HEADER_DEV_INDEX"), MacMerge(
        tx_enabled=bool(message.get("ETHTOOL_A_MM_TX_ENABLED")),
        tx_active=bool(message.get("ETHTOOL_A_MM_TX_ACTIVE")),
        verify_status=(
            _VERIFY_STATUS[status] if status < len(_VERIFY_STATUS) else VerifyStatus.UNKNOWN
        ),
        tx_min_fragment_octets=message.get("ETHTOOL_A_MM_TX_MIN_FRAG_SIZE") or 0,
    )
