"""Connections without a session: few, and shared among those who connect.

Nobody knows yet who they are, so they cannot be told apart but by where they come from. When all
places are taken, one from elsewhere gets the oldest place of whoever holds most, as long as that
is more than it holds itself. So no number of connections from a few addresses keeps another one
out, and from many addresses they have to come faster than a login takes.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol


class Newcomer(Protocol):
    """A connection that has no session yet."""

    def give_way(self) -> None:
        """Close: its place is another's now."""


class Newcomers:
    """Who has a place."""

    def __init__(self) -> None:
        # By where they come from, the oldest first.
        self._places: dict[str, list[Newcomer]] = {}

    def admit(self, newcomer: Newcomer, address: str, places: int) -> bool:
        """Whether there is a place, of so many in all; another may have to give way."""
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
    """What is taken for one host: an IPv4 address, an IPv6 network of 64 bits.

    Each host of such a network has all of its addresses to choose from.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if ip.version == 4:  # noqa: PLR2004
        return address
    return str(ip.ipv4_mapped or int(ip) >> 64)
