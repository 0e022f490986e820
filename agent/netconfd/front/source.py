"""Where a connection comes from: its host, and the network block that the host is in.

Before the login, nothing but the source address tells connections apart. Addresses are cheap within
a network that one has, and dear beyond it, so limits on places are for blocks.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from agent.netconfd.limits import Limits

# A host may use every address of such an IPv6 network (RFC 4291 section 2.5.1).
IPV6_HOST_PREFIX = 64

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Source:
    """A host, and its block with the prefix length; an address that is not IP stands for both."""

    block: str
    host: str

    @classmethod
    def of(cls, address: str, limits: Limits) -> Source:
        """The source of a connection, from the address of its socket."""
        ip = parsed(address)
        if ip is None:
            return cls(address, address)
        if isinstance(ip, ipaddress.IPv4Address):
            return cls(_network(ip, limits.source_prefix_ipv4), str(ip))
        return cls(_network(ip, limits.source_prefix_ipv6), _network(ip, IPV6_HOST_PREFIX))


def parsed(address: str) -> _Address | None:
    """An IP address, IPv4 if it is IPv4-mapped (RFC 4291 section 2.5.5.2)."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


def _network(ip: _Address, prefix: int) -> str:
    return str(ipaddress.ip_network((ip, prefix), strict=False))
