"""The core: one asyncio process, one writer. Every call comes here, and is checked here.

Reads look at the decided plan, which never changes in place, and at the store. Decisions are made
one at a time, in a thread of their own: placed, judged, on the disk, then answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from cnc.service import administration, intent_put, streams
from cnc.service.access import Access, token_shown
from cnc.service.admission import Admission
from cnc.service.aside import Aside
from cnc.service.calls import (
    Arguments,
    CommandRun,
    DocumentGet,
    EventsFollow,
    Role,
    arguments_of,
)
from cnc.service.channel import Following, Request
from cnc.service.commands import Commands
from cnc.service.deciding import Deciding, Reading
from cnc.service.documents import Documents
from cnc.service.refused import CallRefused, Code
from cnc.service.roller import Push, Rolled, Roller
from cnc.service.store import Asker, Store
from cnc.service.watching import Watching

LOG = logging.getLogger(__name__)

ITSELF = Asker("service", Role.ADMIN, None, "")
_EVENTS_AT_ONCE = 500
_Result = TypeVar("_Result")
_Decide = Callable[[Deciding, Any], Any]


class Core:
    """The service of one network, until `close`."""

    def __init__(
        self,
        store: Store,
        admission: Admission,
        *,
        push: Push,
        documents: Documents,
        commands: Commands,
        watching: Watching,
    ) -> None:
        self._store, self._admission = store, admission
        self._documents, self._commands = documents, commands
        self._watching = watching
        self._access = Access(store.tokens(), store.quotas())
        self._writer = ThreadPoolExecutor(1, "writer")
        # Of their own: those that ask switches would hold up all other reads.
        self._long_reads = ThreadPoolExecutor(2, "documents")
        self._news = asyncio.Event()
        self._deciding: set[asyncio.Task[Any]] = set()
        self._decided = admission.plan, int(store.noted("decided") or 0)
        self._roller = Roller(
            lambda: self._decided, push, done=self._rolled_out, failed=self._not_rolled_out
        )
        self._running: asyncio.Task[None] | None = None
        self._calls: Mapping[str, Callable[[Asker, Any], Awaitable[Any]]] = {
            "who": self._who,
            "document.get": self._document,
            "events.follow": self._follow,
            "command.run": self._command,
            "push": self._push,
            **{name: partial(self._read, function) for name, function in streams.READS.items()},
            **{
                name: partial(self._decide, name, its)
                for table in (streams, administration, intent_put)
                for name, its in table.DECISIONS.items()
            },
            "token.list": self._tokens,
        }

    def start(self) -> None:
        """Begin to roll out, first what was decided and no switch runs yet."""
        self._running = asyncio.create_task(self._roller.run())
        if self._store.noted("running") != str(self._decided[1]):
            self._roller.want()
        else:
            self._watching.runs(self._decided[0])

    def raise_if_failed(self) -> None:
        """Raise what has ended the rollouts, which is a fault of this program, or what has parted
        the store from what is in memory: a service that is started again is better than one that
        decides in vain."""
        self._store.database.raise_if_unknown()
        if self._running and self._running.done():
            self._running.result()

    async def close(self) -> None:
        """End; a rollout that is on its way ends first."""
        if self._running:
            self._running.cancel()
            await asyncio.gather(self._running, *self._deciding, return_exceptions=True)
        await asyncio.to_thread(self._watching.close)
        for each in (self._writer, self._long_reads):
            await asyncio.to_thread(each.shutdown, cancel_futures=True)

    async def answer(self, request: Request) -> Any:
        """The result of a call, or a Following. Raises CallRefused."""
        asker = self._access.asker(request.token, request.source)
        arguments = arguments_of(request.call, request.arguments)
        self._access.check(asker, request.call, arguments)
        return await self._calls[request.call](asker, arguments)

    # --- reads -------------------------------------------------------------------------------

    async def _who(self, asker: Asker, _: Arguments) -> dict[str, Any]:
        expires = self._access.named(asker.name).expires
        return {
            "name": asker.name,
            "role": str(asker.role),
            "cuc": asker.cuc,
            "expires": expires.isoformat() if expires else None,
        }

    async def _read(self, function: streams.Read, asker: Asker, arguments: Any) -> Any:
        reading = Reading(self._store, self._decided[0], asker)
        return await asyncio.to_thread(function, reading, arguments)

    async def _document(self, asker: Asker, arguments: DocumentGet) -> Any:
        if arguments.name == "audit" and asker.role is Role.VIEWER:
            raise CallRefused(Code.FORBIDDEN, "the audit log is not for tokens of the role viewer")
        if Aside.has(arguments):
            return await self._documents.aside.get(arguments, self._decided[1])
        loop = asyncio.get_running_loop()
        make = partial(self._documents.get, arguments, self._decided[0])
        return await loop.run_in_executor(self._long_reads, make)

    async def _tokens(self, _asker: Asker, _: Arguments) -> dict[str, Any]:
        return {"tokens": [token_shown(its) for its in self._access.tokens]}

    async def _follow(self, asker: Asker, arguments: EventsFollow) -> Following:
        async def items() -> AsyncGenerator[dict[str, Any], None]:
            seen = arguments.after
            if seen is None:
                seen = await asyncio.to_thread(self._store.newest_event)
            while True:
                news = self._news
                read = partial(self._store.events, seen, cuc=asker.cuc, limit=_EVENTS_AT_ONCE)
                found = await asyncio.to_thread(read)
                self._access.check_still(asker)
                for each in found:
                    yield each
                    seen = each["number"]
                if len(found) < _EVENTS_AT_ONCE:
                    await news.wait()

        return Following(items())

    async def _command(self, _: Asker, arguments: CommandRun) -> Following:
        streams_of_cucs = await asyncio.to_thread(self._store.streams)
        plan = self._decided[0]
        names = [its.name for its in streams_of_cucs if its.name in plan.intent.streams]
        return Following(self._commands.run(arguments, plan, names))

    # --- decisions ---------------------------------------------------------------------------

    async def _push(self, asker: Asker, _: Arguments) -> dict[str, Any]:
        def note() -> int:
            with self._store.deciding(asker, "push", ""):
                return self._store.newest_event()

        after = await self._in_writer(note)
        self._roller.want()
        return {"accepted": True, "after": after}

    async def _decide(self, call: str, function: _Decide, asker: Asker, arguments: Any) -> Any:
        """Done to its end, also when its asker has gone."""
        deciding = Deciding(self._store, self._admission, self._access, asker, call)
        work = partial(deciding.once, arguments, partial(function, deciding, arguments))
        task = asyncio.create_task(self._decided_by(deciding, work))
        self._deciding.add(task)
        task.add_done_callback(self._deciding.discard)
        return await asyncio.shield(task)

    async def _decided_by(self, deciding: Deciding, work: Callable[[], Any]) -> Any:
        try:
            return await self._in_writer(work)
        finally:
            if deciding.number is not None and deciding.has_plan:
                self._decided = self._admission.plan, deciding.number
                self._roller.want()
            self._tell()

    def _tell(self) -> None:
        """Those who follow look for what is new."""
        self._news.set()
        self._news = asyncio.Event()

    async def _in_writer(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def _rolled_out(self, number: int, rolled: Rolled) -> None:
        def note() -> None:
            with self._store.deciding(ITSELF, "rollout", "", "done") as decision:
                news = decision.configured(number, rolled.rollout)
                for cuc, stream_id, is_gone in news:
                    kind = "stream-removed" if is_gone else "stream-configured"
                    decision.tell(kind, cuc, stream_id=stream_id, rollout=rolled.rollout)
                decision.tell("rollout-done", rollout=rolled.rollout, streams=len(news))

        await self._in_writer(note)
        plan, decided = self._decided
        if decided == number:
            self._watching.runs(plan)
        self._tell()

    async def _not_rolled_out(self, error: Exception, next_try_s: float) -> None:
        reason, hint = str(error), getattr(error, "hint", None)
        LOG.warning("rollout failed, next attempt in %g s: %s", next_try_s, reason)

        def note() -> None:
            with self._store.deciding(ITSELF, "rollout", "", f"failed: {reason}") as decision:
                decision.not_configured(reason)
                decision.tell("rollout-failed", reason=reason, hint=hint, next_try_s=next_try_s)

        await self._in_writer(note)
        self._tell()
