"""Call Home (RFC 8071): the switch connects to us, and we are the NETCONF client on it."""

from __future__ import annotations

import asyncio

import asyncssh
import pytest

from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconfd_process import NetconfdProcess
from tests.stack.test_netconfd_access import CLOSE, END, HELLO_1_0

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
SERVER = "urn:tsn-control-plane:yang:tsn-netconf-server"


@pytest.fixture
def netconfd_process(sysrepo_repository, tmp_path):
    """A server that is not started yet; stopped at the end."""
    server = NetconfdProcess(tmp_path / "netconfd")
    # Its first start makes the host key, which the waiting client must know.
    server.start()
    server.stop()
    yield server
    if server.alive:
        server.stop()


class Waiting:
    """A client that waits to be called, and checks the host key of whoever calls."""

    def __init__(self, server, address="127.0.0.1"):
        self._server = server
        self.address = address
        self._calls = asyncio.Queue()

    async def __aenter__(self):
        server = self._server
        host_key = asyncssh.import_public_key(f"{server.host_key_type} {server.host_key_b64}")
        self._listener = await asyncssh.listen_reverse(
            self.address,
            0,
            username="operator",
            client_keys=[str(server.client_key)],
            known_hosts=([host_key], [], []),
            acceptor=self._calls.put_nowait,
            config=None,
        )
        self.port = self._listener.get_port()
        return self

    async def __aexit__(self, *_):
        self._listener.close()

    async def call(self):
        """The next connection that the switch makes."""
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            return await self._calls.get()


async def speak(connection):
    """Hold a whole session; what the switch says."""
    writer, reader, _ = await connection.open_session(subsystem="netconf", encoding=None)
    async with asyncio.timeout(REPLY_TIMEOUT_S):
        hello = await reader.readuntil(END)
        writer.write(HELLO_1_0 + CLOSE.encode() + END)
        return hello + await reader.read()


def test_the_switch_calls_and_calls_again_when_the_connection_ends(netconfd_process):
    async def scenario():
        async with Waiting(netconfd_process) as waiting:
            netconfd_process.arguments = ["--call-home", f"127.0.0.1:{waiting.port}"]
            await asyncio.to_thread(netconfd_process.start)
            said = []
            for _ in range(2):
                connection = await waiting.call()
                said.append(await speak(connection))
                connection.close()
            return said

    for said in asyncio.run(scenario()):
        assert b"session-id" in said
        assert b"<ok/>" in said


def test_a_client_in_the_configuration_is_called_until_it_is_taken_out(netconfd_process):
    async def scenario():
        async with Waiting(netconfd_process) as waiting:
            await asyncio.to_thread(netconfd_process.start)
            await asyncio.to_thread(configure, f"<port>{waiting.port}</port>")
            connection = await waiting.call()
            assert b"<ok/>" in await speak(connection)
            await asyncio.to_thread(configure, None)
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                await connection.wait_closed()

    def configure(port):
        operation = "" if port else ' nc:operation="delete"'
        content = f"<address>127.0.0.1</address>{port}" if port else ""
        with netconfd_process.connect() as client:
            client.edit_config(
                target="candidate",
                config=f'<config xmlns="{BASE}" xmlns:nc="{BASE}"><netconf-server xmlns="{SERVER}">'
                f"<call-home><client{operation}><name>us</name>{content}</client></call-home>"
                "</netconf-server></config>",
            )
            client.commit()

    asyncio.run(scenario())


def test_a_client_that_is_not_there_is_called_again_and_holds_up_nobody(netconfd_process):
    async def scenario():
        async with Waiting(netconfd_process) as waiting:
            port = waiting.port
        # now nobody listens there
        netconfd_process.arguments = ["--call-home", f"127.0.0.1:{port}"]
        await asyncio.to_thread(netconfd_process.start)

    asyncio.run(scenario())
    with netconfd_process.connect() as client:
        assert client.get_config("running").ok
    assert "cannot call 127.0.0.1 port" in netconfd_process.log
    assert "again in 1 s" in netconfd_process.log
