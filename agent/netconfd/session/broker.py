"""The broker as one session process sees it (see `agent.netconfd.broker.calls`)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from agent.netconfd import wire
from agent.netconfd.errors import RpcError, RpcErrors, shortened
from agent.netconfd.session_report import Counters, Ending


class OtherModules(Exception):
    """The installed modules are not those that this process knows."""


class Gone(Exception):
    """The broker has ended this session."""


# Notifications that wait for the client, before the broker has to wait, too.
MAX_EVENTS = 16


class Broker:
    """Calls to the broker, one at a time, and the notifications that it sends.

    `takes_json`: edits and operations as JSON (RFC 7951), with the operations of an edit as
    metadata (RFC 7952), and not as XML.
    """

    def __init__(self, *, takes_json: bool = False) -> None:
        self.takes_json = takes_json
        self.counters = Counters()
        # None: the subscription is over that has no number.
        self.events: asyncio.Queue[wire.Message | None] = asyncio.Queue(MAX_EVENTS)
        # What of the datastores has changed, and which subscription has been ended, and why.
        self.on_change: Callable[[str], None] = lambda _datastore: None
        self.on_subscription_end: Callable[[int, str], None] = lambda _number, _reason: None
        self._answers: asyncio.Queue[wire.Message | None] = asyncio.Queue()
        self._turn = asyncio.Lock()

    async def connect(self, end: socket.socket) -> None:
        """Use this socket, and read from it from now on; `reading` ends with the broker."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=end)
        self.reading = asyncio.create_task(self._read())

    async def call(self, name: str, body: bytes = b"", **parameters: Any) -> bytes:
        """Perform a call; returns the answer's body.

        Raises RpcErrors, OtherModules or Gone. A call goes on if who waits for it is cancelled: its
        answer must not be taken for that of the next one.
        """
        answer = await asyncio.shield(asyncio.ensure_future(self._exchange(name, body, parameters)))
        if "other-modules" in answer.head:
            raise OtherModules
        if "errors" in answer.head:
            raise RpcErrors([RpcError(**each) for each in answer.head["errors"]])
        return answer.body

    async def _exchange(self, name: str, body: bytes, parameters: dict[str, Any]) -> wire.Message:
        async with self._turn:
            try:
                self._write(name, body, parameters)
            except wire.ProtocolError as error:
                # Such as the name of a schema, or a persist-id.
                message = f"what the request names is too long to be passed on: {error}"
                raise RpcErrors([RpcError("too-big", message)]) from None
            try:
                await self._writer.drain()
            except OSError:
                raise Gone from None
            answer = await self._answers.get()
            if answer is None:
                # For the next call, too.
                self._answers.put_nowait(None)
                raise Gone
            return answer

    def tell(self, name: str, **parameters: Any) -> None:
        """Tell what needs no answer."""
        self._write(name, b"", parameters)

    def tell_ending(self, ending: Ending) -> None:
        """Tell why the session ends, or is about to."""
        self.tell("ended", reason=ending.reason, text=shortened(ending.text))

    async def close(self) -> None:
        """Send what is told, and end."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        self.reading.cancel()

    def _write(self, name: str, body: bytes, parameters: dict[str, Any]) -> None:
        head = {"call": name, **parameters, "counters": astuple(self.counters)}
        self._writer.write(wire.encode(wire.Message(head, body)))

    async def _read(self) -> None:
        try:
            while message := await wire.read(self._reader, wire.MAX_ANSWER_OCTETS):
                if "event" in message.head:
                    await self.events.put(message)
                elif "subscription-ended" in message.head:
                    await self.events.put(message if "subscription" in message.head else None)
                elif "changed" in message.head:
                    self.on_change(message.head["changed"])
                elif "ended-subscription" in message.head:
                    self.on_subscription_end(
                        message.head["ended-subscription"], message.head["reason"]
                    )
                else:
                    self._answers.put_nowait(message)
        finally:
            self._answers.put_nowait(None)
