"""Brings what was decided to the switches: what is asked for within 200 ms goes in one rollout.

A rollout that fails leaves the streams planned, with the reason, and is tried again with back-off.
It asks all switches: one that is away holds up every rollout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import inf

from cnc.errors import CncError
from cnc.model import Plan

LOG = logging.getLogger(__name__)

TOGETHER_S = 0.2
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Rolled:
    """What a push came to: the rollout that brought the plan to the switches, None where there is
    none; how long it is until all of them run it; and since when they do, by what was read back of
    their kernels, None where nothing had to change."""

    rollout: int | None
    starts_in_s: float = 0.0
    running_since: datetime | None = None


Push = Callable[[Plan], Rolled]
Decided = Callable[[], tuple[Plan, int]]


class Roller:
    """Pushes the plan whenever it is another one. `decided` is the plan and the number of its
    decision, `push` brings it to all switches, in a thread; `done` and `failed` record the outcome,
    the latter with how long it is until the next attempt."""

    def __init__(
        self,
        decided: Decided,
        push: Push,
        *,
        done: Callable[[int, Rolled], Awaitable[None]],
        failed: Callable[[Exception, float], Awaitable[None]],
    ) -> None:
        self._decided, self._push = decided, push
        self._done, self._failed = done, failed
        self._wanted = asyncio.Event()
        self._since_s = inf  # when the first of what is wanted was asked for, by the loop's clock
        self._retry = asyncio.Event()

    def want(self, since_s: float = inf) -> None:
        """The plan is another one, which was asked for at `since_s` by the loop's clock, by default
        now; or it is to be pushed again now."""
        self._since_s = min(self._since_s, since_s, asyncio.get_running_loop().time())
        self._wanted.set()
        self._retry.set()

    async def run(self) -> None:
        """Until it is cancelled; a rollout that is on its way ends first."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(self._since_s + TOGETHER_S - asyncio.get_running_loop().time())
            self._wanted.clear()
            self._since_s = inf
            await self._until_done()

    async def _until_done(self) -> None:
        """The plan of the latest decision reaches the switches."""
        wait_s = _FIRST_WAIT_S
        while True:
            plan, number = self._decided()
            self._retry.clear()
            pushing = asyncio.create_task(asyncio.to_thread(self._push, plan))
            try:
                rolled = await asyncio.shield(pushing)
                # Before that a stream that is announced would not be there yet.
                await asyncio.sleep(rolled.starts_in_s)
                await self._done(number, rolled)
            except asyncio.CancelledError:
                with suppress(Exception):  # the next start finds out what became of it
                    await pushing
                raise
            except CncError as error:
                await self._note_failed(error, wait_s)
            except Exception as error:
                LOG.exception("a rollout failed by a fault of this program")
                await self._note_failed(error, wait_s)
            else:
                return
            # A new stream does not wait for the next attempt, but no faster than this either.
            await asyncio.sleep(min(wait_s, _FIRST_WAIT_S))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._retry.wait(), max(0.0, wait_s - _FIRST_WAIT_S))
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    async def _note_failed(self, error: Exception, wait_s: float) -> None:
        try:
            await self._failed(error, wait_s)
        except CncError as reason:  # the store cannot be written; then nothing new is decided
            LOG.warning("%s; and %s", error, reason)
