"""Connections without a session: a limited number, shared among source addresses.

Before the login only the source address tells them apart. When all places are taken, a connection
from another address gets the oldest place of the address that holds most, if that is more than its
own address holds. So connections from a few addresses cannot keep others out, and connections from
many addresses would have to arrive faster than a login takes.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol


class Newcomer(Protocol):
    """A connection that has no session yet."""

    def give_way(self) -> None:
        """Close: another connection has the place now."""


class Newcomers:
    """The connections that have a place."""

    def __init__(self) -> None:
        # By source, the oldest first.
        self._places: dict[str, list[Newcomer]] = {}

    def admit(self, newcomer: Newcomer, address: str, places: int) -> bool:
        """Take one of `places`; another connection may be closed for it. False if there is none."""
        own = self._places.get(source(address), [])
        if sum(map(len, self._places.values())) >= places:
            most = max(self._places.values(), key=len)
            if len(most) <= len(own):
                return False
            oldest = most[0]
            self.remove(oldest)
            oldest.give_way()
        self._places.setdefault(source(address), []).append(newcomer)
        return True

    def remove(self, newcomer: Newcomer) -> None:
        """Free its place, if it has one."""
        for address, others in self._places.items():
            if newcomer in others:
                others.remove(newcomer)
                if not others:
                    del self._places[address]
                return


def source(address: str) -> str:
    """What counts as one host: an IPv4 address, an IPv6 network of 64 bits.

    A host may use every address of such a network.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if ip.version == 4:  # noqa: PLR2004
        return address
    return str(ip.ipv4_mapped or int(ip) >> 64)
