"""The numbered subscriptions of one session (RFC 8639, RFC 8641)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agent.netconfd.errors import RpcError, RpcErrors
from agent.netconfd.session import push_messages
from agent.netconfd.session.broker import Broker, Gone, OtherModules
from agent.netconfd.session.datastore import Datastores, Part
from agent.netconfd.session.notifications import Filter
from agent.netconfd.session.push import Ended, Push
from agent.netconfd.session.terms import OnChange, Periodic, StreamTerms, Terms
from agent.netconfd.subscription_errors import (
    FILTER_UNAVAILABLE,
    NO_SUCH_SUBSCRIPTION,
    NO_SUCH_SUBSCRIPTION_RESYNC,
    no_such_subscription,
    subscription_error,
)
from agent.sysrepo import DNode
from agent.sysrepo.differences import Edit

LOG = logging.getLogger(__name__)

# Sends a notification's element; returns when the client is ready for more.
Send = Callable[[str, int], Awaitable[None]]
# Whether a filter admits a notification of the stream.
IsAdmitted = Callable[[str, Filter], bool]


@dataclass(eq=False)
class _Stream:
    """A subscription to the stream. Its notifications wait until it has started."""

    terms: StreamTerms
    has_started: asyncio.Event = field(default_factory=asyncio.Event)


class Subscriptions:
    """All of them. A new one starts with `start_new`, after the client has its number."""

    def __init__(
        self,
        broker: Broker,
        datastores: Callable[[], Datastores],
        reload_modules: Callable[[], Awaitable[None]],
        *,
        begin_request: Callable[[], None],
        send: Send,
        is_admitted: IsAdmitted,
    ) -> None:
        """`datastores` by the modules of now; `begin_request` before anything is evaluated."""
        self._broker = broker
        self._datastores = datastores
        self._reload_modules = reload_modules
        self._begin_request = begin_request
        self._send = send
        self._is_admitted = is_admitted
        self._streams: dict[int, _Stream] = {}
        self._open: dict[int, Push] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._sent: dict[int, int] = {}
        # What the filters select, and for which modules.
        self._parts: dict[int, tuple[int, Part]] = {}
        # What the client is to know before the next update.
        self._first: dict[int, str] = {}
        broker.on_change = self._changed
        broker.on_subscription_end = self._end_by_broker

    def __len__(self) -> int:
        return len(self._open) + len(self._streams)

    @property
    def has_stream(self) -> bool:
        """Whether one of them is to the stream."""
        return bool(self._streams)

    async def establish(self, terms: Terms) -> int:
        """Create one; returns its number. Raises RpcErrors."""
        number = int(await self._broker.call("subscribe", **_record(terms)))
        push = Push(number, terms, self)
        self._open[number] = push
        try:
            await push.prepare()
        except (RpcErrors, Ended) as error:
            self._forget(number)
            if isinstance(error, RpcErrors):
                raise
            raise no_such_subscription(number) from None
        return number

    async def establish_stream(self, terms: StreamTerms, start_ns: int | None) -> int:
        """Create one to the stream, from `start_ns` since 1970 on. Raises RpcErrors."""
        number = int(
            await self._broker.call("subscribe-stream", start_ns=start_ns, stop_ns=terms.stop_ns)
        )
        self._streams[number] = _Stream(terms)
        return number

    async def modify_stream(self, number: int, terms: StreamTerms) -> None:
        """Go on with other terms. Raises RpcError or RpcErrors."""
        await self._broker.call("modify-stream", subscription=number, stop_ns=terms.stop_ns)
        await self._cancel(number)
        if (stream := self._streams.get(number)) is None:
            raise no_such_subscription(number)
        stream.terms = terms
        stream.has_started.clear()
        self._first[number] = push_messages.modified(number, terms)

    async def deliver(self, head: Mapping[str, Any], notification: str) -> None:
        """A notification of the stream, or the end of it, for the one that the head names."""
        number = head["subscription"]
        stream = self._streams.get(number)
        if stream is None:
            return
        await stream.has_started.wait()
        if "subscription-ended" in head:
            await self._terminate(number, NO_SUCH_SUBSCRIPTION)
        elif not head["is_marker"]:
            if self._is_admitted(notification, stream.terms.filter_):
                await self.publish(number, notification, head["event"])
        elif "replayComplete" in notification:
            await self.publish(number, push_messages.replay_completed(number), head["event"])

    def terms_of(self, number: int) -> Terms | StreamTerms:
        """The terms of an open one. Raises RpcError."""
        if number in self._streams:
            return self._streams[number].terms
        if number not in self._open:
            raise no_such_subscription(number)
        return self._open[number].terms

    async def modify(self, number: int, terms: Terms) -> None:
        """Go on with other terms. Raises RpcError or RpcErrors."""
        await self._broker.call("modify-subscription", subscription=number, **_record(terms))
        await self._cancel(number)
        if number not in self._open:
            raise no_such_subscription(number)
        self._parts.pop(number, None)
        self._open[number] = push = Push(number, terms, self)
        self._first[number] = push_messages.modified(number, terms)
        await push.prepare()

    async def delete(self, number: int) -> None:
        """End one, without a notification. Raises RpcErrors."""
        await self._broker.call("delete-subscription", subscription=number)
        await self._cancel(number)
        self._forget(number)

    async def resync(self, number: int) -> None:
        """Have one on change send all that is selected. Raises RpcError or RpcErrors."""
        push = self._open.get(number)
        if push is None or not isinstance(push.terms.trigger, OnChange):
            raise subscription_error(
                NO_SUCH_SUBSCRIPTION_RESYNC,
                f"<id> is {number}, expected that of a subscription on change of this session",
            )
        await self._broker.call("resync-subscription", subscription=number)
        push.resync()

    def start_new(self) -> None:
        """Start what has been established or modified since."""
        for number, stream in self._streams.items():
            if not stream.has_started.is_set() and number not in self._running:
                self._running[number] = asyncio.create_task(self._start_stream(number, stream))
        for number, push in self._open.items():
            if number not in self._running:
                self._running[number] = asyncio.create_task(self._run(push))

    async def end(self) -> None:
        """End all, with the session."""
        for number in tuple(self._running):
            await self._cancel(number)

    # What a `Push` uses.

    async def read(self, number: int, terms: Terms) -> DNode | None:
        """What is selected now. Raises RpcErrors or Ended."""
        try:
            return await self._read(number, terms)
        except OtherModules:
            await self._reload_modules()
        try:
            return await self._read(number, terms)
        except OtherModules as error:
            # They change one after the other: later, then.
            raise RpcErrors([RpcError("operation-failed", "the modules change")]) from error

    def printed(self, tree: DNode | None, datastore: str) -> str:
        """A tree as XML."""
        return self._datastores().printed(tree, datastore)

    def packed(self, tree: DNode | None) -> bytes:
        """A tree in little memory; b"" for None."""
        return self._datastores().packed(tree)

    def differences(self, before: bytes, after: DNode | None) -> list[Edit]:
        """What has changed from one tree, which is packed, to another."""
        return self._datastores().differences(before, after)

    async def publish(self, number: int, notification: str, time_ns: int) -> None:
        """Send a notification of one, and count it."""
        await self._send(notification, time_ns)
        self._sent[number] = self._sent.get(number, 0) + 1
        self._broker.tell("sent", subscription=number, records=self._sent[number])

    async def _read(self, number: int, terms: Terms) -> DNode | None:
        self._begin_request()
        datastores = self._datastores()
        part = self._part(number, terms, datastores)
        try:
            return await datastores.subscribed(number, terms.datastore, part)
        except RpcErrors as errors:
            # Another session has ended it, or its user may no longer subscribe.
            if errors.errors[0].app_tag == NO_SUCH_SUBSCRIPTION:
                raise Ended(None) from None
            if errors.errors[0].tag == "access-denied":
                raise Ended(NO_SUCH_SUBSCRIPTION) from None
            raise

    def _part(self, number: int, terms: Terms, datastores: Datastores) -> Part:
        content_id, part = self._parts.get(number, (None, None))
        if part is None or content_id != datastores.content_id:
            try:
                part = datastores.part(terms.filter_)
            except (RpcError, RpcErrors):
                raise Ended(FILTER_UNAVAILABLE) from None
            self._parts[number] = datastores.content_id, part
        return part

    async def _start_stream(self, number: int, stream: _Stream) -> None:
        if first := self._first.pop(number, None):
            await self.publish(number, first, time.time_ns())
        stream.has_started.set()
        self._running.pop(number, None)

    async def _run(self, push: Push) -> None:
        number = push.number
        try:
            async with asyncio.timeout(_left_s(push.terms)) as stop:
                if first := self._first.pop(number, None):
                    await self.publish(number, first, time.time_ns())
                await push.run()
        except TimeoutError:
            if not stop.expired():
                raise
            await self._terminate(number, NO_SUCH_SUBSCRIPTION)
        except Ended as ended:
            await self._terminate(number, ended.reason)
        except Gone:
            pass
        except Exception:
            # Such as no more memory; the log has the traceback.
            LOG.exception("subscription %d ends: an update failed inside the server", number)
            await self._terminate(number, NO_SUCH_SUBSCRIPTION)

    async def _terminate(self, number: int, reason: str | None) -> None:
        """End one from within its task."""
        self._running.pop(number, None)
        self._broker.tell("subscription-ended", subscription=number)
        if reason is not None:
            await self.publish(number, push_messages.terminated(number, reason), time.time_ns())
        self._forget(number)

    async def _cancel(self, number: int) -> None:
        task = self._running.pop(number, None)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _forget(self, number: int) -> None:
        self._first.pop(number, None)
        self._sent.pop(number, None)
        self._parts.pop(number, None)
        self._streams.pop(number, None)
        self._open.pop(number, None)

    def _changed(self, datastore: str) -> None:
        for push in self._open.values():
            if push.terms.datastore == datastore:
                push.changed()

    def _end_by_broker(self, number: int, reason: str) -> None:
        """Another session has ended one (kill-subscription)."""
        if task := self._running.pop(number, None):
            task.cancel()
        if number in self._open or number in self._streams:
            self._running[number] = asyncio.create_task(self._terminate(number, reason))


def _record(terms: Terms) -> dict[str, Any]:
    """What the broker keeps, and shows, of a subscription: nothing that it has to parse."""
    record: dict[str, Any] = {"datastore": terms.datastore, "stop_ns": terms.stop_ns}
    if isinstance(terms.trigger, Periodic):
        return {
            **record,
            "period_cs": terms.trigger.period_cs,
            "anchor_ns": terms.trigger.anchor_ns,
        }
    return {
        **record,
        "dampening_cs": terms.trigger.dampening_cs,
        "sync_on_start": terms.trigger.sync_on_start,
        "excluded": sorted(terms.trigger.excluded),
    }


def _left_s(terms: Terms) -> float | None:
    return None if terms.stop_ns is None else max(0.0, (terms.stop_ns - time.time_ns()) / 1e9)
