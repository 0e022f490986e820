"""Hosts that the server refuses for what they did; others are served meanwhile."""

from __future__ import annotations

import asyncio
import socket

import asyncssh
import pytest

from tests.stack.attacks import endless_query
from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconf_client import BASE
from tests.stack.netconfd_process import wait_until
from tests.stack.test_netconfd_access import END, HELLO_1_0
from tests.stack.test_netconfd_call_home import Waiting, speak
from tests.stack.test_netconfd_settings import edit

# By default, the first has no penalties.
SWITCH, OFFENDER, NEIGHBOUR = "127.0.0.1", "127.0.0.2", "127.0.0.3"


@pytest.fixture
def good(netconfd):
    """A client with a session from before the trouble."""
    with netconfd.connect() as client:
        yield client


def set_limits(client, limits):
    edit(client, f"<limits>{limits}</limits>")


def penalties(leaves):
    return f"<penalties>{leaves}</penalties>"


def is_let_in(netconfd, address):
    """Whether the server begins to speak SSH with this address."""
    with socket.create_connection(
        (netconfd.host, netconfd.port), REPLY_TIMEOUT_S, source_address=(address, 0)
    ) as connection:
        try:
            return connection.recv(4) == b"SSH-"
        except ConnectionResetError:
            return False


def log_in(netconfd, address, **options):
    async def session():
        connection, reader, _ = await netconfd.connect_raw(local_addr=(address, 0), **options)
        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            await reader.readuntil(END)

    asyncio.run(session())


def fail_to_log_in(netconfd, address):
    """With a key that nobody has; whether the server let it try."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    try:
        log_in(netconfd, address, client_keys=[key])
    except asyncssh.PermissionDenied:
        return True
    except (asyncssh.Error, OSError):
        return False
    raise AssertionError("logged in with a key that nobody has")


def test_failed_logins_close_the_door_to_their_host(netconfd, good):
    set_limits(good, penalties("<failed-login>1000</failed-login><min-penalty>500</min-penalty>"))
    assert wait_until(lambda: not fail_to_log_in(netconfd, OFFENDER))
    assert not is_let_in(netconfd, OFFENDER)
    assert is_let_in(netconfd, SWITCH)
    # Nobody has logged in from there before.
    log_in(netconfd, NEIGHBOUR)
    assert good.get_config("running").ok
    assert netconfd.log.count(f"connections from {OFFENDER} are refused for ") == 1
    assert "last offence: failed login" in netconfd.log
    # below the minimum nothing is refused
    set_limits(good, penalties("<min-penalty>2000</min-penalty><max-penalty>1500</max-penalty>"))
    assert [fail_to_log_in(netconfd, "127.0.0.4") for _ in range(5)] == [True] * 5


def test_connections_without_a_login_close_the_door_to_their_host(netconfd, good):
    set_limits(good, "<hello-timeout>1</hello-timeout>" + penalties("<no-login>1000</no-login>"))

    def is_silent_until_the_end():
        with socket.create_connection(
            (netconfd.host, netconfd.port), REPLY_TIMEOUT_S, source_address=(OFFENDER, 0)
        ) as silent:
            while silent.recv(4096):
                pass

    is_silent_until_the_end()
    assert wait_until(lambda: not is_let_in(netconfd, OFFENDER))
    assert is_let_in(netconfd, NEIGHBOUR)


def test_logins_without_any_right_close_the_door_to_their_host(netconfd, good):
    set_limits(good, penalties("<access-refused>1000</access-refused>"))

    def is_refused():
        with pytest.raises((asyncssh.Error, asyncio.IncompleteReadError, OSError)):
            log_in(netconfd, OFFENDER, username="stranger")
        return not is_let_in(netconfd, OFFENDER)

    assert wait_until(is_refused)
    assert is_let_in(netconfd, NEIGHBOUR)


def ask(netconfd, request, **options):
    """The reply to a request from the offender; None if its session ends instead."""

    async def talk():
        connection, reader, writer = await netconfd.connect_raw(
            local_addr=(OFFENDER, 0), username="observer", **options
        )
        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            await reader.readuntil(END)
            writer.write(HELLO_1_0 + request.encode() + END)
            try:
                return await reader.readuntil(END)
            except asyncio.IncompleteReadError:
                return None

    return asyncio.run(talk())


def test_a_host_whose_sessions_use_too_much_processor_time_is_refused(netconfd, good):
    limits = "<max-request-cpu>1</max-request-cpu>"
    set_limits(good, limits + penalties("<session-failure>1000</session-failure>"))
    endless = f'<rpc xmlns="{BASE}" message-id="1">{endless_query()}</rpc>'
    assert ask(netconfd, endless) is None
    assert wait_until(lambda: "used more than 1 s of CPU for a request" in netconfd.log)
    assert wait_until(lambda: not is_let_in(netconfd, OFFENDER))
    assert is_let_in(netconfd, NEIGHBOUR)


def test_a_session_gets_no_more_memory_than_is_configured(netconfd, good):
    nodes = '<a xmlns="urn:nobody"/>' * 100_000
    request = f'<rpc xmlns="{BASE}" message-id="1"><get><filter>{nodes}</filter></get></rpc>'
    assert b"<data" in ask(netconfd, request)
    set_limits(good, "<max-session-memory>16</max-session-memory>")
    assert b"<data" not in (ask(netconfd, request) or b"")
    assert good.get_config("running").ok


def test_an_exempt_network_is_not_refused(netconfd, good):
    set_limits(
        good,
        penalties("<failed-login>1000</failed-login><exempt>127.0.0.0/30</exempt>"),
    )
    assert wait_until(lambda: not fail_to_log_in(netconfd, "127.0.0.5"))
    assert is_let_in(netconfd, OFFENDER)
    assert fail_to_log_in(netconfd, OFFENDER)
    assert is_let_in(netconfd, OFFENDER)


def test_an_operator_is_not_refused_for_what_others_do_on_the_same_host(netconfd, good):
    shared, observers = "127.0.0.3", "127.0.0.4"
    log_in(netconfd, shared)
    log_in(netconfd, observers, username="observer")
    set_limits(good, penalties("<failed-login>1000</failed-login>"))
    assert wait_until(lambda: not fail_to_log_in(netconfd, OFFENDER)), "the limit is in force"
    for host in (shared, observers):
        assert fail_to_log_in(netconfd, host)
    assert not is_let_in(netconfd, observers), "an observer has no rollout to end"
    log_in(netconfd, shared)


def test_a_login_that_succeeds_is_no_offence_whatever_was_tried_before(netconfd, good):
    set_limits(good, penalties("<failed-login>1000</failed-login><no-login>1000</no-login>"))
    wrong = asyncssh.generate_private_key("ssh-ed25519")
    right = asyncssh.read_private_key(str(netconfd.client_key))
    assert wait_until(lambda: not fail_to_log_in(netconfd, NEIGHBOUR)), "the limits are in force"
    log_in(netconfd, OFFENDER, username="observer", client_keys=[wrong, right])
    assert is_let_in(netconfd, OFFENDER)


def test_a_client_is_called_whatever_its_host_has_done(netconfd, good):
    set_limits(good, penalties("<failed-login>1000</failed-login>"))
    assert wait_until(lambda: not fail_to_log_in(netconfd, OFFENDER))

    async def is_called():
        async with Waiting(netconfd, OFFENDER) as waiting:
            await asyncio.to_thread(
                edit,
                good,
                f"<call-home><client><name>c</name><address>{waiting.address}</address>"
                f"<port>{waiting.port}</port></client></call-home>",
            )
            async with await waiting.call() as connection:
                return b"<ok/>" in await speak(connection)

    assert not is_let_in(netconfd, OFFENDER)
    assert asyncio.run(is_called())
