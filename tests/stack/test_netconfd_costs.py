"""What one message of a client may cost the server: processor time, memory, and its life."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.netconfd.framing import encode
from tests.stack.test_netconfd_access import HELLO_1_1, said_until_the_end

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
CLOSE = f'<rpc xmlns="{BASE}" message-id="close"><close-session/></rpc>'
# Far more than these messages need, and far less than they took.
CPU_S = 1.0


def cpu_s(netconfd):
    fields = Path(f"/proc/{netconfd.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answer(netconfd, *messages, username="operator"):
    """What the server says to these messages in one session, and its processor time for that."""
    before_s = cpu_s(netconfd)
    said = said_until_the_end(
        netconfd,
        HELLO_1_1,
        *(encode(each.encode(), chunked=True) for each in (*messages, CLOSE)),
        username=username,
    )
    return said.decode(), cpu_s(netconfd) - before_s


def markup(octets, pattern):
    """The pattern with one number after the other, about so many octets together."""
    count = octets // (1 + len(pattern.format(10**5)))
    return " ".join(pattern.format(number) for number in range(count))


@pytest.mark.parametrize("pattern", ['a{}=""', 'xmlns:a{}="u"'], ids=["attributes", "namespaces"])
@pytest.mark.parametrize("kib", [48, 1900])
def test_a_user_without_rights_cannot_hold_up_the_server_by_attributes(netconfd, pattern, kib):
    many = markup(kib * 1024, pattern)
    said, taken_s = answer(
        netconfd,
        f'<rpc xmlns="{BASE}" message-id="of rpc" {many}><get/></rpc>',
        f'<rpc xmlns="{BASE}" message-id="of get"><get {many}/></rpc>',
        f'<other xmlns="{BASE}" {many}/>',
        username="nobody",
    )

    assert said.count("<error-tag>too-big</error-tag>") + said.count("malformed-message") == 3
    assert taken_s < 3 * CPU_S
