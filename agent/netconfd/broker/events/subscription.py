"""What one session gets of the event stream (RFC 5277), before its filter."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import NamedTuple

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
        on_denied: Callable[[], None],
    ) -> None:
        """`on_denied` is called for each notification that the user may not see."""
        self._parameters = parameters
        self._stream = stream
        self._session = session
        self._on_denied = on_denied
        self._more = asyncio.Event()
        self._replay_end = stream.log.last
        self._position = self._replay_end if parameters.start_ns is None else stream.log.first - 1
        stream.add(self)

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """The notifications that the user may receive, until the stop time is over."""
        if self._parameters.start_ns is not None:
            while self._position < self._replay_end:
                for event in await self._next(self._replay_end):
                    yield Delivery(event.notification, event.time_ns)
            yield Delivery(REPLAY_COMPLETE, time.time_ns(), is_marker=True)
        while not self._is_over():
            for event in await self._next():
                yield Delivery(event.notification, event.time_ns)
        yield Delivery(NOTIFICATION_COMPLETE, time.time_ns(), is_marker=True)

    def more(self) -> None:
        """The log has new notifications. Disconnect if it dropped undelivered ones for them."""
        self._more.set()
        if self._position < self._stream.log.first - 1:
            LOG.error("%s reads its notifications too slowly, some are lost", self._session)
            self.close()
            # RFC 5277 has no message for lost notifications.
            self._session.disconnect()

    def close(self) -> None:
        """Stop listening."""
        self._stream.remove(self)

    async def _next(self, last: int | None = None) -> list[Event]:
        """The next batch for this session; empty after a wait for the log to grow."""
        self._more.clear()
        place = self._position
        events = await self._session.call(self._read, last)
        if self._position == place:
            await self._wait()
        return events

    def _read(self, last: int | None) -> list[Event]:
        """Read on, up to number `last`; in the session's thread."""
        events = self._stream.log.after(self._position, BATCH)
        if events and events[0].number > self._position + 1:
            # The log has dropped the next one; `more` is about to notice.
            return []
        if last is not None:
            events = [event for event in events if event.number <= last]
        if events:
            self._position = events[-1].number
        return [event for event in events if self._may_have(event)]

    def _may_have(self, event: Event) -> bool:
        parameters = self._parameters
        if event.number <= self._replay_end and event.time_ns < (parameters.start_ns or 0):
            return False
        if parameters.stop_ns is not None and event.time_ns > parameters.stop_ns:
            return False
        try:
            self._session.datastores.check_receives(event.notification)
        except RpcErrors as errors:
            if any(each.tag == "access-denied" for each in errors.errors):
                self._on_denied()
            else:
                # Its module may have been uninstalled.
                LOG.warning("%s does not get a notification: %s", self._session, errors)
            return False
        return True

    def _is_over(self) -> bool:
        stop_ns = self._parameters.stop_ns
        is_time = stop_ns is not None and time.time_ns() > stop_ns
        return is_time and self._position >= self._stream.log.last

    async def _wait(self) -> None:
        stop_ns = self._parameters.stop_ns
        left_s = None if stop_ns is None else max(0.0, (stop_ns - time.time_ns()) / 1e9)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._more.wait(), left_s)
