"""Who is connected to a worker: so many of one host, so many of all, and who makes room."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

CONNECTIONS_MAX_OF_HOST = 64
_PREFIX_BITS = 64  # of IPv6: what one subscriber has


def host_of(address: str) -> str:
    """What counts as one host: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        its = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(its, IPv6Address):
        return str(its)
    if its.ipv4_mapped:
        return str(its.ipv4_mapped)
    return str(IPv6Address(int(its) >> _PREFIX_BITS << _PREFIX_BITS))


class Guest:
    """A connection, from before its TLS handshake on. `end` closes it, whatever it does."""

    def __init__(self, host: str, guests: Guests) -> None:
        self.host = host
        self.end: Callable[[], object] = lambda: None
        self.is_known = self._has_left = False
        self._guests = guests

    def knows_a_token(self) -> None:
        """It has shown one that the core knows: it makes no room for others any more."""
        self.is_known = True
        self._guests.knows(self)

    def leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self._guests.left(self)


class Guests:
    """At most so many of one worker. Where all places are taken, a stranger goes: of the host that
    has most of them the one that is there longest. Whoever holds connections and shows no token, or
    makes another for each that is closed, holds up nobody else."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._strangers: defaultdict[str, OrderedDict[Guest, None]] = defaultdict(OrderedDict)
        self._of: Counter[str] = Counter()

    def enter(self, address: str) -> Guest | None:
        """One more; None where its host has too many, or where no stranger makes room."""
        host = host_of(address)
        if self._of[host] >= CONNECTIONS_MAX_OF_HOST:
            return None
        if self._of.total() >= self._most:
            if not self._strangers:
                return None
            most = max(self._strangers.values(), key=len)
            oldest = next(iter(most))
            self.knows(oldest)
            oldest.end()
        guest = Guest(host, self)
        self._strangers[host][guest] = None
        self._of[host] += 1
        return guest

    def knows(self, guest: Guest) -> None:
        """It makes no room for others any more."""
        if its := self._strangers.get(guest.host):
            its.pop(guest, None)
            if not its:
                del self._strangers[guest.host]

    def left(self, guest: Guest) -> None:
        self.knows(guest)
        self._of[guest.host] -= 1
        if not self._of[guest.host]:
            del self._of[guest.host]
