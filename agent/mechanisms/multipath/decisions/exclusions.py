"""What is no path for a subflow: interfaces of a kind, and ways on which subflows fail."""

from __future__ import annotations

# IFLA_INFO_KIND of interfaces that put packets into packets of another one: their subflows would
# share a path with those of the interface below, or carry multipath TCP of others within.
TUNNELS = frozenset(
    {
        *("gre", "gretap", "ip6gre", "ip6gretap", "erspan", "ip6erspan", "ipip", "sit", "ip6tnl"),
        *("vti", "vti6", "xfrm", "wireguard", "tun", "vxlan", "geneve", "ppp", "l2tp"),
    }
)
TRANSLATION = "clat"  # of IPv4 to IPv6 (RFC 6877), by the name that its daemons give


def unfit(name: str, kind: str | None) -> str | None:
    """Why an interface is no path; None: it may be one."""
    if name.startswith(TRANSLATION):
        return "it translates IPv4 to IPv6 (CLAT): state the interface with the IPv6 address"
    if kind in TUNNELS:
        return f"it is a tunnel ({kind}): state the interface that carries the tunnel"
    if kind == "bridge":
        return "it is a bridge, such as of tethering: state the uplink"
    return None


def is_reachable(local: str, remote: str) -> bool:
    """IPv4 to IPv4, IPv6 to IPv6: by no translation."""
    return (":" in local) == (":" in remote)
