"""What a hostile host, or a switch gone bad, can do to the controller: little, and not for long."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cnc.netconf import ConnectOptions
from cnc.netconf.device import Device, DeviceError, Managed
from cnc.netconf.sessions import Sessions
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


@pytest.mark.parametrize("option", [None, "-vv"])
def test_of_a_host_that_speaks_no_ssh_the_controller_says_what_it_is_without_a_traceback(
    option, tmp_path
):
    with speaking(b"", b"HTTP/1.1 400 Bad Request\r\n" * 20) as management:
        connect = options(tmp_path, management.port)
        told = subprocess.run(
            [
                *(sys.executable, "-m", "cnc", "discover", f"127.0.0.1:{management.port}"),
                *("--identity", connect.identity, "--known-hosts", connect.known_hosts),
                *filter(None, [option]),
            ],
            capture_output=True,
            text=True,
            check=False,
        ).stderr
    assert "cannot reach the NETCONF server" in told
    assert "Indecipherable protocol version" in told
    assert "Traceback" not in told
    assert "Exception (client)" not in told
    assert ("no session: SSHException(" in told) == (option == "-vv")
