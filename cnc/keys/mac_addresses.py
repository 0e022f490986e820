"""Which MAC addresses streams cannot have, and why."""

from __future__ import annotations

from cnc.keys.problems import Problems
from cnc.model import AddressRange, mac_number

# IEEE 802.1Q-2022 8.6.3: no bridge forwards the first sixteen. The management of bridges (8.13.7)
# and the applications of MRP (10.5) have the others.
_BRIDGE_GROUP = range(mac_number("01:80:c2:00:00:00"), mac_number("01:80:c2:00:00:30"))
_PTP = mac_number("01:1b:19:00:00:00")  # IEEE Std 1588-2019, annex E
_BROADCAST = "ff:ff:ff:ff:ff:ff"
# RFC 1112 and RFC 2464. The kernel looks such frames up by their IP group, never by their MAC
# address (net/bridge/br_multicast.c: br_mdb_entry_skb_get).
_IP_GROUPS = {
    "IPv4": range(mac_number("01:00:5e:00:00:00"), mac_number("01:00:5e:80:00:00")),
    "IPv6": range(mac_number("33:33:00:00:00:00"), mac_number("33:34:00:00:00:00")),
}


def reserved_for(first: str, last: str | None = None) -> str | None:
    """Why streams cannot have an address, or any from it to `last`; None if they can."""
    macs = range(mac_number(first), mac_number(last or first) + 1)
    if _touch(macs, _BRIDGE_GROUP):
        return "which bridges keep for their own protocols (IEEE 802.1Q 8.6.3)"
    for version, groups in _IP_GROUPS.items():
        if _touch(macs, groups):
            return f"which is for {version} multicast: a Linux bridge looks it up by IP address"
    if _PTP in macs:
        return "which is the group of PTP (IEEE 1588 annex E)"
    if mac_number(_BROADCAST) in macs:
        return "which is for broadcasts"
    return "which no station has" if 0 in macs else None


def check_extent(its: AddressRange, key: str, so_that: str, problems: Problems) -> None:
    """Add to `problems` what is wrong with a range of `addresses`, whose ends are of the kind that
    it is for, beyond its ends."""
    path, written = ("addresses", key), f"{its.first_mac} - {its.last_mac}"
    if (its.macs[-1] >> 40) != (its.macs[0] >> 40):
        problems.add(path, written, f"addresses with one first octet, so that {so_that}")
    elif reason := reserved_for(its.first_mac, its.last_mac):
        problems.add(path, f"{written}, with an address {reason}", "other addresses")


def _touch(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop
