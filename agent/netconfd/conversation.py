"""What is said in one NETCONF session, from hello to the last reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from lxml import etree

from agent.netconfd import messages
from agent.netconfd.errors import RpcError, RpcErrors
from agent.netconfd.framing import Decoder, FramingError, encode
from agent.netconfd.operations import Services, perform
from agent.netconfd.session import Session

log = logging.getLogger(__name__)

MAX_MESSAGE_OCTETS = 32 * 1024 * 1024
HELLO_TIMEOUT_S = 10.0


class Transport(Protocol):
    """A byte stream to one client. A closed one reads as b"" and swallows what is written."""

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Send; returns when the client is ready for more."""


class Conversation:
    """Reads requests one by one and answers each before the next, as the protocol demands."""

    def __init__(self, transport: Transport, session: Session, services: Services) -> None:
        self._transport = transport
        self._session = session
        self._services = services
        self._decoder = Decoder(MAX_MESSAGE_OCTETS)
        self._chunked = False

    async def run(self, capabilities: Sequence[str]) -> str:
        """Hold the session until it ends; returns why it ended, for the log."""
        try:
            await self._send(messages.hello(capabilities, self._session.number))
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                first = await self._receive()
            if first is None:
                return "the client left before its hello"
            if messages.BASE_1_1 in messages.client_capabilities(first):
                self._decoder.use_chunks()
                self._chunked = True
            while not self._session.closing:
                message = await self._receive()
                if message is None:
                    return "the transport closed"
                await self._send(await self._answer(message))
        except TimeoutError:
            return f"no hello within {HELLO_TIMEOUT_S:g} s"
        except (FramingError, messages.NotAHello) as error:
            return f"protocol violation: {error}"
        return "closed by the client"

    async def _receive(self) -> bytes | None:
        while (message := self._decoder.next_message()) is None:
            data = await self._transport.read()
            if not data:
                return None
            self._decoder.feed(data)
        return message

    async def _send(self, message: bytes) -> None:
        await self._transport.write(encode(message, chunked=self._chunked))

    async def _answer(self, message: bytes) -> bytes:
        attributes: dict[str, str] = {}
        nsmap: dict[str | None, str] = {}
        content: list[etree._Element]
        try:
            root = messages.parse(message)
            attributes, nsmap = messages.reply_attributes(root)
            operation = messages.parse_rpc(root)
            content = await perform(operation, self._session, self._services)
        except RpcError as error:
            content = [error.element()]
        except RpcErrors as errors:
            content = [error.element() for error in errors.errors]
        except Exception:
            # One request must not take the other sessions with it; the log has the traceback.
            log.exception("%s: a request failed inside the server", self._session)
            failure = RpcError("operation-failed", "internal server error, see its log")
            content = [failure.element()]
        return messages.reply(content, attributes, nsmap)
