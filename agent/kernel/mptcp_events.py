"""What the kernel reports of multipath TCP connections: the multicast group `mptcp_pm_events`.

pyroute2 has none of it. Constants are those of linux/mptcp_pm.h; net/mptcp/pm_netlink.c says which
event bears what. In the form of `pyroute2/netlink/generic/mptcp.py`.
"""

# mypy: allow-subclassing-any

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pyroute2 import GenericNetlinkSocket
from pyroute2.netlink import genlmsg

from agent.kernel.mptcp_pm import MPTCP_PM_NAME, mptcp_msg

GROUP = "mptcp_pm_events"
_NETLINK_GENERIC, _SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP = 16, 270, 1
_RECEIVE_OCTETS = 1 << 16


class EventKind(IntEnum):
    """MPTCP_EVENT_*; those of listeners are left out."""

    CREATED = 1
    ESTABLISHED = 2
    CLOSED = 3
    ANNOUNCED = 6  # an address, by the peer
    REMOVED = 7  # the same
    SUBFLOW_ESTABLISHED = 10
    SUBFLOW_CLOSED = 11
    SUBFLOW_PRIORITY = 13


class mptcp_event_msg(genlmsg):  # noqa: N801  as pyroute2 names messages
    """Every event: `cmd` of its header is an `EventKind`."""

    prefix = "MPTCP_ATTR_"
    nla_map = (
        ("MPTCP_ATTR_UNSPEC", "none"),
        ("MPTCP_ATTR_TOKEN", "uint32"),
        ("MPTCP_ATTR_FAMILY", "uint16"),
        ("MPTCP_ATTR_LOC_ID", "uint8"),
        ("MPTCP_ATTR_REM_ID", "uint8"),
        ("MPTCP_ATTR_SADDR4", "ip4addr"),
        ("MPTCP_ATTR_SADDR6", "ip6addr"),
        ("MPTCP_ATTR_DADDR4", "ip4addr"),
        ("MPTCP_ATTR_DADDR6", "ip6addr"),
        ("MPTCP_ATTR_SPORT", "be16"),
        ("MPTCP_ATTR_DPORT", "be16"),
        ("MPTCP_ATTR_BACKUP", "uint8"),
        ("MPTCP_ATTR_ERROR", "uint8"),
        ("MPTCP_ATTR_FLAGS", "uint16"),
        ("MPTCP_ATTR_TIMEOUT", "uint32"),
        ("MPTCP_ATTR_IF_IDX", "uint32"),
        ("MPTCP_ATTR_RESET_REASON", "uint32"),
        ("MPTCP_ATTR_RESET_FLAGS", "uint32"),
        ("MPTCP_ATTR_SERVER_SIDE", "uint8"),
    )


@dataclass(frozen=True, slots=True)
class MptcpEvent:
    """`local` and `remote` are addresses, None where the event has none; `error` is an error number
    of the kernel, 0 where nothing failed."""

    kind: EventKind
    token: int
    local: str | None = None
    remote: str | None = None
    remote_port: int = 0
    remote_id: int = 0
    error: int = 0


class MptcpEvents:
    """Of the network namespace in which it is made; needs CAP_NET_ADMIN.

    `NetlinkError` ENOENT where the kernel has no multipath TCP. Not to be used by two threads at
    once.
    """

    def __init__(self) -> None:
        with GenericNetlinkSocket() as asked:
            asked.bind(MPTCP_PM_NAME, mptcp_msg)
            group = asked.mcast_groups[GROUP]
        self._socket = socket.socket(
            socket.AF_NETLINK,
            socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC,
            _NETLINK_GENERIC,
        )
        self._socket.bind((0, 0))
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)

    def read(self) -> list[MptcpEvent] | None:
        """Those since the last call; None: the kernel had to drop some (ENOBUFS)."""
        found: list[MptcpEvent] = []
        is_whole = True
        while True:
            try:
                octets = self._socket.recv(_RECEIVE_OCTETS)
            except BlockingIOError:
                return found if is_whole else None
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                is_whole = False
            else:
                found += decoded(octets)

    def close(self) -> None:
        self._socket.close()


def decoded(octets: bytes) -> Iterator[MptcpEvent]:
    """The events of one datagram."""
    offset = 0
    while offset < len(octets):
        message = mptcp_event_msg(octets, offset=offset)
        message.decode()
        offset += (message["header"]["length"] + 3) & ~3
        if message["cmd"] in set(EventKind):
            yield _event(message)


def _event(message: Any) -> MptcpEvent:
    def value(name: str) -> Any:
        return message.get_attr(f"MPTCP_ATTR_{name}")

    return MptcpEvent(
        EventKind(message["cmd"]),
        value("TOKEN"),
        value("SADDR4") or value("SADDR6"),
        value("DADDR4") or value("DADDR6"),
        value("DPORT") or 0,
        value("REM_ID") or 0,
        value("ERROR") or 0,
    )
