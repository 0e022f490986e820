"""What inet_diag says of multipath TCP, against linux/inet_diag.h and linux/mptcp.h by hand."""

from __future__ import annotations

import socket
import struct

import pytest

from agent.kernel import mptcp_diag
from agent.kernel.mptcp_diag import DiagConnection, DiagSubflow, MptcpDiag
from agent.kernel.netlink_batch import Message, attribute

INFO, ULP_INFO, CGROUP_ID = 2, 19, 21
ESTABLISHED, SYN_SENT = 1, 2
MP_CAPABLE, MP_JOIN, BACKUP_LOCAL, BACKUP_REMOTE = 1 << 0, 1 << 2, 1 << 5, 1 << 4
MAPPED = bytes(10) + b"\xff\xff"


class Dumped:
    """The socket, with what it lists of each family."""

    def __init__(self, *listed):
        self.listed = listed
        self.requests = []

    def dump(self, request):
        self.requests.append(request.payload)
        return [Message(20, each) for each in self.listed if each[0] == request.payload[0]]


@pytest.fixture
def diag(monkeypatch):
    def listing(*listed):
        dumped = Dumped(*listed)
        monkeypatch.setattr(mptcp_diag, "NetlinkSocket", lambda _family: dumped)
        return MptcpDiag()

    return listing


def listed(*attributes, state=ESTABLISHED, family=socket.AF_INET, prefix=b""):
    ends = ((prefix + bytes([10, 1, 0, host])).ljust(16, b"\0") for host in (2, 1))
    fixed = struct.pack("=BBxx", family, state) + struct.pack(">HH", 40000, 5201) + b"".join(ends)
    return fixed + bytes(12) + struct.pack("=5I", 0, 0, 0, 1001, 77) + b"".join(attributes)


def mptcp_info(flags, token, received=0, acked=0):
    identity, octets = struct.pack("=II", flags, token), struct.pack("=QQ", received, acked)
    return attribute(INFO, bytes(8) + identity + bytes(48) + octets)


def subflow(flags, token=7):
    words = attribute(2, struct.pack("=I", token)) + attribute(8, struct.pack("=I", flags))
    nested = attribute(1, b"mptcp\0") + attribute(3, words + attribute(10, b"\5"))
    return attribute(ULP_INFO, nested)


def test_a_connection_has_its_token_and_whose_it_is(diag):
    found = diag(listed(mptcp_info(2, 7), attribute(CGROUP_ID, struct.pack("=Q", 4242))))
    assert found.connections() == [
        DiagConnection(7, "10.1.0.2", "10.1.0.1", 40000, 5201, uid=1001, cgroup=4242, octets=0)
    ]


def test_an_ipv4_address_of_an_ipv6_socket_is_one_of_ipv4(diag):
    found = diag(listed(mptcp_info(2, 7), family=socket.AF_INET6, prefix=MAPPED))
    assert [(each.local, each.remote) for each in found.connections()] == [("10.1.0.2", "10.1.0.1")]


def test_a_connection_that_has_fallen_back_is_none_of_multipath_tcp(diag):
    assert diag(listed(mptcp_info(1, 7))).connections() == []


def test_what_a_connection_has_carried_is_of_both_directions_where_the_kernel_counts_it(diag):
    (found,) = diag(listed(mptcp_info(2, 7, 1000, 200))).connections()
    assert found.octets == 1200
    before_6_5 = attribute(INFO, bytes(8) + struct.pack("=II", 2, 7) + bytes(24))
    (found,) = diag(listed(before_6_5)).connections()
    assert found.octets is None


def test_a_tcp_socket_without_the_protocol_of_subflows_is_none(diag):
    assert diag(listed(attribute(INFO, bytes(200)))).subflows() == []


@pytest.mark.parametrize(
    ("flags", "state", "expected"),
    [
        (MP_CAPABLE, ESTABLISHED, {"is_open"}),
        (MP_JOIN | BACKUP_LOCAL, ESTABLISHED, {"is_open", "is_backup"}),
        (MP_JOIN | BACKUP_REMOTE, ESTABLISHED, {"is_open"}),
        (0, ESTABLISHED, {"is_open", "is_plain"}),
        (0, SYN_SENT, set()),
    ],
)
def test_what_a_subflow_is(diag, flags, state, expected):
    (found,) = diag(listed(subflow(flags), state=state)).subflows()
    assert {
        each for each in ("is_open", "is_backup", "is_plain") if getattr(found, each)
    } == expected


def test_figures_of_a_subflow_have_their_units(diag):
    info = bytearray(232)
    struct.pack_into("=I", info, 68, 40_000)  # us
    struct.pack_into("=I", info, 100, 3)
    struct.pack_into("=QQ", info, 120, 1_000, 2_000)
    struct.pack_into("=Q", info, 160, 1_250_000)  # octets per second
    (found,) = diag(listed(attribute(INFO, bytes(info)), subflow(MP_CAPABLE))).subflows()
    assert found == DiagSubflow(
        7,
        "10.1.0.2",
        "10.1.0.1",
        40000,
        5201,
        id=5,
        is_backup=False,
        rtt_ns=40_000_000,
        delivery_rate_bps=10_000_000,
        octets_acked=1_000,
        octets_received=2_000,
        retransmitted=3,
    )


def test_connections_are_asked_for_by_the_number_of_their_protocol(diag):
    found = diag()
    found.connections()
    request = found._socket.requests[0]
    assert request[1] == 262 & 0xFF
    assert request[56:] == attribute(3, struct.pack("=I", 262))
