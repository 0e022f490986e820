"""What a client with few rights or none can do to make a server slow, again and again.

Each attack goes on until it is cancelled. Those who only read do most of them: `observer` has no
right to change anything.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import asyncssh

from agent.netconfd.session.framing import END_OF_CHUNKS, Decoder, encode
from tests.stack.front_end import FrontEnd
from tests.stack.netconf_client import BASE, INTERFACES

MIB = 2**20
# Nobody will see the end of it: the product of three times all nodes.
ENDLESS_XPATH = "//*[count(//*[count(//*)>0])>0]"
IDLE_CONNECTIONS = 64
# Fewer than `max-sessions-per-user`.
CROWD = 100
# A server that ends its sessions must not keep this side busy with logins alone.
PAUSE_S = 0.05

_MAX_REPLY_OCTETS = 64 * MIB
_HELLO = (
    f'<hello xmlns="{BASE}"><capabilities><capability>urn:ietf:params:netconf:base:1.1</capability>'
    "</capabilities></hello>"
).encode()
_CLOSE = "<close-session/>"

# Does its work until it is cancelled, and calls the function whenever some of it is done.
Attack = Callable[[FrontEnd, Callable[[], None]], Awaitable[None]]


class AttackersSession:
    """One session, without a NETCONF library that might find something wrong with its requests."""

    async def open(self, server: FrontEnd, user: str) -> None:
        """Log in, and exchange hellos."""
        connection, self._reader, self._writer = await server.connect_raw(username=user)
        self._connection = connection
        self._decoder = Decoder(_MAX_REPLY_OCTETS)
        await self.receive()
        self._writer.write(encode(_HELLO, chunked=False))
        self._decoder.use_chunks()

    def send(self, operation: str, attributes: str = "", chunk_octets: int | None = None) -> None:
        """Send one request, in chunks of so many octets; the answer can wait."""
        rpc = f'<rpc xmlns="{BASE}" message-id="1" {attributes}>{operation}</rpc>'.encode()
        size = chunk_octets or len(rpc)
        chunks = (rpc[at : at + size] for at in range(0, len(rpc), size))
        framed = b"".join(b"\n#%d\n%b" % (len(chunk), chunk) for chunk in chunks)
        self._writer.write(framed + END_OF_CHUNKS)

    async def receive(self) -> bytes | None:
        """The next message, None if the server has ended the session."""
        while (message := self._decoder.next_message()) is None:
            data = await self._reader.read(65_536)
            if not data:
                return None
            self._decoder.feed(data)
        return message

    def close(self) -> None:
        """End it without a word."""
        self._connection.abort()


def endless_query() -> str:
    """A <get> that computes until somebody ends it."""
    return f'<get><filter type="xpath" select="{ENDLESS_XPATH}"/></get>'


def names(pattern: str, octets: int) -> str:
    """The pattern with one number after the other, about so many octets together."""
    count = octets // (1 + len(pattern.format(10**5)))
    return " ".join(pattern.format(number) for number in range(count))


def large_edit(octets: int) -> str:
    """An edit with one long description."""
    return (
        "<edit-config><target><candidate/></target><config>"
        f'<interfaces xmlns="{INTERFACES}"><interface><name>large</name>'
        '<type xmlns:t="urn:ietf:params:xml:ns:yang:iana-if-type">t:ethernetCsmacd</type>'
        f"<description>{'x' * octets}</description></interface></interfaces></config></edit-config>"
    )


async def _again_and_again(
    user: str,
    operation: str,
    server: FrontEnd,
    progress: Callable[[], None],
    attributes: str = "",
    *,
    is_endless: bool = False,
) -> None:
    """The same request in session after session; an answer to an endless one is not expected."""
    while True:
        session = AttackersSession()
        with suppress(OSError, asyncssh.Error):
            await session.open(server, user)
            try:
                session.send(operation, attributes)
                if is_endless:
                    await _while_there(session, progress)
                while await session.receive() is not None:
                    progress()
                    session.send(operation, attributes)
            finally:
                session.close()
        await asyncio.sleep(PAUSE_S)


async def _while_there(session: AttackersSession, progress: Callable[[], None]) -> None:
    """Count until the server ends the session."""
    end = asyncio.create_task(session.receive())
    try:
        while not (await asyncio.wait((end,), timeout=PAUSE_S))[0]:
            progress()
    finally:
        end.cancel()


async def _idle_connections(server: FrontEnd, progress: Callable[[], None]) -> None:
    """As many connections as may be, none of which says who it is, replaced as they are ended."""

    async def occupy() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(server.host, server.port)
                try:
                    while await reader.read(4096):
                        pass
                finally:
                    writer.transport.abort()
            await asyncio.sleep(PAUSE_S)

    await _side_by_side(IDLE_CONNECTIONS, occupy, progress)


async def _crowd(server: FrontEnd, progress: Callable[[], None]) -> None:
    """Sessions of one user, each of which computes without end, replaced as they are ended."""
    computing = 0
    is_complete = asyncio.Event()

    async def compute() -> None:
        nonlocal computing
        while True:
            with suppress(OSError, asyncssh.Error):
                session = AttackersSession()
                await session.open(server, "observer")
                session.send(endless_query())
                computing += 1
                if computing == CROWD:
                    is_complete.set()
                try:
                    await session.receive()
                finally:
                    session.close()
                    computing -= 1
            await asyncio.sleep(PAUSE_S)

    await _side_by_side(CROWD, compute, progress, is_complete)


async def _side_by_side(
    count: int,
    attack: Callable[[], Coroutine[Any, Any, None]],
    progress: Callable[[], None],
    is_complete: asyncio.Event | None = None,
) -> None:
    """So many of the same; they count as they go on, once all of them are there."""
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(attack())
        if is_complete is not None:
            await is_complete.wait()
        while True:
            await asyncio.sleep(PAUSE_S)
            progress()


async def _notification_flood(server: FrontEnd, progress: Callable[[], None]) -> None:
    """Subscribers with a costly filter, who hear sessions open and close all the time."""
    subscription = (
        '<create-subscription xmlns="urn:ietf:params:xml:ns:netconf:notification:1.0">'
        f'<filter type="xpath" select="{ENDLESS_XPATH}"/></create-subscription>'
    )
    async with AsyncExitStack() as stack:
        for _ in range(4):
            subscriber = AttackersSession()
            await subscriber.open(server, "observer")
            stack.callback(subscriber.close)
            subscriber.send(subscription)
            await subscriber.receive()
        while True:
            visitor = AttackersSession()
            with suppress(OSError, asyncssh.Error):
                await visitor.open(server, "observer")
                visitor.send(_CLOSE)
                await visitor.receive()
                visitor.close()
            progress()


ATTACKS: Mapping[str, Attack] = {
    "attributes": partial(
        _again_and_again, "observer", "<get/>", attributes=names('a{}=""', 2 * MIB)
    ),
    "namespaces": partial(
        _again_and_again, "observer", "<get/>", attributes=names('xmlns:a{}="u"', 2 * MIB)
    ),
    "long name in a filter": partial(
        _again_and_again,
        "observer",
        f'<get><filter type="xpath" select="/{"a" * 400_000}"/></get>',
    ),
    "endless query": partial(_again_and_again, "observer", endless_query(), is_endless=True),
    "crowd": _crowd,
    "edits of 4 MB": partial(_again_and_again, "operator", large_edit(4_000_000)),
    "everything": partial(_again_and_again, "observer", "<get/>"),
    "idle connections": _idle_connections,
    "notifications": _notification_flood,
}


class Underway:
    """An attack that goes on in a thread of its own; `rounds` counts what it has done."""

    def __init__(self) -> None:
        self.rounds = 0

    def count(self) -> None:
        """One more."""
        self.rounds += 1


@contextmanager
def attacked(server: FrontEnd, attack: Attack) -> Iterator[Underway]:
    """Attack the server meanwhile."""
    underway = Underway()
    loop = asyncio.new_event_loop()
    task = loop.create_task(_until_cancelled(attack, server, underway))
    thread = threading.Thread(target=loop.run_until_complete, args=(task,))
    thread.start()
    try:
        yield underway
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


async def _until_cancelled(attack: Attack, server: FrontEnd, underway: Underway) -> None:
    with suppress(asyncio.CancelledError):
        await attack(server, underway.count)
