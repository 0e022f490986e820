"""What one session gets of the event stream (RFC 5277), before its filter."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from agent.netconfd.broker.access import AccessControl
from agent.netconfd.broker.events.log import Event, Stream
from agent.netconfd.broker.sessions import Session, SubscriptionParameters
from agent.netconfd.errors import RpcErrors

LOG = logging.getLogger(__name__)

STREAMS = "urn:ietf:params:xml:ns:netmod:notification"
REPLAY_COMPLETE = f'<replayComplete xmlns="{STREAMS}"/>'
NOTIFICATION_COMPLETE = f'<notificationComplete xmlns="{STREAMS}"/>'

# Notifications in memory at once, for each session.
BATCH = 16


class Delivery(NamedTuple):
    """A notification's element as XML; `is_marker` if the subscriber's filter is not asked."""

    notification: str
    time_ns: int
    is_marker: bool = False


class Subscription:
    """Delivers from its position in the log on. Create it in the event loop."""

    def __init__(
        self,
        parameters: SubscriptionParameters,
        stream: Stream,
        session: Session,
        access: AccessControl,
    ) -> None:
        """`access` decides what the user may see, and counts what is denied."""
        self._parameters = parameters
        self._stream = stream
        self._session = session
        self._access = access
        self._more = asyncio.Event()
        self._forgotten = stream.log.forgotten
        self._replay_end = stream.log.last
        self._position = self._replay_end if parameters.start_ns is None else stream.log.first - 1
        stream.add(self)

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """The notifications that the user may receive, until the stop time is over."""
        if self._parameters.start_ns is not None:
            while self._position < self._replay_end:
                for delivery in await self._next(self._replay_end):
                    yield delivery
            yield Delivery(REPLAY_COMPLETE, time.time_ns(), is_marker=True)
        while not self._is_over():
            for delivery in await self._next():
                yield delivery
        yield Delivery(NOTIFICATION_COMPLETE, time.time_ns(), is_marker=True)

    def more(self) -> None:
        """The log has new notifications. Disconnect if it dropped undelivered ones for them."""
        self._more.set()
        if self._has_lost_some():
            LOG.error("%s reads its notifications too slowly, some are lost", self._session)
            self.close()
            # RFC 5277 has no message for lost notifications.
            self._session.disconnect()

    def stop_at(self, stop_ns: int | None) -> None:
        """Have another stop time, in ns since 1970; None for no end."""
        self._parameters = replace(self._parameters, stop_ns=stop_ns)
        self._more.set()

    def close(self) -> None:
        """Stop listening."""
        self._stream.remove(self)

    async def _next(self, last: int | None = None) -> list[Delivery]:
        """The next batch for this session; empty after a wait for the log to grow."""
        self._more.clear()
        place = self._position
        events = await self._session.call(self._read, last)
        if self._position == place:
            await self._wait()
        return events

    def _read(self, last: int | None) -> list[Delivery]:
        """Read on, up to number `last`; in the session's thread."""
        events = self._stream.log.after(self._position, BATCH)
        if self._has_lost_some():
            # `more` is about to notice.
            return []
        if last is not None:
            events = [event for event in events if event.number <= last]
        if events:
            self._position = events[-1].number
        return [
            Delivery(readable, event.time_ns)
            for event in events
            if (readable := self._readable(event)) is not None
        ]

    def _has_lost_some(self) -> bool:
        """Whether the log has dropped, since this began, one that is still to be delivered."""
        return any(
            now > max(before, self._position)
            for before, now in zip(self._forgotten, self._stream.log.forgotten, strict=True)
        )

    def _readable(self, event: Event) -> str | None:
        """What the user may see of the notification, None for nothing."""
        parameters = self._parameters
        if event.number <= self._replay_end and event.time_ns < (parameters.start_ns or 0):
            return None
        if parameters.stop_ns is not None and event.time_ns > parameters.stop_ns:
            return None
        try:
            return self._session.datastores.receivable(event.notification)
        except RpcErrors as errors:
            if any(each.tag == "access-denied" for each in errors.errors):
                self._access.count_denied_notification()
            else:
                # Its module may have been uninstalled.
                LOG.warning("%s does not get a notification: %s", self._session, errors)
            return None

    def _is_over(self) -> bool:
        stop_ns = self._parameters.stop_ns
        is_time = stop_ns is not None and time.time_ns() > stop_ns
        return is_time and self._position >= self._stream.log.last

    async def _wait(self) -> None:
        stop_ns = self._parameters.stop_ns
        left_s = None if stop_ns is None else max(0.0, (stop_ns - time.time_ns()) / 1e9)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._more.wait(), left_s)
