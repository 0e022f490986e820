"""The rules and routes by which what is sent from an address leaves by the port that has it.

The table of a port is a copy of what the main table has by this port, with routes of DHCP and of
operators: packets from an address of the port find no other port there. Rules bear the protocol
and the table of the agent: whose a rule is, the kernel itself remembers, for as long as it has it.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

PROTOCOL = 109  # of rules and routes, for `ip rule` and `ip route`: one that no routing daemon has
PRIORITY = 20_000  # of rules: before the main table, after those that most programs set
TABLES = 0x6D70_0000  # and the index of the port

_MAIN = 254
_SCOPE_UNIVERSE, _UNICAST = 0, 1
_ONLINK = 4  # RTNH_F_ONLINK of linux/rtnetlink.h
# Of routes that are not copied: a gateway of the other family, and what is put around packets.
_OTHER_WAYS = ("RTA_VIA", "RTA_ENCAP")
# IFA_F_TEMPORARY, IFA_F_DADFAILED, IFA_F_DEPRECATED and IFA_F_TENTATIVE of linux/if_addr.h; of
# those of IPv4 the first means that another address has the same prefix.
_UNFIT: dict[int, int] = {socket.AF_INET: 0, socket.AF_INET6: 0x01 | 0x08 | 0x20 | 0x40}
_FAMILIES: dict[int, tuple[str, int]] = {
    socket.AF_INET: ("0.0.0.0/0", 32),
    socket.AF_INET6: ("::/0", 128),
}
_GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ENODEV})


class Address(NamedTuple):
    """An address of a family of sockets."""

    family: int
    text: str


class Route(NamedTuple):
    """By one port, in whichever table. `scope` is that of IPv4; `is_onlink`: the gateway is taken
    for a neighbour."""

    family: int
    destination: str
    gateway: str | None
    preferred_source: str | None
    scope: int
    metric: int | None
    is_onlink: bool


def addresses(ipr: IPRoute) -> dict[int, list[Address]]:
    """Those that a subflow can leave from, by the index of the port, in one order."""
    found: dict[int, list[Address]] = {}
    for message in ipr.get_addr():
        family, flags = message["family"], message.get_attr("IFA_FLAGS") or 0
        if message["scope"] == _SCOPE_UNIVERSE and not flags & _UNFIT.get(family, ~0):
            text = message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS")
            found.setdefault(message["index"], []).append(Address(family, text))
    return {index: sorted(listed) for index, listed in found.items()}


def rules(ipr: IPRoute) -> dict[int, set[Address]]:
    """The addresses that have a rule of the agent's, by the index of the port that it leads to."""
    found: dict[int, set[Address]] = {}
    for family in _FAMILIES:
        for message in ipr.get_rules(family=family):
            table = message.get_attr("FRA_TABLE") or 0
            if message.get_attr("FRA_PROTOCOL") == PROTOCOL and table > TABLES:
                source = Address(family, message.get_attr("FRA_SRC"))
                found.setdefault(table - TABLES, set()).add(source)
    return found


def add_rule(ipr: IPRoute, ifindex: int, address: Address) -> None:
    ipr.rule("add", **_rule(ifindex, address))


def delete_rule(ipr: IPRoute, ifindex: int, address: Address) -> None:
    with _gone_is_fine():
        ipr.rule("del", **_rule(ifindex, address))


def _rule(ifindex: int, address: Address) -> dict[str, Any]:
    _, length = _FAMILIES[address.family]
    return {
        "family": address.family,
        "src": address.text,
        "src_len": length,
        "table": TABLES + ifindex,
        "priority": PRIORITY,
        "protocol": PROTOCOL,
    }


def copy_routes(ipr: IPRoute, ifindex: int, families: Collection[int]) -> None:
    """Let the table of the port have what the main table has by it, of these families."""
    wanted = {each for each in _routes(ipr, ifindex, _MAIN) if each.family in families}
    there = set(_routes(ipr, ifindex, TABLES + ifindex))
    # Those to neighbours first: by them a gateway is reached.
    for route in sorted(wanted - there, key=lambda each: each.gateway is not None):
        ipr.route("add", **_request(ifindex, route))
    _delete(ipr, ifindex, there - wanted)


def _delete(ipr: IPRoute, ifindex: int, routes: set[Route]) -> None:
    for route in routes:
        with _gone_is_fine():
            ipr.route("del", **_request(ifindex, route))


def _routes(ipr: IPRoute, ifindex: int, table: int) -> Iterator[Route]:
    for family, (default, _) in _FAMILIES.items():
        for message in ipr.get_routes(family=family, table=table, oif=ifindex):
            if message["type"] != _UNICAST or message.get_attr("RTA_OIF") != ifindex:
                continue
            if any(message.get_attr(each) for each in _OTHER_WAYS):
                continue
            destination = message.get_attr("RTA_DST")
            yield Route(
                family,
                f"{destination}/{message['dst_len']}" if destination else default,
                message.get_attr("RTA_GATEWAY"),
                message.get_attr("RTA_PREFSRC"),
                message["scope"],
                message.get_attr("RTA_PRIORITY"),
                bool(message["flags"] & _ONLINK),
            )


def _request(ifindex: int, route: Route) -> dict[str, Any]:
    request: dict[str, Any] = {
        "family": route.family,
        "dst": route.destination,
        "scope": route.scope,
        "table": TABLES + ifindex,
        "oif": ifindex,
        "proto": PROTOCOL,
        "gateway": route.gateway,
        "prefsrc": route.preferred_source,
        "priority": route.metric,
        "flags": _ONLINK if route.is_onlink else None,
    }
    return {name: value for name, value in request.items() if value is not None}


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    """What is deleted may have gone already, with its port or by another hand."""
    try:
        yield
    except NetlinkError as error:
        if error.code not in _GONE:
            raise
