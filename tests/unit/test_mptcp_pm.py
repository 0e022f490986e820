"""The octets of path manager requests against linux/mptcp_pm.h, written out by hand."""

from __future__ import annotations

import socket
import struct

import pytest

from agent.kernel import mptcp_pm
from agent.kernel.mptcp_pm import Endpoint, Limits, MptcpPm

NESTED = 0x8000
ADD_ADDR, DEL_ADDR, GET_ADDR, SET_LIMITS, SET_FLAGS = 1, 2, 3, 5, 7
SUBFLOW, BACKUP, FULLMESH = 2, 4, 8


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
