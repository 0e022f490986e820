"""The relay over SSH: what a client does, and what its session sees of it."""

from __future__ import annotations

import asyncio
import socket

import asyncssh
import pytest

from agent.netconfd.front.relay import Left, relay
from agent.netconfd.front.ssh import SshTransport

KEY = asyncssh.generate_private_key("ssh-ed25519")


class AnyUser(asyncssh.SSHServer):
    """Nobody needs to log in. What is opened goes to a queue."""

    def __init__(self, opened):
        self._opened = opened

    def connection_made(self, conn):
        self._connection = conn

    def begin_auth(self, username):
        return False

    def session_requested(self):
        channel = self._connection.create_server_channel(encoding=None)
        return channel, asyncssh.SSHServerProcess(self._serve, None, 0, False)

    async def _serve(self, process):
        near, far = socket.socketpair()
        near.setblocking(False)
        with near:
            transport = SshTransport(
                process, self._connection, on_accept=lambda _: None, on_offence=lambda _: None
            )
            left = asyncio.create_task(relay(transport, near))
            self._opened.put_nowait((far, transport, left))
            await asyncio.wait((left,))
        process.exit(0)


def run(test):
    """Over one connection with one channel.

    `test` gets the client's connection and channel, the session's socket, the transport, who left.
    """

    async def connected():
        opened = asyncio.Queue()
        server = await asyncssh.listen(
            "127.0.0.1", 0, server_factory=lambda: AnyUser(opened), server_host_keys=[KEY]
        )
        async with (
            asyncio.timeout(30),
            server,
            asyncssh.connect(
                "127.0.0.1", server.get_port(), known_hosts=None, username="x", config=None
            ) as connection,
        ):
            channel = await connection.create_process(subsystem="netconf", encoding=None)
            session, transport, left = await opened.get()
            session.setblocking(False)
            with session:
                await test(connection, channel, session, transport, left)

    asyncio.run(connected())


async def received(session):
    return await asyncio.get_running_loop().sock_recv(session, 1000)


def test_a_client_that_sends_no_more_gets_its_answer_whole():
    answer = bytes(range(256)) * 4096

    async def test(connection, channel, session, transport, left):
        channel.stdin.write(b"request")
        channel.stdin.write_eof()
        assert await received(session) == b"request"
        assert await received(session) == b""
        reading = asyncio.create_task(channel.stdout.read())
        await asyncio.get_running_loop().sock_sendall(session, answer)
        session.close()
        assert await reading == answer
        assert await left is Left.SESSION
        assert (await channel.wait()).exit_status == 0

    run(test)


@pytest.mark.parametrize("way", ["lost connection", "closed channel", "closed by the server"])
def test_a_client_that_is_gone_is_noticed_while_its_session_computes(way):
    async def test(connection, channel, session, transport, left):
        channel.stdin.write(b"compute")
        assert await received(session) == b"compute"
        if way == "lost connection":
            connection.abort()
        elif way == "closed channel":
            channel.close()
        else:
            transport.close()
        assert await left is Left.CLIENT
        assert transport.is_gone

    run(test)
