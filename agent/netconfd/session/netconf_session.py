"""One NETCONF session from its hello to the last reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from lxml import etree

from agent.netconfd.capabilities import BASE_1_1
from agent.netconfd.data_model import DataModel
from agent.netconfd.errors import RpcError, RpcErrors
from agent.netconfd.limits import Limits
from agent.netconfd.session import messages
from agent.netconfd.session.broker import Broker, Gone, OtherModules
from agent.netconfd.session.datastore import Datastores
from agent.netconfd.session.framing import (
    FramingError,
    MessageReader,
    OverBudget,
    Source,
    encode,
)
from agent.netconfd.session.notifications import Filter
from agent.netconfd.session.notifications import message as notification_message
from agent.netconfd.session.operations import OPERATIONS, Request, function_of, parameters
from agent.netconfd.session.operations.request import Session
from agent.netconfd.session.subscriptions import Subscriptions
from agent.netconfd.session_report import Ending

LOG = logging.getLogger(__name__)

_CLOSED = Ending("closed", "closed by the client")


class Transport(Source, Protocol):
    """A byte stream to one client. A closed one discards what is written, and then `is_gone`."""

    @property
    def is_gone(self) -> bool:
        """Whether the client reads no more. It may have sent requests before."""

    async def write(self, data: bytes) -> None:
        """Send; returns when the client is ready for more."""


class _TooSlow(Exception):
    """The client exceeds a time limit; the text names it."""


class BrokerBudget:
    """The broker's grants for long messages."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def hold(self, octets: int) -> None:
        """Hold this many octets. Raises OverBudget."""
        try:
            await self._broker.call("hold", octets=octets)
        except RpcErrors as errors:
            raise OverBudget(errors.errors[0].message) from None


class NetconfSession:
    """Reads requests one by one and answers each before the next (RFC 6241, section 4.5).

    Notifications go out between the replies.
    """

    def __init__(
        self,
        number: int,
        transport: Transport,
        broker: Broker,
        model: DataModel,
        *,
        limits: Limits,
        begin_request: Callable[[], None],
    ) -> None:
        """`begin_request` is called before anything that the client has sent is evaluated."""
        self._number = number
        self._transport = transport
        self._broker = broker
        self._model = model
        self._limits = limits
        self._begin_request = begin_request
        self._session = Session()
        self._reader = MessageReader(transport, limits.max_message_octets, BrokerBudget(broker))
        self._chunked = False
        self._sending = asyncio.Lock()
        self._delivery: asyncio.Task[None] | None = None
        self._subscriptions = Subscriptions(
            broker,
            lambda: Datastores(self._broker, self._model),
            self._reload_modules,
            begin_request=begin_request,
            send=self._notify,
            is_admitted=self._is_admitted,
        )
        self._running: asyncio.Task[Ending] | None = None
        self._fault: _TooSlow | None = None

    async def run(self, capabilities: Sequence[str]) -> Ending:
        """Hold the session until it ends; returns why it ended."""
        self._running = asyncio.current_task()
        try:
            return await self._run(capabilities)
        except _TooSlow as error:
            return Ending("timeout", str(error))
        except asyncio.CancelledError:
            if self._fault is None:
                raise
            return Ending("timeout", str(self._fault))
        except messages.NotAHello as error:
            return Ending("bad-hello", f"protocol violation: {error}")
        except FramingError as error:
            return Ending("other", f"protocol violation: {error}")
        except Gone:
            return Ending("dropped", "ended by the server")
        finally:
            await self._subscriptions.end()
            await self._end_delivery()

    async def _run(self, capabilities: Sequence[str]) -> Ending:
        await self._send(messages.hello(capabilities, self._number))
        if not await self._greet():
            return Ending("dropped", "the client left before its hello")
        self._broker.tell("greeted")
        while not self._session.is_closing:
            message = await self._next_request()
            if message is None:
                return Ending("dropped", "the transport closed")
            await self._respond(message)
        return _CLOSED

    async def _greet(self) -> bool:
        """Agree on the framing; False if the client is gone."""
        timeout_s = self._limits.hello_timeout_s
        try:
            hello = await self._reader.receive(timeout_s)
        except TimeoutError:
            raise _TooSlow(f"no hello within {timeout_s} s") from None
        self._begin_request()
        if hello is not None and BASE_1_1 in messages.client_capabilities(hello):
            self._reader.use_chunks()
            self._chunked = True
        return hello is not None

    async def _next_request(self) -> bytes | None:
        timeout_s = self._limits.idle_timeout_s
        # The requests of a disconnected client are not executed.
        while not self._transport.is_gone:
            try:
                return await self._reader.receive(timeout_s or None)
            except TimeoutError:
                if self._session.subscription_filter is None and not len(self._subscriptions):
                    raise _TooSlow(f"no request within {timeout_s} s") from None
        return None

    async def _send(self, message: bytes) -> None:
        async with self._sending:
            await self._transport.write(encode(message, chunked=self._chunked))

    async def _respond(self, message: bytes) -> None:
        self._begin_request()
        reply = await self._answer(message)
        # Before the reply: a client that has it may ask for the counters in another session.
        self._broker.tell("counters")
        if self._session.is_closing:
            await self._subscriptions.end()
            await self._end_delivery()
            # A client that has the reply may leave, and the front then kills this process.
            self._broker.tell_ending(_CLOSED)
        timeout_s = self._limits.idle_timeout_s
        try:
            async with asyncio.timeout(timeout_s or None):
                await self._send(reply)
        except TimeoutError:
            raise _TooSlow(f"a reply not read within {timeout_s} s") from None
        has_stream = self._session.subscription_filter is not None or self._subscriptions.has_stream
        if has_stream and self._delivery is None:
            self._delivery = asyncio.create_task(self._deliver())
        self._subscriptions.start_new()

    async def _notify(self, notification: str, time_ns: int) -> None:
        """Send a subscription's notification; one that is not read in time ends the session."""
        timeout_s = self._limits.idle_timeout_s
        try:
            async with asyncio.timeout(timeout_s or None):
                await self._send(notification_message(notification, time_ns))
        except TimeoutError:
            self._fault = _TooSlow(f"a notification not read within {timeout_s} s")
            assert self._running is not None  # noqa: S101  set by `run`
            self._running.cancel()
            raise asyncio.CancelledError from None
        self._broker.counters.out_notifications += 1

    async def _deliver(self) -> None:
        """Send the notifications that the filter admits, until the subscription is over."""
        try:
            while (event := await self._broker.events.get()) is not None:
                notification = event.body.decode()
                if "subscription" in event.head:
                    await self._subscriptions.deliver(event.head, notification)
                elif event.head["is_marker"] or self._admits(notification):
                    await self._send(notification_message(notification, event.head["event"]))
                    self._broker.counters.out_notifications += 1
                    self._broker.tell("counters")
        finally:
            self._session.subscription_filter = None
            self._delivery = None

    def _admits(self, notification: str) -> bool:
        return self._is_admitted(notification, self._session.subscription_filter)

    def _is_admitted(self, notification: str, filter_: Filter | None) -> bool:
        if filter_ is None or filter_.xpath is None:
            return False
        self._begin_request()
        try:
            return Datastores(self._broker, self._model).admits(notification, filter_.xpath)
        except RpcErrors as errors:
            # Its module may have been installed or uninstalled since.
            LOG.warning("session %d does not get a notification: %s", self._number, errors)
            return False

    async def _end_delivery(self) -> None:
        if self._delivery is not None:
            delivery = self._delivery
            delivery.cancel()
            with suppress(asyncio.CancelledError):
                await delivery

    async def _answer(self, message: bytes) -> bytes:
        attributes: dict[str, str] = {}
        nsmap: dict[str | None, str] = {}
        content: Sequence[etree._Element | RpcError]
        counters = self._broker.counters
        is_rpc = False
        try:
            root = messages.parse(message)
            attributes, nsmap = messages.reply_attributes(root)
            operation = messages.parse_rpc(root)
            is_rpc = True
            counters.in_rpcs += 1
            content = await self._perform(operation, message)
        except RpcError as error:
            if error.tag == "malformed-message" and not self._chunked:
                # RFC 6241 appendix A: clients of base:1.0 must not be sent this tag.
                error.tag = "operation-failed"
            content = [error]
        except RpcErrors as errors:
            content = errors.errors
        except Gone:
            raise
        except Exception:
            # The log has the traceback.
            LOG.exception("session %d: a request failed inside the server", self._number)
            content = [RpcError("operation-failed", "internal server error, see its log")]
        if not is_rpc:
            counters.in_bad_rpcs += 1
        counters.out_rpc_errors += any(isinstance(each, RpcError) for each in content)
        return messages.reply(content, attributes, nsmap)

    async def _perform(self, operation: etree._Element, message: bytes) -> list[etree._Element]:
        function = function_of(operation, self._model)
        try:
            return await function(self._request(operation))
        except OtherModules:
            # The operation element may have been taken apart.
            await self._reload_modules()
            again = messages.parse_rpc(messages.parse(message))
            return await function(self._request(again))

    async def _reload_modules(self) -> None:
        self._model = DataModel.build(await self._broker.call("modules"))

    def _request(self, operation: etree._Element) -> Request:
        datastores = Datastores(self._broker, self._model)
        return Request(
            operation,
            parameters.parse(operation, self._model) if operation.tag in OPERATIONS else {},
            self._session,
            self._broker,
            datastores,
            self._model,
            self._subscriptions,
            self._limits.min_push_period_cs,
        )
