"""The calls that change something, of a controller that leads its network; and its rollouts.

Decisions are made one at a time, in a thread of their own: placed, judged, on the disk, then
answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from cnc.check import judge
from cnc.errors import CncError
from cnc.model import Plan
from cnc.service import administration, intent_put, streams
from cnc.service.admission import Admission
from cnc.service.calls import Arguments, IntentPut, Role, Rollback
from cnc.service.deciding import Deciding
from cnc.service.owner import DEFECT
from cnc.service.reads import Reads
from cnc.service.roller import Push, Rolled, Roller
from cnc.service.store import Asker

LOG = logging.getLogger(__name__)

# What the first change would else wait for is done when the start is over, which it would delay.
PREPARED_AFTER_S = 5.0
# Changes are judged by what they touch; the whole plan by itself, at most as often as this.
WHOLE_AFTER_S = 60.0

ITSELF = Asker("service", Role.ADMIN, None, "")
_Result = TypeVar("_Result")
_Decide = Callable[[Deciding, Any], Any]


class Decisions:
    """From `start` to `close`. What it decides, `reads` shows."""

    def __init__(self, reads: Reads, admission: Admission, push: Push) -> None:
        self._reads, self._store, self._admission = reads, reads.store, admission
        self._writer = ThreadPoolExecutor(1, "writer")
        self._beside = ThreadPoolExecutor(1, "beside")
        self._deciding: set[asyncio.Task[Any]] = set()
        self._decided: tuple[Plan, int]
        self._take(int(self._store.noted("decided") or 0))
        self._roller = Roller(
            lambda: self._decided, push, done=self._rolled_out, failed=self._not_rolled_out
        )
        self._running: asyncio.Task[None] | None = None
        self._preparing: asyncio.TimerHandle | None = None
        self._judging: asyncio.TimerHandle | None = None
        self.calls: Mapping[str, Callable[[Asker, Any], Awaitable[Any]]] = {
            "push": self._push,
            "intent.put": self._put_intent,
            "rollback": self._rollback,
            **{
                name: partial(self._decide, name, its)
                for table in (streams, administration)
                for name, its in table.DECISIONS.items()
            },
        }

    def start(self) -> None:
        """Begin to roll out, first what was decided and no switch runs yet."""
        self._running = asyncio.create_task(self._roller.run())
        self._preparing = asyncio.get_running_loop().call_later(
            PREPARED_AFTER_S, self._beside.submit, self._admission.prepare
        )
        if self._store.noted("running") != str(self._decided[1]):
            self._roller.want()
        else:
            self._reads.watching.runs(self._decided[0])

    def raise_if_failed(self) -> None:
        """Raise what has ended the rollouts, which is a fault of this program: a service that is
        started again is better than one that decides in vain."""
        if self._running and self._running.done():
            self._running.result()

    async def close(self) -> None:
        """End; a rollout that is on its way ends first."""
        for timer in (self._preparing, self._judging):
            if timer:
                timer.cancel()
        if self._running:
            self._running.cancel()
            await asyncio.gather(self._running, *self._deciding, return_exceptions=True)
        for each in (self._beside, self._writer):
            await asyncio.to_thread(each.shutdown, cancel_futures=True)

    def _take(self, number: int) -> None:
        self._reads.decided = self._decided = self._admission.plan, number

    async def _push(self, asker: Asker, _: Arguments) -> dict[str, Any]:
        def note() -> int:
            with self._store.deciding(asker, "push", ""):
                return self._store.newest_event()

        after = await self._in_writer(note)
        self._roller.want()
        return {"accepted": True, "after": after}

    async def _put_intent(self, asker: Asker, arguments: IntentPut) -> Any:
        decide = partial(self._decide, "intent.put", asker=asker, arguments=arguments)
        return await self._to_its_end(self._intent_put(arguments, decide))

    async def _rollback(self, asker: Asker, arguments: Rollback) -> Any:
        former = await asyncio.to_thread(self._reads.documents.former_intent, arguments)
        decide = partial(self._decide, "rollback", asker=asker, arguments=arguments)
        return await self._to_its_end(self._intent_put(former, decide))

    async def _intent_put(
        self, its: IntentPut, decide: Callable[[_Decide], Coroutine[Any, Any, Any]]
    ) -> Any:
        beside = partial(asyncio.get_running_loop().run_in_executor, self._beside)
        intent = await beside(intent_put.read, its, self._admission.plan.intent.name)
        for _ in range(intent_put.COPIES_MAX):
            tried = await beside(
                intent_put.prepared, its.file, intent, self._store, self._admission
            )
            if answer := await decide(partial(intent_put.put, tried)):
                return answer
        return await decide(partial(intent_put.put, replace(tried, tried=None)))

    async def _decide(self, call: str, function: _Decide, asker: Asker, arguments: Any) -> Any:
        deciding = Deciding(self._store, self._admission, self._reads.access, asker, call)
        work = partial(deciding.once, arguments, partial(function, deciding, arguments))
        return await self._to_its_end(self._decided_by(deciding, work))

    async def _to_its_end(self, deciding: Coroutine[Any, Any, Any]) -> Any:
        """Also when its asker has gone."""
        return await asyncio.shield(self._begin(deciding))

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Work that `close` waits for."""
        task = asyncio.create_task(work)
        self._deciding.add(task)
        task.add_done_callback(self._deciding.discard)
        return task

    async def _decided_by(self, deciding: Deciding, work: Callable[[], Any]) -> Any:
        asked_s = asyncio.get_running_loop().time()
        try:
            return await self._in_writer(work)
        finally:
            if deciding.number is not None and deciding.has_plan:
                self._take(deciding.number)
                self._roller.want(asked_s)
                self._judge_later()
            self._reads.tell()

    def _judge_later(self) -> None:
        if self._judging is None:
            loop = asyncio.get_running_loop()
            self._judging = loop.call_later(WHOLE_AFTER_S, lambda: self._begin(self._judge_whole()))

    async def _judge_whole(self) -> None:
        """Look at the plan that is decided as if nothing was known of the one before."""
        self._judging, (plan, _) = None, self._decided
        found = await asyncio.get_running_loop().run_in_executor(self._beside, judge, plan)
        if not found:
            return
        reason = f"the judge of the whole plan finds what that of its changes did not: {found[0]}"
        LOG.error("%s. %s", reason, DEFECT)

        def note() -> None:
            with self._store.deciding(ITSELF, "judge", "", reason) as decision:
                decision.tell("plan-unsound", reason=reason, hint=DEFECT)

        with suppress(CncError):  # of the store; it is in the log
            await self._in_writer(note)
        self._reads.tell()

    async def _in_writer(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def _rolled_out(self, number: int, rolled: Rolled) -> None:
        def note() -> None:
            with self._store.deciding(ITSELF, "rollout", "", "done") as decision:
                news = decision.configured(number, rolled.rollout)
                for cuc, stream_id, is_gone in news:
                    kind = "stream-removed" if is_gone else "stream-configured"
                    decision.tell(kind, cuc, stream_id=stream_id, rollout=rolled.rollout)
                since = rolled.running_since and rolled.running_since.isoformat()
                decision.tell(
                    "rollout-done",
                    rollout=rolled.rollout,
                    streams=len(news),
                    running_since=since,
                )

        await self._in_writer(note)
        plan, decided = self._decided
        if decided == number:
            self._reads.watching.runs(plan)
        self._reads.tell()

    async def _not_rolled_out(self, error: Exception, next_try_s: float) -> None:
        reason, hint = str(error), getattr(error, "hint", None)
        LOG.warning("rollout failed, next attempt in %g s: %s", next_try_s, reason)

        def note() -> None:
            with self._store.deciding(ITSELF, "rollout", "", f"failed: {reason}") as decision:
                decision.not_configured(reason)
                decision.tell("rollout-failed", reason=reason, hint=hint, next_try_s=next_try_s)

        await self._in_writer(note)
        self._reads.tell()
