"""What one client may take of the server while others are served: sessions, memory, time."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import AsyncExitStack, ExitStack, contextmanager

import asyncssh
import pytest
import sysrepo
from ncclient.operations import RPCError
from ncclient.transport.errors import SessionCloseError, SSHError

from agent.netconfd.session.framing import encode
from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconfd_process import wait_until
from tests.stack.test_netconfd_access import END, GET, HELLO_1_0, HELLO_1_1, said_until_the_end

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
SERVER = "urn:tsn-control-plane:yang:tsn-netconf-server"
# The schema list is the largest thing a fresh server says.
GET_LARGE = f'<rpc xmlns="{BASE}" message-id="1"><get/></rpc>'
GET_AGENT_AND_SERVER = (
    f'<rpc xmlns="{BASE}" message-id="1"><get><filter><netconf-server xmlns="{SERVER}"/>'
    '<agent xmlns="urn:tsn-control-plane:yang:tsn-linux"/></filter></get></rpc>'
)
MIB = 2**20


@pytest.fixture
def good(netconfd):
    """A client with a session from before the trouble."""
    with netconfd.connect() as client:
        yield client


def set_limits(client, **limits):
    leaves = "".join(
        f"<{name.replace('_', '-')}>{value}</{name.replace('_', '-')}>"
        for name, value in limits.items()
    )
    client.edit_config(
        target="candidate",
        config=f'<config xmlns="{BASE}"><netconf-server xmlns="{SERVER}"><limits>{leaves}</limits>'
        "</netconf-server></config>",
    )
    client.commit()


def is_served(client):
    return client.get_config("running").ok


@contextmanager
def opened(netconfd, count, **options):
    with ExitStack() as stack:
        yield [stack.enter_context(netconfd.connect(**options)) for _ in range(count)]


def test_sessions_are_limited_in_all(netconfd, good):
    set_limits(good, max_sessions=3)
    with opened(netconfd, 2):
        with pytest.raises((SSHError, SessionCloseError, OSError)):
            wait_for_refusal(netconfd)
        assert "3 of 3 sessions are open" in netconfd.log
        assert is_served(good)
    assert wait_until(lambda: _opens(netconfd))


def test_sessions_are_limited_for_each_user(netconfd, good):
    set_limits(good, max_sessions_per_user=2)
    with opened(netconfd, 1):
        with pytest.raises((SSHError, SessionCloseError, OSError)):
            wait_for_refusal(netconfd)
        assert " has 2 sessions open" in netconfd.log
        netconfd.connect(username="observer").close_session()


def test_sessions_are_no_more_than_their_share_of_the_memory_holds(netconfd, good):
    set_limits(good, sessions_memory_share=1)
    hundredth_octets = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 100
    most_of_one_user = max(16, hundredth_octets // (8 * MIB)) // 2
    with opened(netconfd, most_of_one_user - 1):
        with pytest.raises((SSHError, SessionCloseError, OSError)):
            wait_for_refusal(netconfd)
        assert f"user operator has {most_of_one_user} sessions open" in netconfd.log
        assert is_served(good)


def test_the_last_sessions_are_for_those_who_may_commit(netconfd, good):
    set_limits(good, max_sessions=2)
    assert wait_until(lambda: not _opens(netconfd, username="observer"))
    assert "1 of 2 sessions are open; 1 reserved for users who may commit" in netconfd.log
    assert _opens(netconfd)
    set_limits(good, reserved_sessions=0)
    assert wait_until(lambda: _opens(netconfd, username="observer"))


def test_sessions_of_readers_and_the_many_of_one_user_yield_the_processor(netconfd):
    def nice_of_next(**options):
        """The nice value of the process of one more session."""
        before = set(netconfd.session_pids)
        sessions.enter_context(netconfd.connect(**options))
        (process,) = set(netconfd.session_pids) - before
        return os.getpriority(os.PRIO_PROCESS, process)

    # The tests may be nice themselves.
    own = os.getpriority(os.PRIO_PROCESS, netconfd.pid)
    with ExitStack() as sessions:
        assert [nice_of_next(username="observer") for _ in range(2)] == [19, 19]
        of_one_user = [min(own + further, 19) for further in (0, 5, 10, 15, 19, 19)]
        assert [nice_of_next() for _ in range(6)] == of_one_user
        assert nice_of_next(username="root") == own


def wait_for_refusal(netconfd):
    """The limit is in force soon after its commit."""
    assert wait_until(lambda: netconfd.connect().close_session() and False)


def _opens(netconfd, **options):
    try:
        netconfd.connect(**options).close_session()
    except (SSHError, SessionCloseError, OSError):
        return False
    return True


def test_connections_without_a_session_are_few_and_hinder_nobody_else(netconfd, good):
    set_limits(good, max_unauthenticated=8)
    with ExitStack() as stack:

        def connects(address):
            """Whether one more connection that says nothing is let in."""
            silent = stack.enter_context(
                socket.create_connection(
                    ("127.0.0.1", netconfd.port), REPLY_TIMEOUT_S, source_address=(address, 0)
                )
            )
            return silent.recv(4) == b"SSH-"

        assert wait_until(lambda: not connects("127.0.0.2"))
        assert is_served(good)
        # each of two addresses has its share now, and neither gets more
        while connects("127.0.0.3"):
            pass
        assert not connects("127.0.0.2")
        assert is_served(good)
        assert asyncio.run(_opens_from(netconfd, "127.0.0.1"))


def test_the_host_with_most_connections_is_dropped_at_random(netconfd, good):
    set_limits(good, unauthenticated_drop_start=1, unauthenticated_drop_rate=100)
    with ExitStack() as stack:

        def connects(address):
            silent = stack.enter_context(
                socket.create_connection(
                    ("127.0.0.1", netconfd.port), REPLY_TIMEOUT_S, source_address=(address, 0)
                )
            )
            return silent.recv(4) == b"SSH-"

        assert wait_until(lambda: not connects("127.0.0.2"))
        assert connects("127.0.0.3")
        assert not connects("127.0.0.3")
        set_limits(good, unauthenticated_drop_rate=0, unauthenticated_drop_start=100)
        assert wait_until(lambda: connects("127.0.0.3"))


def test_a_hundred_connections_of_one_address_are_let_in_at_once(netconfd):
    with ExitStack() as stack:
        connections = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", netconfd.port), REPLY_TIMEOUT_S)
            )
            for _ in range(100)
        ]
        assert [each.recv(4) for each in connections] == [b"SSH-"] * 100


async def _opens_from(netconfd, address):
    connection, reader, _ = await netconfd.connect_raw(local_addr=(address, 0))
    async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
        return (await reader.readuntil(END)).endswith(END)


@pytest.mark.parametrize("octets", [b"", b"SSH-2.0-x\r\n", b"S" * 300])
def test_who_does_not_log_in_is_hung_up_on(netconfd, good, octets):
    set_limits(good, hello_timeout=1)

    def hangs_up():
        with socket.create_connection(("127.0.0.1", netconfd.port), REPLY_TIMEOUT_S) as silent:
            silent.sendall(octets)
            while silent.recv(4096):
                pass
            return True

    assert hangs_up()
    assert is_served(good)


def test_who_says_no_hello_is_hung_up_on(netconfd, good):
    set_limits(good, hello_timeout=1)
    assert said_until_the_end(netconfd) == b""
    assert wait_until(lambda: "no hello within 1 s" in netconfd.log)
    # one octet at a time is no hello either
    assert said_until_the_end(netconfd, b"<", b"h", b"e") == b""


def test_a_login_without_a_session_is_hung_up_on(netconfd, good):
    set_limits(good, hello_timeout=1)

    async def only_log_in():
        connection = await netconfd.log_in()
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            await connection.open_session(encoding=None)  # a channel, and nothing on it
            await connection.wait_closed()

    asyncio.run(only_log_in())
    assert is_served(good)


def test_channels_of_one_connection_are_limited(netconfd, good):
    async def open_many():
        connection = await netconfd.log_in()
        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            for count in range(100):
                try:
                    await connection.open_session(subsystem="netconf", encoding=None)
                except asyncssh.ChannelOpenError as error:
                    return count, error.code
        return None

    assert asyncio.run(open_many()) == (16, asyncssh.OPEN_RESOURCE_SHORTAGE)
    assert is_served(good)


def test_a_confirm_timeout_is_no_longer_than_configured(netconfd, good):
    with pytest.raises(RPCError, match="at most 3600 s") as refusal:
        good.commit(confirmed=True, timeout="3601")
    assert refusal.value.tag == "invalid-value"
    set_limits(good, max_confirm_timeout=5)
    with pytest.raises(RPCError, match="at most 5 s"):
        good.commit(confirmed=True, timeout="6")
    # what a commit without a timeout has is no longer either
    good.commit(confirmed=True, persist="nobody knows")
    with netconfd.connect() as other:
        assert wait_until(lambda: commits(other), timeout_s=30)


def commits(client):
    try:
        return client.commit().ok
    except RPCError:
        return False


def test_an_idle_session_ends_but_not_one_that_listens(netconfd, good):
    idle, listening = netconfd.connect(), netconfd.connect()
    listening.create_subscription()
    set_limits(good, idle_timeout=1)
    # limits hold for what opens after them
    late = netconfd.connect()
    late_listening = netconfd.connect()
    late_listening.create_subscription()
    assert wait_until(lambda: not late.connected)
    assert "no request within 1 s" in netconfd.log
    for client in (idle, listening, late_listening):
        assert client.connected
        client.close_session()


def test_a_message_that_never_ends_ends_its_session(netconfd, good):
    async def flood():
        connection, reader, writer = await netconfd.connect_raw()
        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            await reader.readuntil(END)
            writer.write(HELLO_1_0)
            while True:
                writer.write(b"<" * 65_536)
                await writer.drain()

    with pytest.raises((OSError, asyncssh.Error)):
        asyncio.run(flood())
    assert "a message longer than 4194304 octets" in netconfd.log
    assert is_served(good)


def test_many_unfinished_messages_take_bounded_memory(netconfd, good):
    set_limits(good, max_messages_held=4 * MIB)
    before_mib = netconfd.private_octets / MIB

    async def stuff(count):
        async with AsyncExitStack() as stack:
            for _ in range(count):
                connection, reader, writer = await netconfd.connect_raw()
                await stack.enter_async_context(connection)
                await reader.readuntil(END)
                writer.write(HELLO_1_1)
                writer.write(b"\n#%d\n" % (4 * MIB - 1))
                writer.write(b"<" * (3 * MIB))
            assert await asyncio.to_thread(is_served, good)
            return await asyncio.to_thread(
                wait_until, lambda: netconfd.log.count("exceed 4194304 octets") == count - 1
            )

    assert asyncio.run(stuff(20))
    assert netconfd.private_octets / MIB - before_mib < 60
    # the room is free again
    body = f"<rpc xmlns='{BASE}' message-id='1'><get/><!--{' ' * 3 * MIB}--></rpc>".encode()
    close = f"<rpc xmlns='{BASE}' message-id='2'><close-session/></rpc>".encode()
    said = said_until_the_end(
        netconfd, HELLO_1_1, encode(body, chunked=True), encode(close, chunked=True)
    )
    assert said.count(b"\n##\n") == 2


@pytest.mark.parametrize("piece", ["<a/>", "<a b='' c='' d=''/>"])
def test_a_message_of_nothing_but_markup_takes_bounded_memory(netconfd, good, piece):
    before_mib = netconfd.private_octets / MIB
    markup = piece * (4_190_000 // len(piece))
    bomb = f'<rpc xmlns="{BASE}" message-id="1"><edit-config>{markup}</edit-config></rpc>'
    close = f'<rpc xmlns="{BASE}" message-id="2"><close-session/></rpc>'
    said = said_until_the_end(
        netconfd, HELLO_1_1, *(encode(each.encode(), chunked=True) for each in (bomb, close))
    )
    assert b"<error-tag>too-big</error-tag>" in said
    assert netconfd.private_octets / MIB - before_mib < 60
    assert is_served(good)


def test_a_client_that_never_reads_blocks_nobody_and_takes_bounded_memory(netconfd, good):
    async def ask_and_never_read():
        connection, reader, writer = await netconfd.connect_raw()
        async with connection:
            await reader.readuntil(END)
            writer.channel.pause_reading()
            writer.write(HELLO_1_0)
            before_mib = netconfd.private_octets / MIB
            for _ in range(40_000):
                writer.write(GET_LARGE.encode() + END)
            # its requests pile up at the client: the server reads no more of them
            for _ in range(5):
                assert await asyncio.to_thread(is_served, good)
            assert writer.channel.get_write_buffer_size() > 0
            assert netconfd.private_octets / MIB - before_mib < 60

    asyncio.run(ask_and_never_read())
    assert wait_until(lambda: "the transport closed" in netconfd.log)


def test_a_hundred_requests_in_one_breath_are_answered_in_order(netconfd, good):
    requests = [GET.replace('"1"', f'"{number}"').encode() + END for number in range(100)]
    close = f'<rpc xmlns="{BASE}" message-id="100"><close-session/></rpc>'.encode() + END
    said = said_until_the_end(netconfd, HELLO_1_0, b"".join(requests) + close).split(END)
    assert len(said) == 102
    assert all(f'message-id="{number}"'.encode() in said[number] for number in range(101))
    assert is_served(good)


def test_a_hundred_sessions_that_read_at_once_are_all_answered(netconfd, good):
    """Each holds what it read of running, and several of sysrepo's locks, while it reads state."""
    set_limits(good, idle_timeout=77)
    is_first = iter([True])

    def answer(_xpath, _private):
        # the agent has other things to do while they all arrive
        time.sleep(1 if next(is_first, False) else 0)
        return {"agent": {"pid": 7}}

    async def read(writer, reader, _errors):
        await reader.readuntil(END)
        writer.write(HELLO_1_0)
        writer.write(GET_AGENT_AND_SERVER.encode() + END)
        return await reader.readuntil(END)

    async def work():
        async with AsyncExitStack() as stack, asyncio.timeout(5 * REPLY_TIMEOUT_S):
            sessions = []
            for _ in range(10):
                connection = await stack.enter_async_context(await netconfd.log_in())
                for _ in range(10):
                    session = await connection.open_session(subsystem="netconf", encoding=None)
                    sessions.append(session)
            return await asyncio.gather(*(read(*session) for session in sessions))

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.subscribe_oper_data_request("tsn-linux", "/tsn-linux:agent", answer)
        replies = asyncio.run(work())
    assert [each for each in replies if b"<pid>7</pid>" not in each] == []
    assert len(replies) == 100
    assert is_served(good)
