"""Path manager of multipath TCP (RFC 8684) in the kernel: the generic netlink family `mptcp_pm`.

pyroute2's `MPTCP` adds, deletes and lists endpoints and sets limits; this one changes the flags of
an endpoint as well, asks for one by its id, has flags by name, and the commands that concern one
connection. Constants are those of linux/mptcp_pm.h, what the kernel does with them is in
net/mptcp/pm_netlink.c and pm_userspace.c. In the form of `pyroute2/netlink/generic/mptcp.py`.
"""

# mypy: allow-subclassing-any

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyroute2 import GenericNetlinkSocket
from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, genlmsg, nla

MPTCP_PM_NAME, MPTCP_PM_VER = "mptcp_pm", 1
ADD_ADDR, DEL_ADDR, GET_ADDR = 1, 2, 3
SET_LIMITS, GET_LIMITS, SET_FLAGS = 5, 6, 7
ANNOUNCE, REMOVE, SUBFLOW_CREATE, SUBFLOW_DESTROY = 8, 9, 10, 11

NLA_F_NESTED = 0x8000  # the kernel insists on it for an address
# MPTCP_PM_ADDR_FLAG_*, by the names of ip-mptcp(8)
FLAGS = {"signal": 1, "subflow": 2, "backup": 4, "fullmesh": 8, "implicit": 16}
CHANGEABLE = frozenset({"backup", "fullmesh"})  # what SET_FLAGS can change
LIMIT_MAX = 8  # MPTCP_PM_ADDR_MAX, of both limits and of the endpoints


class mptcp_msg(genlmsg):  # noqa: N801  as pyroute2 names messages
    """Every request, and every answer."""

    prefix = "MPTCP_PM_ATTR_"
    nla_map = (
        ("MPTCP_PM_ATTR_UNSPEC", "none"),
        ("MPTCP_PM_ATTR_ADDR", "pm_addr"),
        ("MPTCP_PM_ATTR_RCV_ADD_ADDRS", "uint32"),
        ("MPTCP_PM_ATTR_SUBFLOWS", "uint32"),
        ("MPTCP_PM_ATTR_TOKEN", "uint32"),
        ("MPTCP_PM_ATTR_LOC_ID", "uint8"),
        ("MPTCP_PM_ATTR_ADDR_REMOTE", "pm_addr"),
    )

    class pm_addr(nla):  # noqa: N801
        prefix = "MPTCP_PM_ADDR_ATTR_"
        nla_map = (
            ("MPTCP_PM_ADDR_ATTR_UNSPEC", "none"),
            ("MPTCP_PM_ADDR_ATTR_FAMILY", "uint16"),
            ("MPTCP_PM_ADDR_ATTR_ID", "uint8"),
            ("MPTCP_PM_ADDR_ATTR_ADDR4", "ip4addr"),
            ("MPTCP_PM_ADDR_ATTR_ADDR6", "ip6addr"),
            ("MPTCP_PM_ADDR_ATTR_PORT", "uint16"),
            ("MPTCP_PM_ADDR_ATTR_FLAGS", "uint32"),
            ("MPTCP_PM_ADDR_ATTR_IF_IDX", "int32"),
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A local address that subflows leave from (`subflow`) or that peers are told of (`signal`).

    The kernel chooses the `id` of a new one (0 here). `ifindex` 0: whichever interface the routes
    say. `port` is that of a subflow that exists, 0 for any.
    """

    address: str
    flags: frozenset[str] = frozenset()
    id: int = 0
    ifindex: int = 0
    port: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Of each connection: subflows beside the first, and addresses of the peer that are used."""

    subflows: int
    add_addr_accepted: int


class MptcpPm:
    """Of the network namespace in which it is made; changing needs CAP_NET_ADMIN.

    Each method raises `NetlinkError`: ENOENT where the kernel has no multipath TCP. Not to be used
    by two threads at once.
    """

    def __init__(self) -> None:
        self._socket = GenericNetlinkSocket(ext_ack=True)
        self._bound = False

    def endpoints(self) -> list[Endpoint]:
        """All of the namespace, whoever has made them."""
        return [_endpoint(each) for each in self._send(GET_ADDR, flags=NLM_F_DUMP)]

    def endpoint(self, identity: int) -> Endpoint:
        """EINVAL where no endpoint has this id."""
        (found,) = self._send(GET_ADDR, [_address((("ID", identity),))], flags=0)
        return _endpoint(found)

    def add(self, endpoint: Endpoint) -> None:
        """Connections that exist use it at once, as far as the limits let them. EEXIST where the
        address has one."""
        self._send(ADD_ADDR, [_address(_attributes(endpoint))])

    def change(self, endpoint: Endpoint) -> None:
        """Give the endpoint of this id those of these flags that are in `CHANGEABLE`, and no other
        of them: of connections that exist, too."""
        self._send(SET_FLAGS, [_address(_attributes(endpoint))])

    def delete(self, endpoint: Endpoint) -> None:
        """With all subflows that leave from it."""
        self._send(DEL_ADDR, [_address(_attributes(endpoint))])

    def limits(self) -> Limits:
        (found,) = self._send(GET_LIMITS, flags=0)
        return Limits(
            int(found.get_attr("MPTCP_PM_ATTR_SUBFLOWS")),
            int(found.get_attr("MPTCP_PM_ATTR_RCV_ADD_ADDRS")),
        )

    def set_limits(self, limits: Limits) -> None:
        """EINVAL where one of them exceeds `LIMIT_MAX`."""
        subflows = ("MPTCP_PM_ATTR_SUBFLOWS", limits.subflows)
        accepted = ("MPTCP_PM_ATTR_RCV_ADD_ADDRS", limits.add_addr_accepted)
        self._send(SET_LIMITS, [subflows, accepted])

    # Of one connection, by its token. Of a socket that was made while `net.mptcp.pm_type` was not 1
    # the kernel says EINVAL, "userspace PM not selected".

    def create_subflow(self, token: int, local: Endpoint, remote: Endpoint) -> None:
        """Begin the handshake of a subflow; its outcome is an event. `local` needs an id of its own
        and may have the flag `backup`; `remote` needs a port."""
        self._of_connection(SUBFLOW_CREATE, token, local, remote)

    def destroy_subflow(self, token: int, local: Endpoint, remote: Endpoint) -> None:
        """Both need a port. ESRCH where the connection has no such subflow."""
        self._of_connection(SUBFLOW_DESTROY, token, local, remote)

    def set_backup(self, token: int, local: Endpoint, remote: Endpoint) -> None:
        """Let a subflow be a backup, or none, as the flags of `local` say; the peer is told."""
        self._of_connection(SET_FLAGS, token, local, remote)

    def announce(self, token: int, local: Endpoint) -> None:
        """Tell the peer of an address, which needs an id and the flag `signal`."""
        self._of_connection(ANNOUNCE, token, local)

    def withdraw(self, token: int, identity: int) -> None:
        """Tell the peer that an announced address is none any more; EINVAL: no such id."""
        self._send(REMOVE, [("MPTCP_PM_ATTR_TOKEN", token), ("MPTCP_PM_ATTR_LOC_ID", identity)])

    def _of_connection(self, command: int, token: int, *addresses: Endpoint) -> None:
        names = ("MPTCP_PM_ATTR_ADDR", "MPTCP_PM_ATTR_ADDR_REMOTE")
        ends = [
            _address(_attributes(each), name) for name, each in zip(names, addresses, strict=False)
        ]
        self._send(command, [("MPTCP_PM_ATTR_TOKEN", token), *ends])

    def close(self) -> None:
        self._socket.close()

    def _send(
        self, command: int, attributes: Iterable[Any] = (), flags: int = NLM_F_ACK
    ) -> list[Any]:
        if not self._bound:
            self._socket.bind(MPTCP_PM_NAME, mptcp_msg)
            self._bound = True
        message = request(command, attributes)
        return list(
            self._socket.nlm_request(
                message, msg_type=self._socket.prid, msg_flags=NLM_F_REQUEST | flags
            )
        )


def request(command: int, attributes: Iterable[Any]) -> mptcp_msg:
    """The message with these attributes, each as pyroute2 wants it."""
    message = mptcp_msg()
    message["cmd"], message["version"] = command, MPTCP_PM_VER
    message["attrs"] = list(attributes)
    return message


def _address(
    attributes: Iterable[tuple[str, Any]], name: str = "MPTCP_PM_ATTR_ADDR"
) -> tuple[str, Any, int]:
    named = [(f"MPTCP_PM_ADDR_ATTR_{name}", value) for name, value in attributes]
    return name, {"attrs": named}, NLA_F_NESTED


def _attributes(endpoint: Endpoint) -> Iterable[tuple[str, Any]]:
    is_ipv4 = isinstance(ipaddress.ip_address(endpoint.address), ipaddress.IPv4Address)
    yield "FAMILY", socket.AF_INET if is_ipv4 else socket.AF_INET6
    yield "ADDR4" if is_ipv4 else "ADDR6", endpoint.address
    yield "FLAGS", sum(FLAGS[each] for each in endpoint.flags)
    if endpoint.id:
        yield "ID", endpoint.id
    if endpoint.port:
        yield "PORT", endpoint.port
    if endpoint.ifindex:
        yield "IF_IDX", endpoint.ifindex


def _endpoint(message: Any) -> Endpoint:
    address = message.get_attr("MPTCP_PM_ATTR_ADDR")

    def value(name: str, otherwise: Any = 0) -> Any:
        found = address.get_attr(f"MPTCP_PM_ADDR_ATTR_{name}")
        return otherwise if found is None else found

    bits = value("FLAGS")
    return Endpoint(
        address=value("ADDR4", None) or value("ADDR6"),
        flags=frozenset(name for name, bit in FLAGS.items() if bits & bit),
        id=value("ID"),
        ifindex=value("IF_IDX"),
    )
