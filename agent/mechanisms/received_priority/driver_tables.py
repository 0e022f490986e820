"""The priorities of received frames in the tables of a driver, where hardware forwards them.

The entries bear no mark of who set them. Those that stand as the agent has set them since it
started are its own; what it found before is restored when the configuration goes.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import NamedTuple

from pyroute2.netlink.exceptions import NetlinkError

from agent.kernel.dcb import (
    ETHERTYPE,
    PCP,
    App,
    Tables,
    delete_apps,
    get_tables,
    parsed,
    raise_refusal,
    set_apps,
    set_trust,
)
from agent.kernel.netlink_batch import NetlinkSocket
from agent.mechanisms.received_priority.model import PRIORITIES, PriorityTable

_DROP_ELIGIBLE = 8  # the bit of the DEI above the code point, in the protocol of an entry


class _Set(NamedTuple):
    """What the agent has set at a port, and what was there before."""

    table: PriorityTable
    found: Tables


class DriverTables:
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, kernel: NetlinkSocket) -> None:
        self._kernel = kernel
        self._set: dict[str, _Set] = {}

    def has(self, port: str) -> bool:
        """Whether the port has a table of the agent's."""
        return port in self._set

    def table(self, port: str) -> PriorityTable | None:
        """The table of the agent's at this port, if it stands there as it was set."""
        ours = self._set.get(port)
        if ours is None:
            return None
        try:
            stands = self._tables(port) == _wanted(ours.table)
        except NetlinkError:  # the port has gone
            return None
        return ours.table if stands else None

    def set(self, port: str, table: PriorityTable) -> None:
        """Raises NetlinkError; then all is as before. EOPNOTSUPP: the driver has no such table."""
        found = self._tables(port)
        if found.trust is None:
            raise NetlinkError(errno.EOPNOTSUPP, "its driver cannot say whether it uses them")
        wanted = _wanted(table)
        try:
            self._let_be(port, wanted)
            if self._tables(port) != wanted:
                raise NetlinkError(errno.EOPNOTSUPP, "its driver has not kept them")
        except NetlinkError:
            with suppress(NetlinkError):
                self._let_be(port, found)
            raise
        # Of an agent that was there before: nothing is known of what that one found.
        empty = Tables(frozenset(), ())
        before = self._set[port].found if port in self._set else found
        self._set[port] = _Set(table, empty if before == wanted else before)

    def restore(self, port: str) -> None:
        """What was there before the agent. Raises NetlinkError."""
        self._let_be(port, self._set[port].found)
        del self._set[port]

    def _let_be(self, port: str, wanted: Tables) -> None:
        """Sets first: a driver may remove the entry that another one of its kind replaces."""
        if missing := wanted.apps - self._tables(port).apps:
            raise_refusal(self._kernel.ask(set_apps(port, missing)))
        if obsolete := self._tables(port).apps - wanted.apps:
            raise_refusal(self._kernel.ask(delete_apps(port, obsolete)))
        if wanted.trust is not None and self._tables(port).trust != wanted.trust:
            raise_refusal(self._kernel.ask(set_trust(port, wanted.trust)))

    def _tables(self, port: str) -> Tables:
        """What the agent would set of the driver's tables; entries of other kinds stay."""
        tables = parsed(self._kernel.ask(get_tables(port)))
        return tables._replace(apps=frozenset(each for each in tables.apps if _is_ours(each)))


def _is_ours(app: App) -> bool:
    return app.selector == PCP or (app.selector, app.protocol) == (ETHERTYPE, 0)


def _wanted(table: PriorityTable) -> Tables:
    """Frames with a code point, drop eligible or not, and all others."""
    by_code_point = (
        App(PCP, table.regenerated[code_point], code_point | eligible)
        for code_point in range(PRIORITIES)
        for eligible in (0, _DROP_ELIGIBLE)
    )
    return Tables(frozenset([*by_code_point, App(ETHERTYPE, table.default, 0)]), (PCP,))
