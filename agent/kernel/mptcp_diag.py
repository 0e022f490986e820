"""Connections of multipath TCP in a network namespace and their subflows: inet_diag, sock_diag(7).

Connections are sockets of protocol 262, which a request names in an attribute of its own; subflows
are TCP sockets with the upper layer protocol `mptcp`. pyroute2's `DiagSocket` has neither.
Constants are those of linux/inet_diag.h, linux/mptcp.h and linux/tcp.h.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address

from agent.kernel.netlink_batch import Message, NetlinkSocket, attribute, attributes

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_IPPROTO_TCP, _IPPROTO_MPTCP = 6, 262
_REQUEST = struct.Struct("=BBBxI48x")  # inet_diag_req_v2: family, protocol, extensions, states
_SOCKET = struct.Struct("=BBBB2s2s16s16s16xIIII")  # inet_diag_msg
_REQ_PROTOCOL, _INFO, _ULP_INFO, _CGROUP_ID = 3, 2, 19, 21
_ULP_MPTCP = 3
_TOKEN_LOCAL, _FLAGS, _ID_REMOTE, _ID_LOCAL = 2, 8, 9, 10  # MPTCP_SUBFLOW_ATTR_*
# MPTCP_SUBFLOW_FLAG_*: the peer has agreed by MP_CAPABLE or MP_JOIN; this side says backup.
_AGREED, _BACKUP = 1 << 0 | 1 << 2, 1 << 5
# TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_CLOSE_WAIT: data may still come or go.
_ESTABLISHED, _SYN_SENT = 1, 2
_CONNECTED = 1 << _ESTABLISHED | 1 << 4 | 1 << 5 | 1 << 8
# Of struct mptcp_info: flags, token, and (since Linux 6.5) octets received and acknowledged.
_MPTCP_INFO, _MPTCP_OCTETS = struct.Struct("=8xII"), struct.Struct("=64xQQ")
_FALLBACK = 1
# Of struct tcp_info: rtt, retransmissions in all, octets acknowledged and received, delivery rate.
_RTT, _RETRANSMITTED, _OCTETS, _RATE = 68, 100, 120, 160
_US = 1000


@dataclass(frozen=True, slots=True)
class DiagConnection:
    """`cgroup` is the id of the control group, the inode number of its directory; 0: none. `octets`
    came and went, each once; None: the kernel does not count them."""

    token: int
    local: str
    remote: str
    local_port: int
    remote_port: int
    uid: int
    cgroup: int = 0
    octets: int | None = None


@dataclass(frozen=True, slots=True)
class DiagSubflow:
    """`is_backup`: this side says so. `is_open`: its handshake is over. `is_plain`: the
    connection has fallen back to TCP, because the peer or a middlebox does not have the options."""

    token: int
    local: str
    remote: str
    local_port: int
    remote_port: int
    id: int
    is_backup: bool
    is_open: bool = True
    is_plain: bool = False
    rtt_ns: int = 0
    delivery_rate_bps: int = 0
    octets_acked: int = 0
    octets_received: int = 0
    retransmitted: int = 0


class MptcpDiag:
    """Needs CAP_NET_ADMIN for what makes a TCP socket a subflow. Raises `NetlinkError`: ENOENT
    where the kernel cannot list sockets of multipath TCP. Not to be used by two threads at once."""

    def __init__(self) -> None:
        self._socket = NetlinkSocket(_NETLINK_SOCK_DIAG)

    def connections(self) -> list[DiagConnection]:
        """Those that are established; one that has fallen back to TCP is none."""
        protocol = attribute(_REQ_PROTOCOL, struct.pack("=I", _IPPROTO_MPTCP))
        listed = self._dump(_IPPROTO_MPTCP & 0xFF, _CONNECTED, protocol)
        return [each for payload in listed for each in _connection(payload)]

    def subflows(self) -> list[DiagSubflow]:
        """Those of all connections, of either side of the handshake."""
        listed = self._dump(_IPPROTO_TCP, _CONNECTED | 1 << _SYN_SENT)
        return [each for payload in listed for each in _subflow(payload)]

    def close(self) -> None:
        self._socket.close()

    def _dump(self, protocol: int, states: int, more: bytes = b"") -> Iterator[bytes]:
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST.pack(family, protocol, 1 << (_INFO - 1), states) + more
            for message in self._socket.dump(Message(_SOCK_DIAG_BY_FAMILY, request)):
                yield message.payload


def _connection(payload: bytes) -> Iterator[DiagConnection]:
    _state, local, remote, local_port, remote_port, uid = _identity(payload)
    has = dict(attributes(payload[_SOCKET.size :]))
    if len(has.get(_INFO, b"")) < _MPTCP_INFO.size:
        return
    flags, token = _MPTCP_INFO.unpack_from(has[_INFO])
    if not flags & _FALLBACK:
        cgroup = int.from_bytes(has.get(_CGROUP_ID, b""), sys.byteorder)
        octets = None
        if len(has[_INFO]) >= _MPTCP_OCTETS.size:
            octets = sum(_MPTCP_OCTETS.unpack_from(has[_INFO]))
        yield DiagConnection(token, local, remote, local_port, remote_port, uid, cgroup, octets)


def _subflow(payload: bytes) -> Iterator[DiagSubflow]:
    state, local, remote, local_port, remote_port, _uid = _identity(payload)
    has = dict(attributes(payload[_SOCKET.size :]))
    its = dict(attributes(dict(attributes(has.get(_ULP_INFO, b""))).get(_ULP_MPTCP, b"")))
    token = int.from_bytes(its.get(_TOKEN_LOCAL, b""), sys.byteorder)
    if not token:
        return
    info = has.get(_INFO, b"").ljust(_RATE + 8, b"\0")
    acked, received = struct.unpack_from("=QQ", info, _OCTETS)
    flags = int.from_bytes(its.get(_FLAGS, b""), sys.byteorder)
    yield DiagSubflow(
        token,
        local,
        remote,
        local_port,
        remote_port,
        id=its.get(_ID_LOCAL, b"\0")[0],
        is_backup=bool(flags & _BACKUP),
        is_open=state != _SYN_SENT,
        is_plain=state != _SYN_SENT and not flags & _AGREED,
        rtt_ns=struct.unpack_from("=I", info, _RTT)[0] * _US,
        delivery_rate_bps=8 * struct.unpack_from("=Q", info, _RATE)[0],
        octets_acked=acked,
        octets_received=received,
        retransmitted=struct.unpack_from("=I", info, _RETRANSMITTED)[0],
    )


def _identity(payload: bytes) -> tuple[int, str, str, int, int, int]:
    """State, addresses, ports and user. An IPv4 address of an IPv6 socket is one of IPv4."""
    family, state, _, _, source_port, port, source, destination, _, _, uid, _ = _SOCKET.unpack_from(
        payload
    )

    def text(octets: bytes) -> str:
        if family == socket.AF_INET:
            return socket.inet_ntop(family, octets[:4])
        address = IPv6Address(octets)
        return str(address.ipv4_mapped or address)

    ports = (int.from_bytes(each, "big") for each in (source_port, port))
    return (state, text(source), text(destination), *ports, uid)
