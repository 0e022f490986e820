"""The octets of path manager requests against linux/mptcp_pm.h, written out by hand."""

from __future__ import annotations

import socket
import struct

import pytest

from agent.kernel import mptcp_pm
from agent.kernel.mptcp_events import EventKind, MptcpEvent, decoded
from agent.kernel.mptcp_pm import Endpoint, Limits, MptcpPm

NESTED = 0x8000
ADD_ADDR, DEL_ADDR, GET_ADDR, SET_LIMITS, SET_FLAGS = 1, 2, 3, 5, 7
ANNOUNCE, REMOVE, SUBFLOW_CREATE, SUBFLOW_DESTROY = 8, 9, 10, 11
SIGNAL, SUBFLOW, BACKUP, FULLMESH = 1, 2, 4, 8


class Sent:
    """The socket, as far as requests go."""

    prid = 0

    def __init__(self):
        self.octets = b""

    def bind(self, _name, _message):
        """Finds the family."""

    def nlm_request(self, message, **_):
        message.encode()
        self.octets = bytes(message.data[16 : message["header"]["length"]])  # behind nlmsghdr
        return []


@pytest.fixture
def sent(monkeypatch):
    sent = Sent()
    monkeypatch.setattr(mptcp_pm, "GenericNetlinkSocket", lambda **_: sent)
    return sent


def attribute(number, payload):
    return struct.pack("=HH", 4 + len(payload), number) + payload + b"\0" * (-len(payload) % 4)


def request(command, *attributes):
    return struct.pack("=BBxx", command, 1) + b"".join(attributes)


def address(*attributes):
    return attribute(1 | NESTED, b"".join(attributes))


IPV4 = attribute(1, struct.pack("=H", socket.AF_INET)) + attribute(3, bytes([10, 1, 0, 2]))


def flags(bits):
    return attribute(6, struct.pack("=I", bits))


def test_an_endpoint_is_added_with_its_flags_and_its_interface(sent):
    MptcpPm().add(Endpoint("10.1.0.2", frozenset({"subflow", "fullmesh"}), ifindex=7))
    ifindex = attribute(7, struct.pack("=i", 7))
    assert sent.octets == request(ADD_ADDR, address(IPV4, flags(SUBFLOW | FULLMESH), ifindex))


def test_an_address_of_ipv6_has_sixteen_octets(sent):
    MptcpPm().add(Endpoint("fd00::1", frozenset()))
    family = attribute(1, struct.pack("=H", socket.AF_INET6))
    octets = attribute(4, socket.inet_pton(socket.AF_INET6, "fd00::1"))
    assert sent.octets == request(ADD_ADDR, address(family, octets, flags(0)))


@pytest.mark.parametrize(("method", "command"), [("change", SET_FLAGS), ("delete", DEL_ADDR)])
def test_what_exists_is_named_by_its_id_and_its_address(sent, method, command):
    getattr(MptcpPm(), method)(Endpoint("10.1.0.2", frozenset({"subflow", "backup"}), id=3))
    identity = attribute(2, b"\3")
    assert sent.octets == request(command, address(IPV4, flags(SUBFLOW | BACKUP), identity))


def test_limits_are_two_words(sent):
    MptcpPm().set_limits(Limits(subflows=4, add_addr_accepted=3))
    subflows, accepted = attribute(3, struct.pack("=I", 4)), attribute(2, struct.pack("=I", 3))
    assert sent.octets == request(SET_LIMITS, subflows, accepted)


TOKEN = attribute(4, struct.pack("=I", 0x89DF40B3))
SERVER = attribute(1, struct.pack("=H", socket.AF_INET)) + attribute(3, bytes([10, 1, 0, 1]))


def port(number):
    return attribute(5, struct.pack("=H", number))


@pytest.mark.parametrize(
    ("method", "command"),
    [
        ("create_subflow", SUBFLOW_CREATE),
        ("destroy_subflow", SUBFLOW_DESTROY),
        ("set_backup", SET_FLAGS),
    ],
)
def test_a_subflow_is_named_by_the_token_of_its_connection_and_both_ends(sent, method, command):
    local = Endpoint("10.1.0.2", frozenset({"backup"}), id=3, port=4711)
    getattr(MptcpPm(), method)(0x89DF40B3, local, Endpoint("10.1.0.1", port=5201))
    near = address(IPV4, flags(BACKUP), attribute(2, b"\3"), port(4711))
    far = attribute(6 | NESTED, SERVER + flags(0) + port(5201))
    assert sent.octets == request(command, TOKEN, near, far)


def test_the_peer_is_told_of_an_address_and_that_it_goes(sent):
    MptcpPm().announce(0x89DF40B3, Endpoint("10.1.0.2", frozenset({"signal"}), id=3))
    told = address(IPV4, flags(SIGNAL), attribute(2, b"\3"))
    assert sent.octets == request(ANNOUNCE, TOKEN, told)
    MptcpPm().withdraw(0x89DF40B3, 3)
    assert sent.octets == request(REMOVE, TOKEN, attribute(5, b"\3"))


def event(kind, *attributes):
    content = struct.pack("=BBxx", kind, 1) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(content), 30, 0, 0, 0) + content


def test_events_are_read_with_what_they_bear_and_those_of_listeners_passed_over():
    token = attribute(1, struct.pack("=I", 7))
    ends = attribute(5, bytes([10, 2, 0, 2])) + attribute(7, bytes([10, 1, 0, 1]))
    reason = attribute(10, struct.pack(">H", 5201)) + attribute(12, b"o")
    closed = event(11, token, ends, reason)
    announced = event(6, token, attribute(4, b"\2"), attribute(7, bytes([10, 2, 0, 1])))
    assert list(decoded(closed + event(15, token) + announced)) == [
        MptcpEvent(EventKind.SUBFLOW_CLOSED, 7, "10.2.0.2", "10.1.0.1", 5201, error=ord("o")),
        MptcpEvent(EventKind.ANNOUNCED, 7, remote="10.2.0.1", remote_id=2),
    ]
