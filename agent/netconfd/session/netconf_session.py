"""One NETCONF session from its hello to the last reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from lxml import etree

from agent.netconfd.broker.events.events import TerminationReason
from agent.netconfd.broker.events.sources import Notifications
from agent.netconfd.broker.events.subscription import Subscription
from agent.netconfd.broker.sessions import Session
from agent.netconfd.broker.settings import Limits
from agent.netconfd.errors import BASE, RpcError, RpcErrors
from agent.netconfd.session import messages
from agent.netconfd.session.framing import (
    FramingError,
    MemoryBudget,
    MessageReader,
    Source,
    encode,
)
from agent.netconfd.session.operations import Services, perform

LOG = logging.getLogger(__name__)


class Transport(Source, Protocol):
    """A byte stream to one client. A closed one discards what is written, and then `is_gone`."""

    @property
    def is_gone(self) -> bool:
        """Whether the client reads no more. It may have sent requests before."""

    async def write(self, data: bytes) -> None:
        """Send; returns when the client is ready for more."""


class _TooSlow(Exception):
    """The client exceeds a time limit; the text names it."""


class Ending(NamedTuple):
    """Why a session ended: one of RFC 6470's reasons, and a text for the log."""

    reason: TerminationReason
    text: str


class NetconfSession:
    """Reads requests one by one and answers each before the next (RFC 6241, section 4.5).

    Notifications go out between the replies.
    """

    def __init__(
        self,
        transport: Transport,
        session: Session,
        services: Services,
        notifications: Notifications,
        *,
        limits: Limits,
        budget: MemoryBudget,
    ) -> None:
        self._transport = transport
        self._session = session
        self._services = services
        self._notifications = notifications
        self._limits = limits
        self._reader = MessageReader(transport, limits.max_message_octets, budget)
        self._chunked = False
        self._sending = asyncio.Lock()
        self._delivery: asyncio.Task[None] | None = None

    async def run(self, capabilities: Sequence[str]) -> Ending:
        """Hold the session until it ends; returns why it ended."""
        try:
            await self._send(messages.hello(capabilities, self._session.number))
            if not await self._greet():
                return Ending("dropped", "the client left before its hello")
            self._notifications.events.session_started(self._session)
            while not self._session.closing:
                message = await self._next_request()
                if message is None:
                    return Ending("dropped", "the transport closed")
                await self._respond(message)
        except _TooSlow as error:
            return Ending("timeout", str(error))
        except messages.NotAHello as error:
            return Ending("bad-hello", f"protocol violation: {error}")
        except FramingError as error:
            return Ending("other", f"protocol violation: {error}")
        finally:
            self._reader.close()
            await self._end_delivery()
        return Ending("closed", "closed by the client")

    async def _greet(self) -> bool:
        """Agree on the framing; False if the client is gone."""
        timeout_s = self._limits.hello_timeout_s
        try:
            hello = await self._reader.receive(timeout_s)
        except TimeoutError:
            raise _TooSlow(f"no hello within {timeout_s} s") from None
        if hello is not None and messages.BASE_1_1 in messages.client_capabilities(hello):
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
                if self._session.subscription is None:
                    raise _TooSlow(f"no request within {timeout_s} s") from None
        return None

    async def _send(self, message: bytes) -> None:
        async with self._sending:
            await self._transport.write(encode(message, chunked=self._chunked))

    async def _respond(self, message: bytes) -> None:
        reply = await self._answer(message)
        subscription = None
        if self._session.subscription is not None and self._delivery is None:
            # Events after this point are delivered, but not before the reply. Events that are still
            # being logged, such as the start of this session, are not.
            await self._notifications.events.settle()
            subscription = Subscription(
                self._session.subscription,
                self._notifications.stream,
                self._session,
                self._services.access.count_denied_notification,
            )
        if self._session.closing:
            await self._end_delivery()
        timeout_s = self._limits.idle_timeout_s
        try:
            async with asyncio.timeout(timeout_s or None):
                await self._send(reply)
        except TimeoutError:
            raise _TooSlow(f"a reply not read within {timeout_s} s") from None
        if subscription is not None:
            self._delivery = asyncio.create_task(self._deliver(subscription))

    async def _deliver(self, subscription: Subscription) -> None:
        try:
            async for message in subscription.messages():
                await self._send(message)
                self._session.counters.out_notifications += 1
        except Exception:
            LOG.exception("%s: the subscription failed inside the server", self._session)
            self._session.disconnect()
        finally:
            subscription.close()
            self._session.subscription = None
            self._delivery = None

    async def _end_delivery(self) -> None:
        if self._delivery is not None:
            delivery = self._delivery
            delivery.cancel()
            with suppress(asyncio.CancelledError):
                await delivery

    async def _answer(self, message: bytes) -> bytes:
        attributes: dict[str, str] = {}
        nsmap: dict[str | None, str] = {}
        content: list[etree._Element]
        counters = self._session.counters
        operation = None
        try:
            root = messages.parse(message)
            attributes, nsmap = messages.reply_attributes(root)
            operation = messages.parse_rpc(root)
            counters.in_rpcs += 1
            content = await perform(operation, self._session, self._services)
        except RpcError as error:
            if error.tag == "malformed-message" and not self._chunked:
                # RFC 6241 appendix A: clients of base:1.0 must not be sent this tag.
                error.tag = "operation-failed"
            content = [error.element()]
        except RpcErrors as errors:
            content = [error.element() for error in errors.errors]
        except Exception:
            # A failed request must not end other sessions; the log has the traceback.
            LOG.exception("%s: a request failed inside the server", self._session)
            failure = RpcError("operation-failed", "internal server error, see its log")
            content = [failure.element()]
        if operation is None:
            counters.in_bad_rpcs += 1
        counters.out_rpc_errors += any(each.tag == f"{{{BASE}}}rpc-error" for each in content)
        return messages.reply(content, attributes, nsmap)
