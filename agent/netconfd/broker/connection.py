"""The broker's end of one session: the calls of its process, and its notifications."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast, get_args

from agent.netconfd import wire
from agent.netconfd.broker.calls import Calls, Services, errors_message
from agent.netconfd.broker.events.sources import Notifications
from agent.netconfd.broker.events.subscription import Subscription
from agent.netconfd.broker.sessions import Session, SubscriptionParameters
from agent.netconfd.errors import RpcError, RpcErrors, printable, shortened
from agent.netconfd.session_report import Counters, Ending, Reason

LOG = logging.getLogger(__name__)


class SessionConnection:
    """Answers one session process until it ends."""

    def __init__(
        self,
        session: Session,
        services: Services,
        notifications: Notifications,
        max_body_octets: Callable[[], int],
    ) -> None:
        self._session = session
        self._calls = Calls(session, services)
        self._access = services.access
        self._subscriptions = services.subscriptions
        self._notifications = notifications
        self._max_body_octets = max_body_octets
        self._sending = asyncio.Lock()
        self._delivery: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        # By the number of the subscription.
        self._streams: dict[int, asyncio.Task[None]] = {}
        self._ending = Ending("dropped", "the transport closed")
        self._writer: asyncio.StreamWriter | None = None
        self._is_over = False
        self._has_greeted = False

    def end(self) -> None:
        """Take no further call; `run` returns when the one in progress is done."""
        self._is_over = True
        if self._writer is not None:
            self._writer.transport.abort()

    async def run(self, end: socket.socket) -> Ending:
        """Serve until the other end is closed; returns why the session ended."""
        reader, self._writer = await asyncio.open_unix_connection(sock=end)
        try:
            while not self._is_over:
                message = await wire.read(reader, self._max_body_octets())
                if message is None:
                    break
                await self._take(message)
                # Messages without an answer are no reason to make the others wait.
                await asyncio.sleep(0)
        except wire.ProtocolError as error:
            LOG.error("%s: its process broke the protocol: %s", self._session, error)
            return Ending("other", "its process broke the protocol")
        except OSError:
            pass
        finally:
            self._subscriptions.session_ended(self._session)
            for task in (self._telling, self._delivery, *self._streams.values()):
                await _cancel(task)
            self._writer.close()
        return self._ending

    async def _take(self, message: wire.Message) -> None:
        fields = wire.Fields(message.head)
        if not fields.is_null("counters"):
            self._session.counters = _counters(fields)
        name = fields.text("call")
        if name == "greeted" and not self._has_greeted:
            self._has_greeted = True
            self._notifications.events.session_started(self._session)
        elif name == "ended":
            reason = cast("Reason", fields.choice("reason", get_args(Reason)))
            self._ending = Ending(reason, printable(shortened(fields.text("text"))))
        elif name == "sent":
            self._count_sent(fields)
        elif name == "subscription-ended":
            self._subscriptions.end(self._session, fields.number("subscription"))
        elif name != "counters":
            answer = await self._answer(name, fields, message.body)
            # Before the client knows: what it causes then must not be missed. What is started here
            # runs later, and so sends after the answer.
            if name in {"subscribe", "subscribe-stream"} and "reply" in answer.head:
                self._follow(int(answer.body))
            if name == "create-subscription" and self._delivery is None:
                self._deliver_from_here()
            await self._send(answer)

    async def _answer(self, name: str, fields: wire.Fields, body: bytes) -> wire.Message:
        try:
            if name in {"create-subscription", "subscribe-stream"}:
                # Events that are still being logged, such as the start of this session, are none
                # of its notifications.
                await self._notifications.events.settle()
            return await self._calls.perform(name, fields, body)
        except wire.ProtocolError:
            raise
        except RpcError as error:
            return errors_message([error])
        except RpcErrors as errors:
            return errors_message(list(errors.errors))
        except Exception:
            # A failed request must not end other sessions; the log has the traceback.
            LOG.exception("%s: a request failed inside the broker", self._session)
            failure = RpcError("operation-failed", "internal server error, see its log")
            return errors_message([failure])

    async def _send(self, message: wire.Message) -> None:
        assert self._writer is not None  # noqa: S101  set by `run`
        async with self._sending:
            self._writer.write(wire.encode(message))
            await self._writer.drain()

    def _count_sent(self, fields: wire.Fields) -> None:
        # It may have been ended meanwhile.
        with suppress(RpcError):
            subscription = self._subscriptions.of(self._session, fields.number("subscription"))
            subscription.records = fields.number("records")

    async def _tell(self) -> None:
        """Tell of changes and of ended subscriptions, as fast as the process takes it."""
        news = self._subscriptions.news(self._session)
        # `run` notices when the process has ended.
        with suppress(OSError):
            while True:
                datastores, ended = await news.take()
                for datastore in datastores:
                    await self._send(wire.Message({"changed": datastore}))
                for number, reason in ended.items():
                    head = {"ended-subscription": number, "reason": reason}
                    await self._send(wire.Message(head))

    def _follow(self, number: int) -> None:
        """Tell the process what its new subscription needs to know from now on."""
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell())
        subscription = self._subscriptions.of(self._session, number)
        terms = subscription.terms
        if terms.datastore is None:
            events = self._events(SubscriptionParameters(terms.start_ns, terms.stop_ns))
            task = asyncio.create_task(self._deliver_stream(number, events))
            self._streams[number] = task
            task.add_done_callback(lambda _: self._streams.pop(number, None))
            subscription.on_modify = lambda new: events.stop_at(new.stop_ns)
            subscription.on_end = task.cancel

    async def _deliver_stream(self, number: int, events: Subscription) -> None:
        try:
            await self._deliver(events, {"subscription": number})
        finally:
            events.close()

    def _events(self, parameters: SubscriptionParameters) -> Subscription:
        return Subscription(parameters, self._notifications.stream, self._session, self._access)

    def _deliver_from_here(self) -> None:
        if self._session.subscription is not None:
            events = self._events(self._session.subscription)
            self._delivery = asyncio.create_task(self._deliver_only(events))

    async def _deliver_only(self, events: Subscription) -> None:
        """The subscription of a create-subscription, which has no number."""
        try:
            await self._deliver(events, {})
        finally:
            events.close()
            self._session.subscription = None
            self._delivery = None

    async def _deliver(self, events: Subscription, of: Mapping[str, int]) -> None:
        try:
            async for each in events.deliveries():
                head = {"event": each.time_ns, "is_marker": each.is_marker, **of}
                await self._send(wire.Message(head, each.notification.encode()))
            await self._send(wire.Message({"subscription-ended": True, **of}))
        except OSError:
            # The process has ended; `run` notices.
            pass
        except Exception:
            LOG.exception("%s: the subscription failed inside the broker", self._session)
            self._session.disconnect()


async def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _counters(fields: wire.Fields) -> Counters:
    numbers = fields.numbers("counters")
    if len(numbers) != len(Counters.__dataclass_fields__):
        raise wire.ProtocolError("counters are not those of a session")
    return Counters(*numbers)
