"""Looks at the lease and renews it, in a thread; says who leads, and what may be done by it.

Every decision is made through `fence`, every edit of switches within `within`. Both count for the
term that this process works in: who has lost it ends all that it does before it takes another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection

from cnc.errors import CncError, RolloutError
from cnc.model import NS_PER_S
from cnc.service.lease import table
from cnc.service.lease.member import Held, Lease, Member
from cnc.service.refused import CallRefused, Code
from cnc.service.store.database import Database

LOG = logging.getLogger(__name__)

LENGTH_NS = 10 * NS_PER_S
_RENEWALS, _LOOKS = 3, 10  # in the length of a lease
_END_S = 15.0  # what a statement may last on a database that does not answer


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Keeper:
    """The lease of `network` for a process called `name`, which answers at `url` by the TLS
    `certificate` (PEM)."""

    def __init__(
        self,
        database: Database,
        network: str,
        *,
        name: str,
        url: str,
        certificate: str,
        length_ns: int = LENGTH_NS,
        clock_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        self._database, self._network = database, network
        self._own = Lease(name, 0, 0, length_ns, url, certificate)
        self._clock_ns = clock_ns
        self._member = Member(name)
        self._one = threading.Lock()  # a statement at a time
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, changed: Callable[[], None]) -> None:
        """Look at the lease from now on; `changed` is called, in another thread, when it is of
        another, or free."""
        self._thread = threading.Thread(target=self._run, args=[changed], name="lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give the lease back, where it is held: another need not wait for its end then."""
        self._stop.set()
        if self._thread:
            self._thread.join(_END_S)
        term = self._member.own_term
        if term is None or not self._one.acquire(timeout=_END_S):
            return
        try:
            with self._database.writing() as connection:
                table.give_back(connection, self._network, self._own.holder, term)
        except CncError as error:
            LOG.warning("the lease ends by itself: %s", error)
        finally:
            self._one.release()

    # --- what is known -------------------------------------------------------------------------

    def held(self) -> Held | None:
        """The own lease, while it lasts."""
        return self._member.held(self._clock_ns())

    @property
    def own_term(self) -> int | None:
        """The term of the own lease, also where it is over and no other has taken it."""
        return self._member.own_term

    @property
    def seen(self) -> Lease | None:
        """The row as it was seen last; None: nobody has led yet, or nothing was seen."""
        return self._member.lease

    def may_take(self) -> bool:
        """Whether the lease of any other is over."""
        return self._member.may_take(self._clock_ns())

    def leader(self) -> Lease | None:
        """Who leads, as far as is known; None: nobody, or this process."""
        its = self._member.lease
        if its is None or its.holder == self._own.holder or self.may_take():
            return None
        return its if its.holder else None

    # --- what may be done ----------------------------------------------------------------------

    def take(self, term: int) -> bool:
        """Take the lease, which is over, in a `term` that is higher than its own. Returns whether
        no other was faster. Raises CallRefused (UNAVAILABLE) where the database fails."""
        with self._one:
            asked_ns = self._clock_ns()
            seen = self._member.lease
            if not self._member.may_take(asked_ns):
                return False
            counter = (seen.counter if seen else 0) + 1
            wanted = replace(self._own, term=term, counter=counter)
            with self._database.writing() as connection:
                now, has_taken = table.take(connection, self._network, wanted, seen)
            self._saw(now, asked_ns, is_own=has_taken)
        return has_taken

    def fence(self, connection: Connection) -> None:
        """Part of each transaction that decides something. Raises CallRefused (UNAVAILABLE) where
        the lease is over or another's: then nothing is decided."""
        held = self.held()
        if held is None or not _is_of(connection, self._network, self._own.holder, held.term):
            raise CallRefused(
                Code.UNAVAILABLE,
                "this controller does not lead its network any more: nothing was decided",
                hint="ask again: the controller that leads answers",
                details={"retry_after_s": 1},
            )

    def within(self, wanted_ns: int) -> int:
        """For how long from now on, in nanoseconds, switches may apply what is sent now: to the end
        of the lease, which is renewed first where that is less than `wanted_ns`.

        Raises RolloutError where the lease is over: nothing may be sent.
        """
        held = self.held()
        if held is None or held.until_ns - self._clock_ns() < wanted_ns:
            try:
                self.step()
            except CncError as error:
                LOG.warning("the lease cannot be renewed: %s", error)
        if held := self.held():
            return held.until_ns - self._clock_ns()
        raise RolloutError(
            "the lease of this controller is over, and could not be renewed: another may lead the "
            "network by now, so nothing is sent to the switches",
            hint="`cnc serve` goes on by itself when its database answers again",
        )

    # --- the thread ----------------------------------------------------------------------------

    def step(self) -> None:
        """Renew the lease where it is the own, else look at it. Raises CallRefused."""
        with self._one:
            asked_ns, term = self._clock_ns(), self._member.own_term
            if term is None:
                with self._database.reading() as connection:
                    now, is_own = table.read(connection, self._network), False
            else:
                with self._database.writing() as connection:
                    now, is_own = table.renew(connection, self._network, self._own.holder, term)
            self._saw(now, asked_ns, is_own=is_own)

    def _saw(self, lease: Lease | None, asked_ns: int, *, is_own: bool) -> None:
        if lease and is_own:
            self._member.holds(lease, asked_ns, self._clock_ns())
        else:
            self._member.saw(lease, self._clock_ns())

    def _run(self, changed: Callable[[], None]) -> None:
        was: object = None
        failure = ""
        while not self._stop.is_set():
            try:
                self.step()
                failure = ""
            except CncError as error:
                if str(error) != failure:
                    failure = str(error)
                    LOG.warning("the lease of %s is not known: %s", self._network, failure)
            held, seen = self.held(), self._member.lease
            now = held.term if held else None, seen.holder if seen else None, self.may_take()
            if now != was:
                was = now
                changed()
            parts = _RENEWALS if self.own_term is not None and held else _LOOKS
            self._stop.wait(self._own.length_ns / parts / NS_PER_S)


def _is_of(connection: Connection, network: str, holder: str, term: int) -> bool:
    its = table.read(connection, network)
    return its is not None and (its.holder, its.term) == (holder, term)
