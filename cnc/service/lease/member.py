"""What one controller knows of the lease of its network, and whether it holds it.

    standby ──► the row has not changed for its length ──► free ──► taken, in a higher term ──► held
       ▲                                                                                         │
       └──────────── another holds it: a renewal finds another term ◄──── over, not renewed ◄────┘

A lease that is over is still that of its holder until another takes it: a renewal then counts
again, and the term stays. All instants are of the controller's own CLOCK_BOOTTIME.
"""

from __future__ import annotations

from dataclasses import dataclass

# Two clocks that count the same time differ by less than one part in so many.
RATE_PARTS = 100
NOBODY = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The row. `holder` names the process that holds it, NOBODY where it was given back; `counter`
    grows with each renewal. `url` and `certificate` (PEM) are where its holder answers HTTPS."""

    holder: str
    term: int
    counter: int
    length_ns: int
    url: str
    certificate: str


@dataclass(frozen=True, slots=True)
class Held:
    """The own lease: nothing is decided or applied by it from `until_ns` on."""

    term: int
    until_ns: int


class Member:
    """One controller, by a `name` that no other process has."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lease: Lease | None = None
        self._since_ns: int | None = None  # since when the row was seen to be as it is
        self._held: Held | None = None

    def saw(self, lease: Lease | None, now_ns: int) -> None:
        """The row, None where there is none yet, as a statement has found it."""
        if self._since_ns is None or lease != self.lease:
            self.lease, self._since_ns = lease, now_ns
        if lease is None or lease.holder != self.name:
            self._held = None

    def holds(self, lease: Lease, asked_ns: int, now_ns: int) -> None:
        """The row as a statement has left it that took the lease or renewed it, for which the
        database was asked at `asked_ns` or later."""
        self.saw(lease, now_ns)
        self._held = Held(lease.term, asked_ns + lease.length_ns)

    @property
    def own_term(self) -> int | None:
        """The term to renew, also where the lease is over; None where another has it, or nobody."""
        return self.lease.term if self.lease and self.lease.holder == self.name else None

    def held(self, now_ns: int) -> Held | None:
        """The own lease, while it lasts."""
        its = self._held
        return its if its and now_ns < its.until_ns else None

    def may_take(self, now_ns: int) -> bool:
        """Whether the lease of any other is over by now, whatever its clock says."""
        if self._since_ns is None:
            return False
        its = self.lease
        if its is None or its.holder == NOBODY:
            return True
        if its.holder == self.name:
            return False
        return now_ns >= self._since_ns + its.length_ns + its.length_ns // RATE_PARTS
