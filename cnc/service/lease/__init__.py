"""Which of several controllers of one network leads: a lease in their database.

    member    what one controller knows of the lease, and whether it holds it; pure
    table     the lease as a row, and the statements on it
    keeper    looks and renews, in a thread; the fence of decisions, and the bound of edits
    survey    what switches keep that a database may not know, before somebody leads

The leader counts its lease by its own CLOCK_BOOTTIME from before it asked for it; the others count
by theirs from when they saw the row change last. No clock is compared with that of another machine:
only their rates matter, which differ by less than `member.RATE_PARTS` allows for. Whoever was
stopped meanwhile decides nothing when it goes on: each decision is one transaction with the row
locked, on the condition that the term is still its own. What it has sent to switches is refused by
them after the end of the lease (`apply-before`), and once the next leader has named its term.
"""

from cnc.service.lease.keeper import Keeper
from cnc.service.lease.member import Held, Lease

__all__ = ["Held", "Keeper", "Lease"]
