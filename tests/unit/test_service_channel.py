"""The channel between workers and core, on a real Unix socket."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cnc.service import channel as channels
from cnc.service.channel import Channel, Following, Request, connected, serving
from cnc.service.refused import CallRefused, Code
from tests.unit.service_fixture import CUC, VIEWER, FixtureCore

STREAM = {"cuc": "plc", "stream_id": "00-1B-21-00-00-01:00-2A"}


def run(tmp_path: Path, answer: Any, ask: Callable[[Channel], Awaitable[Any]]) -> Any:
    async def both() -> Any:
        path = tmp_path / "core.sock"
        async with serving(path, answer), connected(path) as channel:
            return await ask(channel)

    return asyncio.run(asyncio.wait_for(both(), 20))


def test_the_socket_is_its_owners_alone_and_gone_at_the_end(tmp_path):
    path = tmp_path / "core.sock"

    async def look() -> int:
        async with serving(path, FixtureCore().answer):
            return stat.S_IMODE(path.stat().st_mode)

    assert asyncio.run(look()) == 0o600
    assert not path.exists()


def test_a_stream_is_put_and_got(tmp_path):
    async def ask(channel: Channel) -> Any:
        put = await channel.call("stream.put", {**STREAM, "body": {"a": "ü"}}, token=CUC)
        return put, await channel.call("stream.get", STREAM, token=VIEWER)

    async def answer(request: Request) -> Any:
        return await core.answer(request)

    core = FixtureCore()
    put, got = run(tmp_path, answer, ask)
    assert put == {**got, "created": True}
    assert got["body"] == {"a": "ü"}


@pytest.mark.parametrize(
    ("call", "arguments", "token", "code"),
    [
        ("stream.get", STREAM, "nobody", Code.UNAUTHENTICATED),
        ("token.list", {}, "viewer", Code.FORBIDDEN),
        ("stream.get", {**STREAM, "cuc": "other"}, "plc", Code.FORBIDDEN),
        ("stream.get", STREAM, "plc", Code.ABSENT),
        ("stream.fetch", STREAM, "plc", Code.ABSENT),
        ("stream.get", {**STREAM, "more": 1}, "plc", Code.INVALID),
        ("stream.get", {**STREAM, "stream_id": "1"}, "plc", Code.INVALID),
        ("stream.put", {**STREAM, "body": {"a": "x" * (1 << 20)}}, "plc", Code.TOO_LARGE),
    ],
)
def test_a_refusal_comes_with_its_code(tmp_path, call, arguments, token, code):
    async def ask(channel: Channel) -> Code:
        with pytest.raises(CallRefused) as refused:
            await channel.call(call, arguments, token=token)
        await channel.call("who", token=VIEWER)  # the connection goes on
        return refused.value.code

    async def answer(request: Request) -> Any:
        return await FixtureCore().answer(request)

    assert run(tmp_path, answer, ask) is code


def test_calls_are_answered_as_they_end_and_a_failure_is_told_without_its_traceback(tmp_path):
    slow = {}

    async def answer(request: Request) -> Any:
        if request.call == "slow":
            slow["event"] = asyncio.Event()
            await slow["event"].wait()
        if request.call == "fail":
            raise RuntimeError("secret")
        return request.call

    async def ask(channel: Channel) -> Any:
        first = asyncio.create_task(channel.call("slow", token=""))
        assert await channel.call("quick", token="") == "quick"
        with pytest.raises(CallRefused, match="failed in the service") as refused:
            await channel.call("fail", token="")
        slow["event"].set()
        return await first, refused.value

    result, refused = run(tmp_path, answer, ask)
    assert result == "slow"
    assert "secret" not in f"{refused.to_object()}"


def test_what_is_followed_comes_until_the_asker_leaves(tmp_path):
    ended = asyncio.Event()

    async def answer(_: Request) -> Any:
        async def items() -> AsyncIterator[int]:
            try:
                number = 0
                while True:
                    yield number
                    number += 1
                    await asyncio.sleep(0)
            finally:
                ended.set()

        return Following(items())

    async def ask(channel: Channel) -> Any:
        seen = []
        following = channel.follow("events.follow", token="")
        async for item in following:
            seen.append(item)
            if len(seen) == 3:
                break
        await following.aclose()
        await ended.wait()
        return seen

    assert run(tmp_path, answer, ask) == [0, 1, 2]


def test_calls_that_wait_end_when_the_core_goes(tmp_path):
    async def both() -> None:
        path = tmp_path / "core.sock"

        async def answer(_: Request) -> None:
            await asyncio.Event().wait()

        async with serving(path, answer):
            reader, writer = await asyncio.open_unix_connection(path)
            channel = Channel(reader, writer)
            waiting = asyncio.create_task(channel.call("who", token=""))
            await asyncio.sleep(0.05)
        with pytest.raises(CallRefused, match="core of the service is gone"):
            await waiting
        assert channel.is_lost
        await channel.close()

    asyncio.run(asyncio.wait_for(both(), 20))


@pytest.mark.parametrize(
    "octets",
    [
        struct.pack("!I", channels.REQUEST_MAX_OCTETS + 1),
        struct.pack("!I", 2) + b"[]",
        struct.pack("!I", 3) + b"NaN",
        struct.pack("!I", 200_000) + b"[" * 200_000,
        struct.pack("!I", 9) + b'{"id": 1}',
        struct.pack("!I", 8) + b'{"id":0}',
        struct.pack("!I", 10) + b'{"call":""}'[:10],
    ],
    ids=["too long", "no object", "NaN", "deep", "no call", "nothing", "cut off"],
)
def test_who_sends_what_is_not_agreed_is_cut_off(tmp_path, octets):
    async def both() -> bytes:
        path = tmp_path / "core.sock"
        async with serving(path, FixtureCore().answer):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(octets)
            answer = await reader.read()
            writer.close()
        return answer

    assert asyncio.run(asyncio.wait_for(both(), 20)) == b""


def test_who_takes_no_answers_has_one_of_them_made(tmp_path, monkeypatch):
    """Else each of its calls would cost as much memory as the longest document has."""
    made = []
    frame = channels._frame

    def counted(message: Any, most: int) -> bytes:
        octets = frame(message, most)
        made.append(len(octets))
        return octets

    async def answer(_: Request) -> Any:
        return "x" * (1 << 22)

    async def both() -> None:
        path = tmp_path / "core.sock"
        async with serving(path, answer), connected(path) as another:
            _, writer = await asyncio.open_unix_connection(path)
            calls = [
                frame({"id": n, "token": "", "call": "who", "arguments": {}}, 1 << 20)
                for n in range(channels.OPEN_CALLS_MAX)
            ]
            monkeypatch.setattr(channels, "_frame", counted)
            writer.write(b"".join(calls))
            await writer.drain()
            assert len(await another.call("who", token="")) == 1 << 22
            writer.close()

    asyncio.run(asyncio.wait_for(both(), 20))
    assert len([its for its in made if its > 1 << 22]) == 2  # its own, and the other's


def test_who_floods_the_core_with_calls_holds_up_nobody(tmp_path):
    """Counted: for each call of another, no more of the flood is answered than may be open."""
    flooded = 0

    async def answer(request: Request) -> Any:
        nonlocal flooded
        flooded += request.source == "flood"
        return await FixtureCore().answer(request)

    async def both() -> int:
        path = tmp_path / "core.sock"
        async with serving(path, answer), connected(path) as another:
            reader, writer = await asyncio.open_unix_connection(path)

            async def flood() -> None:
                number = 0
                while True:
                    call = {"id": number, "token": "", "call": "who", "arguments": {}}
                    call["source"] = "flood"
                    writer.write(channels._frame(call, 1 << 20))
                    await writer.drain()
                    number += 1

            async def forget() -> None:
                while await reader.read(1 << 16):
                    pass

            tasks = [asyncio.create_task(its) for its in (flood(), forget())]
            await another.call("who", token=VIEWER)
            before = flooded
            for _ in range(50):
                await another.call("who", token=VIEWER)
            meanwhile = flooded - before
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.close()
        return meanwhile

    meanwhile = asyncio.run(asyncio.wait_for(both(), 60))
    assert 0 < meanwhile <= 50 * 4 * channels.OPEN_CALLS_MAX


def test_a_process_has_so_many_connections_and_leaves_room_for_others(tmp_path):
    async def both() -> list[bytes]:
        path = tmp_path / "core.sock"
        call = channels._frame({"id": 1, "token": VIEWER, "call": "who", "arguments": {}}, 1 << 20)
        async with serving(path, FixtureCore().answer):
            held = [
                await asyncio.open_unix_connection(path)
                for _ in range(channels.CONNECTIONS_MAX_OF_PROCESS + 4)
            ]
            answers = []
            for reader, writer in held:
                with suppress(OSError):
                    writer.write(call)
                    answers.append(await reader.read(4))
            for _, writer in held:
                writer.close()
            await asyncio.sleep(0)
            async with connected(path) as again:
                await again.call("who", token=VIEWER)
        return answers

    answers = asyncio.run(asyncio.wait_for(both(), 20))
    assert sum(bool(its) for its in answers) == channels.CONNECTIONS_MAX_OF_PROCESS


def test_no_service_is_said_with_where_it_was_sought(tmp_path):
    async def ask() -> None:
        async with connected(tmp_path / "none"):
            pass

    with pytest.raises(CallRefused, match="none: no service answers"):
        asyncio.run(ask())


def test_the_socket_is_its_owners_alone_unless_a_group_may_connect(tmp_path):
    async def made(group: int | None) -> tuple[int, int]:
        path = tmp_path / "core.sock"
        async with serving(path, FixtureCore().answer, group):
            of = path.stat()
            return of.st_mode & 0o777, of.st_gid

    other = next((each for each in os.getgroups() if each != os.getgid()), os.getgid())
    assert asyncio.run(made(None)) == (0o600, os.getgid())
    assert asyncio.run(made(other)) == (0o660, other)
