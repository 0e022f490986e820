"""What a hostile host, or a switch gone bad, can do to the controller: little, and not for long."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from contextlib import suppress

import asyncssh
import paramiko
import pytest

from cnc.rollout.sessions import Sessions
from cnc.switch import ConnectOptions
from cnc.switch.device import Device, DeviceError, LoginRefused, Managed
from cnc.switch.framing import Decoder
from tests.unit.strange_switch import HELLO, key_of, line, speaking, strange_switch

TIMEOUT_S = 0.2
# In these words, because libraries give up as well: in others, after 15 s or never.
GIVEN_UP = r"cannot reach the NETCONF server .*: no NETCONF session within 0\.2 s"


def options(tmp_path, port):
    """What reaches a host on loopback that may be anything."""
    key_of("ssh-ed25519").write_private_key(str(tmp_path / "identity"))
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {line(key_of('ssh-ed25519'))}")
    return ConnectOptions(tmp_path / "identity", tmp_path / "known_hosts", TIMEOUT_S)


# SSH_MSG_IGNORE with an empty string, RFC 4253 6 and 11.2.
IGNORED = b"\0\0\0\x0c\x06\x02" + bytes(10)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b""),
        (b"", b"x" * 4096),
        (b"", b"x\n" * 20),
        (b"SSH-2.0-x\r\n", b""),
        (b"SSH-2.0-x\r\n", IGNORED),
    ],
    ids=["nothing", "line without end", "lines", "identification only", "messages to ignore"],
)
def test_a_host_that_does_not_get_to_a_session_is_given_up_after_the_timeout(first, then, tmp_path):
    with speaking(first, then) as management, pytest.raises(DeviceError, match=GIVEN_UP):
        Device(Managed("s1", management), options(tmp_path, management.port))


def test_a_switch_that_never_ends_its_hello_is_given_up_after_the_timeout(tmp_path):
    with (
        strange_switch(tmp_path, hello="<hello>", end_of_message=b"") as switch,
        pytest.raises(DeviceError, match=GIVEN_UP),
    ):
        Device(switch.managed, switch.options(TIMEOUT_S))


class Busy(asyncssh.SSHServer):
    """A server that has no time for a login within its time-out, and hangs up."""

    def __init__(self, how):
        self._how = how

    def connection_made(self, conn):
        self._connection = conn

    async def begin_auth(self, _username):
        self._how(self._connection)
        await asyncio.sleep(3600)


@pytest.mark.parametrize(
    "how",
    [
        lambda connection: connection.abort(),
        lambda connection: connection.disconnect(asyncssh.DISC_BY_APPLICATION, "timeout"),
    ],
    ids=["at once", "with a message"],
)
def test_a_server_that_hangs_up_during_the_login_has_not_refused_the_key(how, tmp_path):
    with (
        strange_switch(tmp_path, server_factory=lambda: Busy(how)) as switch,
        pytest.raises(DeviceError, match="ended the connection before it answered") as ended,
    ):
        Device(switch.managed, switch.options())
    assert not isinstance(ended.value, LoginRefused)
    assert "hello-timeout" in ended.value.hint


def test_a_key_that_the_server_does_not_know_is_refused(tmp_path):
    with strange_switch(tmp_path) as switch:
        # Not of ECDSA: paramiko reads two thirds of those that asyncssh writes for another curve.
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(switch.identity))
        with pytest.raises(LoginRefused, match="does not accept the key"):
            Device(switch.managed, switch.options())


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
BOMB = f'<!DOCTYPE bomb [<!ENTITY e0 "{"x" * 100}">{ENTITIES}]>'


@pytest.mark.parametrize(
    "hello",
    [
        BOMB + HELLO.replace("7</", "&e11;</"),
        HELLO.replace("</hello>", ""),
        HELLO.replace("urn:ietf:params:netconf:base:1.0", ""),
        HELLO.replace("urn:ietf:params:netconf:base:1.0", "<x/>"),
    ],
    ids=["entity bomb", "cut short", "empty capability", "element as capability"],
)
def test_a_hello_that_cannot_be_read_is_told_in_words(hello, tmp_path):
    with (
        strange_switch(tmp_path, hello=hello) as switch,
        pytest.raises(DeviceError, match=r"cannot reach .*: its <hello> cannot be read: "),
    ):
        Device(switch.managed, switch.options())


def test_a_new_session_in_the_place_of_a_broken_one_meets_an_unreadable_hello_in_words(tmp_path):
    with strange_switch(tmp_path) as switch:
        opened = Sessions([switch.managed], switch.options())
        opened.open()
        switch.hello = BOMB + HELLO.replace("7</", "&e11;</")
        with pytest.raises(DeviceError, match="its <hello> cannot be read"):
            opened.renew("s1", 10.0)
        opened.close()


def test_of_a_host_that_speaks_no_ssh_the_controller_says_so_without_a_traceback(tmp_path):
    with speaking(b"", b"HTTP/1.1 400 Bad Request\r\n" * 20) as management:
        connect = options(tmp_path, management.port)
        told = subprocess.run(
            [
                *(sys.executable, "-m", "cnc", "discover", f"127.0.0.1:{management.port}"),
                *("--identity", connect.identity, "--known-hosts", connect.known_hosts),
            ],
            capture_output=True,
            text=True,
            check=False,
        ).stderr
    assert "cannot reach the NETCONF server" in told
    assert "Indecipherable protocol version" in told
    assert "Traceback" not in told
    assert "Exception (client)" not in told


def test_what_ended_an_attempt_at_a_session_is_logged_for_vv(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "cnc")
    with (
        speaking(b"", b"HTTP/1.1 400 Bad Request\r\n" * 20) as management,
        pytest.raises(DeviceError),
    ):
        Device(Managed("s1", management), options(tmp_path, management.port))
    assert f"127.0.0.1 port {management.port}: no session: SSHException(" in caplog.text


ERROR = (
    "<rpc-error><error-type>application</error-type><error-tag>operation-failed</error-tag>"
    "<error-severity>error</error-severity><error-message>{}</error-message></rpc-error>"
)


def test_of_thousands_of_errors_in_a_reply_the_first_hundred_are_read(tmp_path):
    reply = "".join(ERROR.format(f"no {number}") for number in range(5000))
    with (
        strange_switch(tmp_path, answer=lambda _: reply) as switch,
        Device(switch.managed, switch.options()) as device,
        pytest.raises(DeviceError) as refused,
    ):
        device.lock("running")
    first, *others, last = refused.value.reason.splitlines()
    assert (first, others[-1], len(others)) == ("no 0", "no 99", 99)
    assert last == "and more errors than these 100"
    assert len(refused.value.__cause__.errlist) < 110  # ncclient never saw the others


def test_a_hundred_errors_of_a_reply_are_all_told(tmp_path):
    reply = "".join(ERROR.format(f"no {number}") for number in range(100))
    with (
        strange_switch(tmp_path, answer=lambda _: reply) as switch,
        Device(switch.managed, switch.options()) as device,
        pytest.raises(DeviceError) as refused,
    ):
        device.lock("running")
    assert refused.value.reason.splitlines() == [f"no {number}" for number in range(100)]


def test_of_an_error_text_of_any_length_the_beginning_is_told(tmp_path):
    with (
        strange_switch(tmp_path, answer=lambda _: ERROR.format("x" * 100_000)) as switch,
        Device(switch.managed, switch.options()) as device,
        pytest.raises(DeviceError) as refused,
    ):
        device.lock("running")
    assert refused.value.reason == f"{'x' * 4000}… (100000 characters)"


def test_a_reply_that_does_not_end_is_given_up_when_it_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr("cnc.switch.framing.MESSAGE_MAX_OCTETS", 50_000)
    with (
        strange_switch(tmp_path, answer=lambda _: "x" * 100_000) as switch,
        Device(switch.managed, switch.options()) as device,
    ):
        with pytest.raises(DeviceError, match="lock running failed: a message of more than 50000 "):
            device.lock("running")
        device.abandon()


def test_what_it_takes_to_cut_out_a_message_grows_with_its_length_alone():
    octets = 16_000_000
    framed = b"\n#%d\n%b\n##\n" % (octets, b"x" * octets)
    messages = []
    begun_s = time.process_time()
    decoder = Decoder()
    for start in range(0, len(framed), 4096):
        decoder.feed(framed[start : start + 4096])
        messages.append(decoder.next_message(chunked=True))
    assert len(messages.pop()) == octets
    assert not any(messages)
    # It takes a hundredth of that; ncclient's own, which reads all again with each piece, 16 s.
    assert time.process_time() - begun_s < 2


QUESTIONS = {
    "get-config": lambda device: device.stored(["p1"]),
    "get": lambda device: device.topology(),
    "lock running": lambda device: device.lock("running"),
}
STRANGE_REPLIES = ["<ok/>", "", "text", "<data/>", "<data>&e;</data>", "<rpc-error/>", "<data"]


@pytest.mark.parametrize("what", QUESTIONS)
@pytest.mark.parametrize("reply", STRANGE_REPLIES)
def test_a_strange_reply_is_an_answer_or_an_error_in_words(reply, what, tmp_path):
    with (
        strange_switch(tmp_path, answer=lambda _: reply) as switch,
        Device(switch.managed, switch.options()) as device,
        suppress(DeviceError),
    ):
        QUESTIONS[what](device)


def test_a_reply_without_data_is_told_as_such(tmp_path):
    with (
        strange_switch(tmp_path) as switch,
        Device(switch.managed, switch.options()) as device,
        pytest.raises(DeviceError, match="unexpected reply to get-config: it has no <data>"),
    ):
        device.rollout_id()


@pytest.mark.parametrize("broken", [paramiko.SSHException("no new keys"), EOFError()])
def test_a_session_that_breaks_while_it_sends_is_an_error_of_the_switch(
    broken, tmp_path, monkeypatch
):
    with (
        strange_switch(tmp_path) as switch,
        Device(switch.managed, switch.options()) as device,
    ):

        def send(*_):
            raise broken

        monkeypatch.setattr(paramiko.Channel, "sendall", send)
        with pytest.raises(DeviceError, match="lock running failed: "):
            device.lock("running")
