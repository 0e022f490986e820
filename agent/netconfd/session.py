"""The open NETCONF sessions: who each is, what it locks, the thread of its sysrepo calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import sysrepo

from agent.netconfd.datastore import Datastores

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(eq=False)
class Session:
    """One NETCONF session. `disconnect` closes its transport; the conversation then ends."""

    number: int
    user: str
    peer: str
    datastores: Datastores
    disconnect: Callable[[], None]
    locks: set[str] = field(default_factory=set)
    closing: bool = False
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def __str__(self) -> str:
        return f"session {self.number} {self.user}@{self.peer}"

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call in this session's thread, one at a time, in the order asked for."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def close(self) -> None:
        """End the sysrepo session, which gives up its locks."""
        self.locks.clear()
        await self.call(self.datastores.close)
        self._thread.shutdown(wait=False)


class Sessions:
    """All sessions of this server."""

    def __init__(self, connection: sysrepo.SysrepoConnection) -> None:
        self._connection = connection
        self._open: dict[int, Session] = {}
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._open)

    def open(self, user: str, peer: str, disconnect: Callable[[], None]) -> Session:
        """Start a session with the next number; numbers are not used twice."""
        self._last_number += 1
        session = Session(self._last_number, user, peer, Datastores(self._connection), disconnect)
        self._open[session.number] = session
        return session

    async def close(self, session: Session) -> None:
        """Forget the session and free what it holds."""
        await session.close()
        del self._open[session.number]

    def get(self, number: int) -> Session | None:
        """The session with this number."""
        return self._open.get(number)

    def holder(self, datastore: str) -> Session | None:
        """The session that has locked the datastore."""
        return next((each for each in self._open.values() if datastore in each.locks), None)

    def disconnect_all(self) -> None:
        """Close every transport."""
        for session in list(self._open.values()):
            session.disconnect()
