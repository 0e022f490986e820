"""The open NETCONF sessions: their users, their locks, and the threads of their sysrepo calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ParamSpec, TypeVar

from agent.netconfd.broker.access import Account
from agent.netconfd.broker.data_access import DataRights
from agent.netconfd.broker.datastore import Datastores
from agent.netconfd.session_report import Counters
from agent.sysrepo import SysrepoConnection

P = ParamSpec("P")
R = TypeVar("R")

# A connection to sysrepo has 255 places for read locks on one thing, a call takes about three of
# them, and a call that finds none fails with an internal error. More than these at once
# would not be faster either.
MAX_CALLS = 12


@dataclass(frozen=True)
class SubscriptionParameters:
    """What a <create-subscription> asks for (RFC 5277, section 2.1.1); times in ns since 1970."""

    start_ns: int | None = None
    stop_ns: int | None = None


@dataclass(eq=False)
class Session:
    """One NETCONF session. `disconnect` ends its process and its transport."""

    number: int
    account: Account
    peer: str
    datastores: Datastores
    disconnect: Callable[[], None] = lambda: None
    # Held during each call into sysrepo.
    turns: AbstractAsyncContextManager[None] = field(default_factory=nullcontext)
    # Datastore to when it was locked.
    locks: dict[str, datetime] = field(default_factory=dict)
    # Of long messages that its process holds, see `memory_budget`.
    held_octets: int = 0
    # The number of the session that ended this one.
    killed_by: int | None = None
    # Set while the session is subscribed to notifications.
    subscription: SubscriptionParameters | None = None
    counters: Counters = field(default_factory=Counters)
    login_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    @property
    def user(self) -> str:
        """The SSH user name."""
        return self.account.name

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of a journald entry besides the text (agent.journal)."""
        return {"TSN_SESSION": str(self.number), "TSN_USER": self.user, "TSN_PEER": self.peer}

    def __str__(self) -> str:
        return f"session {self.number} {self.user}@{self.peer}"

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call in this session's thread, one at a time, in the order asked for.

        It waits for its turn, unless the session holds a lock: other sessions, and the revert of
        a confirmed commit, wait for the lock holder.
        """
        loop = asyncio.get_running_loop()
        async with nullcontext() if self.locks else self.turns:
            return await loop.run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def close(self) -> None:
        """End the sysrepo session, which releases its locks."""
        self.locks.clear()
        await self.call(self.datastores.close)
        self._thread.shutdown(wait=False)


class Sessions:
    """All sessions of this server."""

    def __init__(self, connection: SysrepoConnection) -> None:
        self._connection = connection
        # One for users who may commit and one for the others, so that slow readers never delay a
        # commit.
        self._turns = {may_commit: asyncio.Semaphore(MAX_CALLS) for may_commit in (False, True)}
        self._open: dict[int, Session] = {}
        self._last_number = 0
        self._ended = Counters()

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, account: Account, peer: str, rights: Callable[[], DataRights], *, may_commit: bool
    ) -> Session:
        """Start a session with the next number; numbers are not used twice.

        `rights` is what the user may do with data now.
        """
        self._last_number += 1
        datastores = Datastores(self._connection, account.name, rights)
        session = Session(
            self._last_number, account, peer, datastores, turns=self._turns[may_commit]
        )
        datastores.identify(session.number, account.name, peer)
        self._open[session.number] = session
        return session

    async def close(self, session: Session) -> None:
        """Remove the session and release its resources."""
        await session.close()
        self._ended.add(session.counters)
        del self._open[session.number]

    @property
    def opened(self) -> int:
        """The number of sessions opened so far."""
        return self._last_number

    def all(self) -> list[Session]:
        """The open sessions."""
        return list(self._open.values())

    def counters(self) -> Counters:
        """The sums over all sessions so far."""
        total = Counters()
        for counters in (self._ended, *(session.counters for session in self.all())):
            total.add(counters)
        return total

    def of(self, user: str) -> int:
        """How many sessions this user has open."""
        return sum(session.user == user for session in self.all())

    def get(self, number: int) -> Session | None:
        """The session with this number."""
        return self._open.get(number)

    def holder(self, datastore: str) -> Session | None:
        """The session that has locked the datastore."""
        return next((each for each in self._open.values() if datastore in each.locks), None)
