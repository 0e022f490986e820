"""The channel between the web workers and the core: framed JSON on a Unix socket (mode 0600; 0660
for workers of another user).

    frame    four octets, the length of the rest in network order; then a JSON object in UTF-8
    call     {"id": n, "token": text, "source": text, "call": name, "arguments": {...}}
    answer   {"id": n, "result": ...}  or  {"id": n, "error": {"code", "text", "hint", ...}}
    follow   a call that follows answers any number of {"id": n, "item": ...}, and ends as others do
    cancel   {"id": n, "cancel": true} ends a call that follows, or one whose asker has gone

`id` is the asker's: any number that no other open call of its connection has. Calls of a connection
are answered as they end, not as they came. Whoever sends what is not as agreed is cut off: a worker
may have been taken over.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from cnc.service import unix_socket
from cnc.service.connections import Connections
from cnc.service.refused import CallRefused, Code

LOG = logging.getLogger(__name__)

_LENGTH = struct.Struct("!I")
_PEER = struct.Struct("3i")  # struct ucred
# A request with a stream is some thousand octets; a worker refuses bodies that are longer itself.
REQUEST_MAX_OCTETS = 1 << 20
# The document of a plan with 10,000 streams of ten ports has a fifth of this.
ANSWER_MAX_OCTETS = 64 << 20
# Calls of one connection that wait for their answer; nothing more is read from it meanwhile.
OPEN_CALLS_MAX = 256
# A worker has one; whoever has taken it over takes none from others.
CONNECTIONS_MAX_OF_PROCESS = 8
_CONNECTIONS_MAX = 256
_TOKEN_MAX, _SOURCE_MAX = 256, 256  # characters


class ChannelError(Exception):
    """The other end has sent what was not agreed, or is gone."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call as it came. `token` is who asks, for the core to check; `source` is from where, as the
    worker says, for the audit log alone."""

    call: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    token: str = field(default="", repr=False)
    source: str = ""


class Following:
    """The answer of a call that follows: what comes, until its asker cancels."""

    def __init__(self, items: AsyncGenerator[Any, None]) -> None:
        self.items = items


Answering = Callable[[Request], Awaitable[Any]]


@asynccontextmanager
async def serving(path: Path, answer: Answering, group: int | None = None) -> AsyncIterator[None]:
    """Answer calls on the socket `path` while the block runs. `answer` raises CallRefused, and may
    return a Following. Members of `group` may connect, too. Raises OSError where the socket cannot
    be made."""
    tasks: set[asyncio.Task[None]] = set()
    connections = Connections(CONNECTIONS_MAX_OF_PROCESS, _CONNECTIONS_MAX)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  asyncio starts a task for each connection
        process = _process_behind(writer)
        if not connections.enter(process):
            LOG.warning("a connection of process %d is closed: it has too many", process)
            writer.close()
            return
        tasks.add(task)
        try:
            await _Answers(answer, writer).run(reader)
        finally:
            tasks.discard(task)
            connections.leave(process)

    with _listening(path, group) as listening:
        server = await asyncio.start_unix_server(connected, sock=listening)
        try:
            yield
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _listening(path: Path, group: int | None) -> Iterator[socket.socket]:
    """A socket at `path` as `unix_socket.bound` makes it, which is taken away at the end."""
    with unix_socket.bound(path, group, socket.SOCK_STREAM) as listening:
        try:
            yield listening
        finally:
            path.unlink(missing_ok=True)


def _process_behind(writer: asyncio.StreamWriter) -> int:
    """The number of the process that has connected (unix(7), SO_PEERCRED)."""
    its = writer.get_extra_info("socket")
    pid: int = _PEER.unpack(its.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
    return pid


class _Answers:
    """The core's end of one connection."""

    def __init__(self, answer: Answering, writer: asyncio.StreamWriter) -> None:
        self._answer, self._writer = answer, writer
        self._open: dict[int, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(OPEN_CALLS_MAX)
        self._sending = asyncio.Lock()

    async def run(self, reader: asyncio.StreamReader) -> None:
        try:
            while (message := await _read(reader, REQUEST_MAX_OCTETS)) is not None:
                number = message.get("id")
                if not isinstance(number, int) or isinstance(number, bool):
                    raise ChannelError("a message without a number")
                if message.get("cancel") is True:
                    if task := self._open.get(number):
                        task.cancel()
                    continue
                if number in self._open:
                    raise ChannelError("a second call with the same number")
                request = _request(message)
                await self._room.acquire()
                self._open[number] = asyncio.create_task(self._one(number, request))
        except ChannelError as error:
            LOG.warning("a worker's connection is closed: it sent %s", error)
        finally:
            for task in self._open.values():
                task.cancel()
            await asyncio.gather(*self._open.values(), return_exceptions=True)
            self._writer.close()

    async def _one(self, number: int, request: Request) -> None:
        try:
            try:
                found = await self._answer(request)
                if isinstance(found, Following):
                    async with aclosing(found.items) as items:
                        async for item in items:
                            await self._send({"id": number, "item": item})
                    found = None
                await self._send({"id": number, "result": found})
            except CallRefused as refused:
                await self._send({"id": number, "error": refused.to_object()})
            except ChannelError as error:
                too_long = CallRefused(Code.UNAVAILABLE, f"the answer cannot be sent: {error}")
                await self._send({"id": number, "error": too_long.to_object()})
            except OSError:
                LOG.debug("an asker has gone before its answer")
            except Exception:
                LOG.exception("%s failed", request.call)
                failed = CallRefused(
                    Code.UNAVAILABLE,
                    f"{request.call} failed in the service",
                    hint="the journal of the service has the reason; please report it",
                )
                await self._send({"id": number, "error": failed.to_object()})
        except (OSError, asyncio.CancelledError):
            return  # nobody waits for it any more
        finally:
            del self._open[number]
            self._room.release()

    async def _send(self, message: Mapping[str, Any]) -> None:
        """One answer after the other: of somebody who takes none, one waits as octets."""
        async with self._sending:
            self._writer.write(_frame(message, ANSWER_MAX_OCTETS))
            await self._writer.drain()


def _request(message: Mapping[str, Any]) -> Request:
    """Raises ChannelError for what no worker sends."""
    match message:
        case {"call": str(call), "arguments": dict(arguments), "token": str(token), **others}:
            source = others.get("source", "")
            if isinstance(source, str) and len(token) <= _TOKEN_MAX and len(source) <= _SOURCE_MAX:
                return Request(call, arguments, token, source)
    raise ChannelError("a call that is none")


class Channel:
    """A worker's end of a connection to the core: any number of calls at once.

    async with connected(path) as channel:
        stream = await channel.call("stream.get", {...}, token=token, source="192.0.2.1")
        async for event in channel.follow("events.follow", {"after": 0}, token=token):
            ...
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Queue[Mapping[str, Any] | None]] = {}
        self._reading = asyncio.create_task(self._read(reader))

    @property
    def is_lost(self) -> bool:
        """Whether the core is gone; another channel may find it again."""
        return self._reading.done()

    async def call(
        self, call: str, arguments: Mapping[str, Any] | None = None, *, token: str, source: str = ""
    ) -> Any:
        """The result. Raises CallRefused; also, as UNAVAILABLE, when the core is gone: it may have
        done what was asked."""
        answers = self._follow(call, arguments or {}, token, source)
        try:
            async for answer in answers:
                if "result" in answer:
                    return answer["result"]
        finally:
            await answers.aclose()
        raise _gone()

    async def follow(
        self, call: str, arguments: Mapping[str, Any] | None = None, *, token: str, source: str = ""
    ) -> AsyncIterator[Any]:
        """What comes, until the core ends it or the caller leaves the loop. Raises as `call`."""
        answers = self._follow(call, arguments or {}, token, source)
        try:
            async for answer in answers:
                if "result" in answer:
                    return
                yield answer["item"]
        finally:
            await answers.aclose()

    async def close(self) -> None:
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _follow(
        self, call: str, arguments: Mapping[str, Any], token: str, source: str
    ) -> Any:
        number = next(self._numbers)
        answers = self._waiting[number] = asyncio.Queue()
        has_ended = False
        try:
            asked = {"id": number, "token": token, "source": source, "call": call}
            await self._send({**asked, "arguments": arguments})
            while not has_ended:
                answer = await answers.get()
                has_ended = answer is None or "item" not in answer
                if answer is None:
                    raise _gone()
                if "error" in answer:
                    raise CallRefused.from_object(answer["error"])
                yield answer
        finally:
            del self._waiting[number]
            if not has_ended and not self.is_lost:
                with suppress(CallRefused):
                    await self._send({"id": number, "cancel": True})

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self.is_lost:
            raise _gone()
        try:
            frame = _frame(message, REQUEST_MAX_OCTETS)
        except ChannelError as error:
            raise CallRefused(Code.TOO_LARGE, f"the request is {error}") from error
        try:
            self._writer.write(frame)
            await self._writer.drain()
        except OSError as error:
            raise _gone() from error

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (message := await _read(reader, ANSWER_MAX_OCTETS)) is not None:
                if answers := self._waiting.get(message.get("id", 0)):
                    answers.put_nowait(message)
        except ChannelError as error:
            LOG.warning("the core has sent %s", error)
        finally:
            for answers in self._waiting.values():
                answers.put_nowait(None)


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Channel]:
    """A channel to the core that listens on `path`. Raises CallRefused (UNAVAILABLE)."""
    try:
        reader, writer = await asyncio.open_unix_connection(path)
    except OSError as error:
        raise CallRefused(
            Code.UNAVAILABLE,
            f"{path}: no service answers: {error.strerror}",
            hint="`cnc serve` starts one; with another --state-dir it listens elsewhere",
        ) from error
    channel = Channel(reader, writer)
    try:
        yield channel
    finally:
        await channel.close()


def _gone() -> CallRefused:
    return CallRefused(
        Code.UNAVAILABLE,
        "the core of the service is gone",
        hint="it starts again by itself; ask again then, with the same Idempotency-Key",
    )


def _frame(message: Mapping[str, Any], most: int) -> bytes:
    """Raises ChannelError if it is longer than `most` octets."""
    octets = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    if len(octets) > most:
        raise ChannelError(f"{len(octets)} octets long, of {most} at most")
    return _LENGTH.pack(len(octets)) + octets


async def _read(reader: asyncio.StreamReader, most: int) -> dict[str, Any] | None:
    """The next message, None at the end of the stream. Raises ChannelError."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > most:
            raise ChannelError(f"a message of {length} octets, of {most} at most")
        octets = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError):
        return None
    try:
        found = json.loads(octets, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ChannelError("what is not JSON") from error
    if not isinstance(found, dict):
        raise ChannelError("what is no JSON object")
    return found


def _no_number(name: str) -> None:
    raise ValueError(name)
