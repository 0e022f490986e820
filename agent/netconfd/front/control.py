"""The front's end of its connection with the broker (see `agent.netconfd.broker.control`)."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.netconfd import wire
from agent.netconfd.limits import Client, Limits

# A packet, and the descriptors that came with it.
Answer = tuple[Mapping[str, Any], list[int]]


# A broker that is started together with this front may not listen yet.
CONNECT_TIMEOUT_S = 5.0
_CONNECT_PAUSE_S = 0.1


class BrokerError(Exception):
    """The broker does not do what it was asked to do; the text gives the reason."""


class Unanswered(BrokerError):
    """One request could not be sent, or not be answered. Others may be."""


class BrokerGone(BrokerError):
    """There is no broker, or it has ended; nothing can be served without it."""

    def __init__(
        self, reason: str = "the broker has ended the connection; its log says why"
    ) -> None:
        super().__init__(reason)


def connect(path: Path) -> socket.socket:
    """Connect to the broker that listens at `path`, or will soon. Blocks. Raises BrokerGone."""
    give_up_s = time.monotonic() + CONNECT_TIMEOUT_S
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    while True:
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            if time.monotonic() < give_up_s:
                time.sleep(_CONNECT_PAUSE_S)
                continue
            connection.close()
            raise BrokerGone(
                f"no broker listens at {path} ({error.strerror}); start tsn-netconf-broker"
            ) from None
        except OSError as error:
            connection.close()
            raise BrokerGone(
                f"cannot connect to the broker at {path}: {error.strerror}; "
                "its option --front-user must name the user of this process"
            ) from None
        return connection


class Control:
    """Requests to the broker, any number at once. Create it in the event loop.

    `limits` and `clients` are those in force now, once `configured` has returned. Each request may
    raise BrokerGone or Unanswered.
    """

    limits: Limits
    clients: frozenset[Client] = frozenset()

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._outbox = wire.Outbox(connection, lambda _reason: self.close())
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._configured = self._loop.create_future()
        self.gone = self._loop.create_future()
        self.on_configuration: Callable[[], object] = lambda: None
        self.on_end: Callable[[int], object] = lambda _number: None
        self.on_modules_changed: Callable[[], object] = lambda: None
        self._loop.add_reader(connection, self._readable)

    async def configured(self) -> None:
        """Wait for the configuration: the broker is ready. Raises BrokerGone."""
        await asyncio.wait((self._configured, self.gone), return_when=asyncio.FIRST_COMPLETED)
        if self.gone.done():
            raise BrokerGone

    async def open(self, user: str, peer: str, end: socket.socket) -> Mapping[str, Any]:
        """Open a session whose process has the other end of `end`.

        Returns its number (`opened`), `name`, `limits` and `may_commit`, or why not (`refused`).
        """
        answer, _ = await self._ask({"call": "open", "user": user, "peer": peer}, [end.fileno()])
        return answer

    async def keys_of(self, user: str) -> str:
        """The configured keys of a user, as lines of an authorized_keys file."""
        answer, _ = await self._ask({"call": "keys", "user": user})
        return str(answer["keys"])

    async def modules(self) -> int:
        """A descriptor of the installed modules, for `session.process`."""
        _, descriptors = await self._ask({"call": "modules"})
        if not descriptors:
            raise Unanswered("this process has no descriptor left for the YANG modules")
        return descriptors[0]

    def close(self) -> None:
        """End the connection, and with it all sessions."""
        if not self.gone.done():
            self._loop.remove_reader(self._connection)
            self._outbox.close()
            self._connection.close()
            self.gone.set_result(None)
            for each in self._waiting.values():
                if not each.done():
                    each.set_exception(BrokerGone())
            self._waiting.clear()

    async def _ask(
        self, request: Mapping[str, Any], descriptors: list[int] | None = None
    ) -> Answer:
        if self.gone.done():
            raise BrokerGone
        self._numbers += 1
        number = self._numbers
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[number] = answer
        try:
            self._outbox.send({"id": number, **request}, descriptors or [])
        except OSError as error:
            del self._waiting[number]
            raise Unanswered(f"the broker cannot be asked: {error}") from None
        return await answer

    def _readable(self) -> None:
        try:
            received = wire.receive_packet(self._connection)
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            self.close()
        else:
            self._take(*received)

    def _take(self, packet: Mapping[str, Any], descriptors: list[int]) -> None:
        if "configuration" in packet:
            configuration = packet["configuration"]
            self.limits = Limits.from_json(configuration["limits"])
            self.clients = frozenset(Client(**each) for each in configuration["clients"])
            if not self._configured.done():
                self._configured.set_result(None)
            self.on_configuration()
        elif "end" in packet:
            self.on_end(packet["end"])
        elif "modules-changed" in packet:
            self.on_modules_changed()
        else:
            answer = self._waiting.pop(packet["id"])
            # Whoever asked may have been cancelled since.
            if answer.done():
                wire.close_all(descriptors)
            elif "failed" in packet:
                answer.set_exception(Unanswered(packet["failed"]))
            else:
                answer.set_result((packet, descriptors))
