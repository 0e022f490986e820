"""Octets between a client's channel and the process of its session."""

from __future__ import annotations

import asyncio
import socket

import pytest

from agent.netconfd.front.relay import READ_OCTETS, Left, relay


class Channel:
    """A client in memory."""

    def __init__(self):
        self.requests = asyncio.Queue()
        self.pieces = []
        self.reads = 0
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.gone = asyncio.Event()

    @property
    def is_gone(self):
        return self.gone.is_set()

    async def read(self):
        self.reads += 1
        request = await self.requests.get()
        if isinstance(request, Exception):
            raise request
        return request

    async def write(self, data):
        self.pieces.append(data)
        await self.may_write.wait()

    async def wait_gone(self):
        await self.gone.wait()

    @property
    def answers(self):
        return b"".join(self.pieces)


class Relay:
    """A relay that runs, its channel, and the socket of its session."""

    async def __aenter__(self):
        self.channel = Channel()
        self._near, self.session = socket.socketpair()
        self._near.setblocking(False)
        self.session.setblocking(False)
        self.task = asyncio.create_task(relay(self.channel, self._near))
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.wait((self.task,))
        self._near.close()
        self.session.close()

    async def request(self, octets):
        self.channel.requests.put_nowait(octets)
        return await self.read()

    async def read(self):
        return await asyncio.get_running_loop().sock_recv(self.session, READ_OCTETS)

    async def until_readable(self):
        """Until there is something for the session to read; it stays there."""
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self.session, readable.set_result, None)
        await readable
        loop.remove_reader(self.session)

    async def fill(self):
        """Send until no more is taken; returns how many octets were."""
        sent = 0
        quiet_turns = 0
        while quiet_turns < 10:
            try:
                sent += self.session.send(bytes(READ_OCTETS))
                quiet_turns = 0
            except BlockingIOError:
                quiet_turns += 1
            await asyncio.sleep(0)
        return sent


def run(test):
    async def bounded():
        async with asyncio.timeout(30), Relay() as relayed:
            await test(relayed)

    asyncio.run(bounded())


def test_requests_and_replies_pass_unchanged_and_the_last_ones_before_the_end():
    async def test(relayed):
        assert await relayed.request(b"request \x00\xff") == b"request \x00\xff"
        reply = bytes(range(256)) * 4096
        await asyncio.get_running_loop().sock_sendall(relayed.session, reply)
        relayed.session.close()
        assert await relayed.task is Left.SESSION
        assert relayed.channel.answers == reply

    run(test)


def test_the_session_reads_the_end_of_the_requests_and_still_answers():
    async def test(relayed):
        assert await relayed.request(b"last") == b"last"
        assert await relayed.request(b"") == b""
        relayed.session.send(b"reply")
        relayed.session.close()
        assert await relayed.task is Left.SESSION
        assert relayed.channel.answers == b"reply"

    run(test)


def test_a_lost_connection_ends_the_relay_while_the_session_computes():
    async def test(relayed):
        relayed.channel.requests.put_nowait(b"compute")
        relayed.channel.gone.set()
        assert await relayed.task is Left.CLIENT

    run(test)


def test_a_connection_that_is_lost_after_the_last_request_ends_the_relay():
    async def test(relayed):
        assert await relayed.request(b"") == b""
        relayed.channel.gone.set()
        assert await relayed.task is Left.CLIENT

    run(test)


def test_a_lost_connection_is_not_the_end_of_the_requests():
    async def test(relayed):
        await asyncio.sleep(0)
        relayed.channel.gone.set()
        relayed.channel.requests.put_nowait(b"")
        assert await relayed.task is Left.CLIENT
        with pytest.raises(BlockingIOError):
            relayed.session.recv(1)

    run(test)


def test_no_more_than_one_piece_is_held_for_a_client_that_does_not_read():
    async def test(relayed):
        relayed.channel.may_write.clear()
        await relayed.fill()
        assert [len(piece) <= READ_OCTETS for piece in relayed.channel.pieces] == [True]
        before = relayed.channel.answers
        # When it reads again, it goes on.
        relayed.channel.may_write.set()
        relayed.session.setblocking(True)
        relayed.session.shutdown(socket.SHUT_WR)
        assert await relayed.task is Left.SESSION
        assert len(relayed.channel.answers) > len(before)

    run(test)


def test_no_more_than_one_piece_is_held_for_a_session_that_does_not_read():
    async def test(relayed):
        channel = relayed.channel
        for _ in range(100):
            channel.requests.put_nowait(bytes(READ_OCTETS))
        reads = -1
        while channel.reads != reads:
            reads = channel.reads
            for _ in range(10):
                await asyncio.sleep(0)
        # What is not read is in the socket, and one piece on its way there.
        held = relayed.session.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert reads * READ_OCTETS <= held + 2 * READ_OCTETS

    run(test)


def test_what_a_session_said_before_it_crashed_reaches_the_client():
    async def test(relayed):
        relayed.channel.requests.put_nowait(b"a request that it does not read")
        relayed.session.send(b"its last words")
        await relayed.until_readable()
        # With octets unread, the other end is reset.
        relayed.session.close()
        assert await relayed.task is Left.SESSION
        assert relayed.channel.answers == b"its last words"

    run(test)


def test_a_defect_of_the_channel_is_not_hidden():
    async def test(relayed):
        relayed.channel.requests.put_nowait(RuntimeError("a defect"))
        with pytest.raises(RuntimeError, match="a defect"):
            await relayed.task

    run(test)
