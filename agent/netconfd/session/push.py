"""One subscription to a datastore: what is sent, and when (RFC 8641).

What is selected is read anew for each update, with the rights that the user has then, and an
update on change is the difference from what was read before. A node that has become unreadable is
so reported as deleted (RFC 8641, section 3.9), and of many changes while the client is slow
nothing is kept but that there were any. sysrepo's own subscriptions (srsn_*, 3.7.11) say nothing
of nodes that become unreadable, miss the multiples of an anchor time, and none of them can be ended
while the pipe of one is not read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from agent.netconfd.errors import RpcErrors
from agent.netconfd.session import push_messages
from agent.netconfd.session.terms import CENTISECOND_NS, OnChange, Periodic, Terms
from agent.netconfd.subscription_errors import UNSUPPORTABLE_VOLUME
from agent.sysrepo import DNode
from agent.sysrepo.differences import Edit

LOG = logging.getLogger(__name__)

# Until what could not be read for an update on change is read again.
RETRY_S = 1.0
# A timer that fires this much early has fired for the time to come.
_TIMER_SLACK_NS = 5_000_000


class Ended(Exception):
    """The subscription cannot go on. `reason` is an identity; None where the client is not told."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


class Publisher(Protocol):
    """What a subscription uses of its session."""

    async def read(self, number: int, terms: Terms) -> DNode | None:
        """What is selected now, of what the user may read; the caller frees it.

        Raises RpcErrors or Ended.
        """

    def printed(self, tree: DNode | None, datastore: str) -> str:
        """It as XML."""

    def packed(self, tree: DNode | None) -> bytes:
        """It in little memory, for `differences` later on; b"" for nothing."""

    def differences(self, before: bytes, after: DNode | None) -> list[Edit]:
        """What has changed from one, which is packed, to another."""

    async def publish(self, number: int, notification: str, time_ns: int) -> None:
        """Send a notification; returns when the client is ready for more."""


class Push:
    """What one subscription sends, as long as `run` runs."""

    def __init__(self, number: int, terms: Terms, publisher: Publisher) -> None:
        self.number = number
        self.terms = terms
        self._publisher = publisher
        # What the client knows of the selection, and the number of the next patch to it.
        self._known = b""
        self._patch = 0
        self._sent_s = float("-inf")
        self._wake = asyncio.Event()
        self._resync = asyncio.Event()
        if isinstance(terms.trigger, OnChange) and terms.trigger.sync_on_start:
            self.resync()

    async def prepare(self) -> None:
        """Read what changes are counted from, if the client does not get it. Raises as `read`."""
        if isinstance(self.terms.trigger, OnChange) and not self.terms.trigger.sync_on_start:
            async with self._selected() as tree:
                self._known = self._publisher.packed(tree)

    async def run(self) -> None:
        """Send updates until it is cancelled. Raises Ended."""
        if isinstance(self.terms.trigger, Periodic):
            await self._run_periodic(self.terms.trigger)
        else:
            await self._run_on_change(self.terms.trigger)

    def changed(self) -> None:
        """The datastore may have changed."""
        self._wake.set()

    def resync(self) -> None:
        """Send all that is selected, once more."""
        self._resync.set()
        self._wake.set()

    async def _run_periodic(self, trigger: Periodic) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + (0.0 if trigger.anchor_ns is None else _until_multiple_s(trigger))
        while True:
            await asyncio.sleep(due_s - loop.time())
            await self._push_periodic(trigger)
            if trigger.anchor_ns is None:
                # Periods that are over are left out.
                over = max(0.0, loop.time() - due_s) // _period_s(trigger)
                due_s += (over + 1) * _period_s(trigger)
            else:
                due_s = loop.time() + _until_multiple_s(trigger)

    async def _push_periodic(self, trigger: Periodic) -> None:
        """One periodic update. A client that takes longer than a period for it is told so after."""
        try:
            async with self._selected() as tree:
                contents = self._publisher.printed(tree, self.terms.datastore)
            notification = push_messages.push_update(self.number, contents)
        except RpcErrors as errors:
            LOG.warning("subscription %d: an update is incomplete: %s", self.number, errors)
            notification = push_messages.incomplete_update(self.number)
        loop = asyncio.get_running_loop()
        sent_s, sent_ns = loop.time(), time.time_ns()
        await self._publisher.publish(self.number, notification, sent_ns)
        if loop.time() - sent_s > _period_s(trigger):
            gap_ns = sent_ns + trigger.period_cs * CENTISECOND_NS
            message = push_messages.suspended(self.number, UNSUPPORTABLE_VOLUME)
            await self._publisher.publish(self.number, message, gap_ns)
            message = push_messages.resumed(self.number)
            await self._publisher.publish(self.number, message, time.time_ns())

    async def _run_on_change(self, trigger: OnChange) -> None:
        while True:
            await self._wake.wait()
            await self._dampen(trigger)
            self._wake.clear()
            is_resync = self._resync.is_set()
            self._resync.clear()
            try:
                if is_resync:
                    await self._push_everything()
                else:
                    await self._push_changes(trigger)
            except RpcErrors as errors:
                LOG.warning("subscription %d: an update is late: %s", self.number, errors)
                await asyncio.sleep(RETRY_S)
                self._wake.set()
                if is_resync:
                    self._resync.set()

    async def _dampen(self, trigger: OnChange) -> None:
        """Wait until the dampening period is over, but not with what the client has asked for."""
        left_s = self._sent_s + trigger.dampening_cs / 100 - asyncio.get_running_loop().time()
        if left_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._resync.wait()

    async def _push_everything(self) -> None:
        async with self._selected() as tree:
            self._known, self._patch = self._publisher.packed(tree), 0
            contents = self._publisher.printed(tree, self.terms.datastore)
        await self._publish(push_messages.push_update(self.number, contents))

    async def _push_changes(self, trigger: OnChange) -> None:
        async with self._selected() as new:
            try:
                edits = self._publisher.differences(self._known, new)
            finally:
                self._known = self._publisher.packed(new)
        if edits := [edit for edit in edits if edit.operation not in trigger.excluded]:
            patch, self._patch = self._patch, self._patch + 1
            await self._publish(push_messages.push_change_update(self.number, patch, edits))

    @asynccontextmanager
    async def _selected(self) -> AsyncIterator[DNode | None]:
        """What is selected now. Raises as `read`."""
        tree = await self._publisher.read(self.number, self.terms)
        try:
            yield tree
        finally:
            if tree is not None:
                tree.free()

    async def _publish(self, notification: str) -> None:
        self._sent_s = asyncio.get_running_loop().time()
        await self._publisher.publish(self.number, notification, time.time_ns())


def _period_s(trigger: Periodic) -> float:
    return trigger.period_cs / 100


def _until_multiple_s(trigger: Periodic) -> float:
    """Until the next multiple of the period from the anchor time on."""
    period_ns = trigger.period_cs * CENTISECOND_NS
    left_ns = period_ns - (time.time_ns() - (trigger.anchor_ns or 0)) % period_ns
    return (left_ns if left_ns > _TIMER_SLACK_NS else left_ns + period_ns) / 1e9
