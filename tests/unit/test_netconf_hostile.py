"""What a hostile host, or a switch gone bad, can do to the controller: little, and not for long."""

from __future__ import annotations

import pytest

from cnc.netconf import ConnectOptions
from cnc.netconf.device import Device, DeviceError, Managed
from tests.unit.strange_switch import key_of, line, speaking, strange_switch

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
