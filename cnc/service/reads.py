"""The calls that change nothing: by the plan that was decided last, which never changes in place,
and by the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from cnc.model import Plan
from cnc.service import streams
from cnc.service.access import Access, token_shown
from cnc.service.aside import Aside
from cnc.service.calls import Arguments, CommandRun, DocumentGet, EventsFollow, Role
from cnc.service.channel import Following
from cnc.service.commands import Commands
from cnc.service.deciding import Reading
from cnc.service.documents import Documents
from cnc.service.refused import CallRefused, Code
from cnc.service.store import Asker, Store
from cnc.service.watching import Watching

_EVENTS_AT_ONCE = 500


class Reads:
    """Answers by `decided`, the plan and the number of its decision; None: there is none yet."""

    def __init__(
        self, store: Store, *, documents: Documents, commands: Commands, watching: Watching
    ) -> None:
        self.store, self.watching = store, watching
        self.access = Access(store.tokens(), store.quotas())
        self.decided: tuple[Plan, int] | None = None
        self.documents, self._commands = documents, commands
        # Of their own: those that ask switches would hold up all other reads.
        self._long_reads = ThreadPoolExecutor(2, "documents")
        self._news = asyncio.Event()
        self._seen: object = None  # of a store that another controller writes
        self.calls: Mapping[str, Callable[[Asker, Any], Awaitable[Any]]] = {
            "who": self._who,
            "document.get": self._document,
            "events.follow": self._follow,
            "command.run": self._command,
            **{name: partial(self._read, function) for name, function in streams.READS.items()},
            "token.list": self._tokens,
        }

    def tell(self) -> None:
        """Those who follow look for what is new."""
        self._news.set()
        self._news = asyncio.Event()

    async def look(self) -> None:
        """What another controller has decided since the last look. Raises CncError."""
        newest = await asyncio.to_thread(self._newest)
        if newest == self._seen:
            return
        await asyncio.to_thread(self.look_who)
        _, _, decided, running = newest
        if decided and (self.decided is None or self.decided[1] != int(decided)):
            plan = await asyncio.to_thread(self.store.plan)
            if plan is not None:
                self.decided = plan, int(decided)
        if self.decided and running == str(self.decided[1]):
            self.watching.runs(self.decided[0])
        self._seen = newest
        self.tell()

    def _newest(self) -> tuple[int, int, str | None, str | None]:
        # The number first: a plan that comes after it is looked for again.
        its = self.store
        numbers = its.newest_decision(), its.newest_event()
        return (*numbers, its.noted("decided"), its.noted("running"))

    def look_who(self) -> None:
        """Tokens and quotas, as the store has them now. From any thread."""
        self.access.reload(self.store.tokens(), self.store.quotas())

    async def close(self) -> None:
        await asyncio.to_thread(self.watching.close)
        await asyncio.to_thread(self._long_reads.shutdown, cancel_futures=True)

    @property
    def _plan(self) -> Plan:
        return self._of_plan[0]

    @property
    def _of_plan(self) -> tuple[Plan, int]:
        if self.decided is None:
            raise CallRefused(
                Code.UNAVAILABLE,
                "no controller has planned this network yet",
                hint="ask again in some seconds; the journal of the service says what it waits for",
                details={"retry_after_s": 1},
            )
        return self.decided

    async def _who(self, asker: Asker, _: Arguments) -> dict[str, Any]:
        expires = self.access.named(asker.name).expires
        return {
            "name": asker.name,
            "role": str(asker.role),
            "cuc": asker.cuc,
            "expires": expires.isoformat() if expires else None,
        }

    async def _read(self, function: streams.Read, asker: Asker, arguments: Any) -> Any:
        reading = Reading(self.store, self._plan, asker)
        return await asyncio.to_thread(function, reading, arguments)

    async def _document(self, asker: Asker, arguments: DocumentGet) -> Any:
        if arguments.name == "audit" and asker.role is Role.VIEWER:
            raise CallRefused(Code.FORBIDDEN, "the audit log is not for tokens of the role viewer")
        plan, number = self._of_plan
        if Aside.has(arguments):
            return await self.documents.aside.get(arguments, number)
        loop = asyncio.get_running_loop()
        make = partial(self.documents.get, arguments, plan)
        return await loop.run_in_executor(self._long_reads, make)

    async def _tokens(self, _asker: Asker, _: Arguments) -> dict[str, Any]:
        return {"tokens": [token_shown(its) for its in self.access.tokens]}

    async def _follow(self, asker: Asker, arguments: EventsFollow) -> Following:
        async def items() -> AsyncGenerator[dict[str, Any], None]:
            seen = arguments.after
            if seen is None:
                seen = await asyncio.to_thread(self.store.newest_event)
            while True:
                news = self._news
                read = partial(self.store.events, seen, cuc=asker.cuc, limit=_EVENTS_AT_ONCE)
                found = await asyncio.to_thread(read)
                self.access.check_still(asker)
                for each in found:
                    yield each
                    seen = each["number"]
                if len(found) < _EVENTS_AT_ONCE:
                    await news.wait()

        return Following(items())

    async def _command(self, _: Asker, arguments: CommandRun) -> Following:
        streams_of_cucs = await asyncio.to_thread(self.store.streams)
        plan = self._plan
        names = [its.name for its in streams_of_cucs if its.name in plan.intent.streams]
        return Following(self._commands.run(arguments, plan, names))
