"""What becomes of the frames of a talker and a listener that know no VLANs.

talker q1 ══ p1 ┬ br0 ┬ p2 ══ q2 ┬ br1 ┬ q3 ══ p3 listener
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import socket
import time
from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from agent.kernel.netlink_batch import NetlinkSocket
from agent.mechanisms.bridged_classification.model import BridgedConfig
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingConfig,
    ForwardingTable,
    Member,
)
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.identification.model import (
    IdentificationState,
    Match,
)
from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityConfig
from tests.kernel.conftest import FAR, inside
from tests.kernel.two_bridges import (  # noqa: F401
    AS_SENT,
    EF,
    FIRST,
    FRAMES,
    INCOMING,
    LAST,
    LISTENER,
    LISTENER_IP,
    LISTENER_IPV6,
    NAMED,
    OTHER_PORT,
    OUTGOING,
    PAYLOAD,
    PCP,
    STREAM,
    TALKER,
    TRANSLATED,
    UDP,
    UDP_PORT,
    UNKNOWN,
    VLAN_ID,
    OnTheWire,
    asked,
    bridges,
    first,
    index_of,
    last,
    received,
    send_frames,
    send_udp,
    table,
    tc,
    wire,
)
from tests.stack.recording_kernel import configured

GROUP = "91-E0-F0-00-FE-01"


def test_plain_udp_crosses_the_network_as_a_stream_and_arrives_as_it_was_sent(
    first, last, wire, two_classes, received
):
    gates = {"p2": configured("p2", two_classes((0x3, 1_000_000)))}
    first.apply(FIRST | gates)
    last.apply(LAST)

    def in_class_1() -> int:
        return first.read()["p2"][GateState].counters[1].frames

    before = in_class_1()
    send_udp()
    assert wire() == [TRANSLATED] * FRAMES
    assert received() == FRAMES
    assert in_class_1() - before == FRAMES


def test_other_frames_of_the_talker_pass_as_they_were_sent(first, last, wire):
    first.apply(FIRST)
    last.apply(LAST)
    send_udp(OTHER_PORT)
    send_udp(to=LISTENER_IPV6)
    send_frames()
    assert wire() == [AS_SENT] * 3 * FRAMES


@pytest.mark.parametrize(
    ("match", "send"),
    [
        (Match(destination_mac=LISTENER), send_frames),
        (Match(source_mac=TALKER), send_frames),
        (Match(source_mac=TALKER), send_udp),
        (Match(ip_destination=LISTENER_IP), lambda: send_udp(OTHER_PORT)),
        (Match(ip_destination=LISTENER_IP, dscp=EF), lambda: send_udp(dscp=EF)),
        (Match(ip_destination=LISTENER_IPV6), lambda: send_udp(to=LISTENER_IPV6)),
        (
            Match(ip_destination=LISTENER_IPV6, dscp=EF, protocol="udp", destination_port=UDP_PORT),
            lambda: send_udp(to=LISTENER_IPV6, dscp=EF),
        ),
    ],
)
def test_a_stream_is_known_by_what_the_standard_offers(first, wire, match, send):
    stream = replace(INCOMING, match=match)
    first.apply(FIRST | asked("p1", table(stream)))
    send()
    assert wire() == [TRANSLATED] * FRAMES
    assert first.read()["p1"][IdentificationState].table.incoming == {stream}


@pytest.mark.parametrize(
    ("match", "send"),
    [
        (Match(destination_mac=LISTENER), lambda: send_frames(to="02-00-00-00-01-04")),
        (Match(source_mac="02-00-00-00-02-09"), send_frames),
        (Match(ip_destination=LISTENER_IP, dscp=EF), send_udp),
        (Match(ip_destination=LISTENER_IP, protocol="tcp"), send_udp),
        (Match(ip_destination=LISTENER_IP, ip_source="10.0.1.9"), send_udp),
        (Match(ip_destination=LISTENER_IP, destination_mac=UNKNOWN), send_udp),
        (UDP._replace(source_port=9), send_udp),
    ],
)
def test_a_frame_that_differs_is_of_no_stream(first, wire, match, send):
    first.apply(FIRST | asked("p1", table(replace(INCOMING, match=match))))
    send()
    assert TRANSLATED not in wire()


@pytest.mark.parametrize("match", [Match(destination_mac=LISTENER), Match(source_mac=TALKER)])
def test_frames_with_a_tag_of_their_own_keep_it(first, wire, match):
    both = FIRST | asked("p1", table(replace(INCOMING, match=match)))
    first.apply(both)
    send_frames(tci=5 << 13 | VLAN_ID)
    assert wire() == []  # no entry for the address of the listener in this VLAN
    send_frames(to=STREAM, tci=5 << 13 | VLAN_ID)
    assert wire() == [OnTheWire(STREAM, VLAN_ID, 5)] * FRAMES


def test_tagged_frames_of_a_stream_are_counted_and_pass_as_they_are(first, wire):
    named = replace(NAMED, is_out_facing=False)
    by_code_point = ReceivedPriorityConfig(PriorityTable(regenerated=(0, 0, 0, 0, 0, 3, 0, 0)))
    wanted = FIRST | asked("p1", table(named), by_code_point)
    first.apply(wanted)
    send_frames(to=STREAM, tci=5 << 13 | VLAN_ID)
    send_frames(to=STREAM)
    send_frames(to=UNKNOWN, tci=5 << 13 | VLAN_ID)
    untagged = [OnTheWire(STREAM, None, None)] * FRAMES  # of another VLAN, where it is flooded
    assert wire() == [OnTheWire(STREAM, VLAN_ID, 5)] * FRAMES + untagged
    state = first.read()["p1"]
    assert state[IdentificationState].frames == {named: FRAMES}
    assert first.apply(wanted).steps == ()


def test_translated_frames_pass_the_filters_of_chain_1_and_not_those_for_received_frames(
    first, wire
):
    first.apply(FIRST)
    everything = ("u32", "match", "u32", "0", "0", "action", "drop")
    last_of_chain_0 = ("prio", str(0x7FFF), "protocol", "all")
    tc("filter", "add", "dev", "p1", "ingress", *last_of_chain_0, *everything)
    send_udp()
    assert wire() == [TRANSLATED] * FRAMES
    in_chain_1 = ("chain", "1", "prio", "1", "protocol", "802.1q", "flower")
    keys = ("dst_mac", STREAM.replace("-", ":"), "vlan_id", str(VLAN_ID), "action", "drop")
    tc("filter", "add", "dev", "p1", "ingress", *in_chain_1, *keys)
    send_udp()
    assert wire() == []


def test_a_group_address_leads_other_frames_to_their_listeners_and_packets_of_ip_nowhere(
    first, wire
):
    """Which is why IP needs an individual address: the bridge looks up the group of the packet.

    It does so from when it knows of a querier; before that it floods.
    """
    with IPRoute() as ipr:
        ipr.link("set", index=index_of(ipr, "br0"), kind="bridge", br_mcast_querier=1)
    time.sleep(20)
    to_group = frozenset({Entry(Address(GROUP, VLAN_ID), "p2")})
    members = frozenset(Member(VLAN_ID, port) for port in ("p1", "p2"))
    stream = replace(INCOMING, match=Match(source_mac=TALKER), mac=GROUP)
    first.apply(
        asked("br0", ForwardingConfig(ForwardingTable(to_group, members)))
        | asked("p1", table(stream))
    )
    send_frames()
    assert wire() == [OnTheWire(GROUP, VLAN_ID, PCP)] * FRAMES
    send_udp()
    assert wire() == []


def test_gates_go_on_where_a_stream_gets_the_first_filter_of_a_port_that_is_in_use(
    first, two_classes
):
    """The kernel takes the port down and up for it."""
    gates = configured("p2", two_classes((0x2, 500_000), (0x1, 500_000)))
    first.apply(FIRST | {"p2": gates})
    time.sleep(0.01)  # until they have moved
    both = replace(gates, parts=(*gates.parts, table(OUTGOING)))
    first.apply(FIRST | {"p2": both})
    before = first.read()["p2"][GateState].counters
    send_frames()
    send_udp()
    time.sleep(0.1)
    after = first.read()["p2"][GateState].counters
    assert all(new.frames - old.frames >= FRAMES for old, new in zip(before, after, strict=True))


def test_priorities_by_code_point_and_dscp_leave_translated_frames_alone(
    first, last, wire, two_classes, received
):
    received_priority = ReceivedPriorityConfig(PriorityTable((0,) * 8, default=0))
    gates = configured("p2", two_classes((0x3, 1_000_000)))
    wanted = FIRST | asked("p1", table(INCOMING), received_priority) | {"p2": gates}
    first.apply(wanted)
    by_dscp = BridgedConfig({EF: 3})
    last.apply(LAST | asked("q3", table(OUTGOING), by_dscp))
    before = first.read()["p2"][GateState].counters[1].frames
    send_udp(dscp=EF)
    assert wire() == [TRANSLATED] * FRAMES
    assert received() == FRAMES
    assert first.read()["p2"][GateState].counters[1].frames - before == FRAMES
    assert first.apply(wanted).steps == ()


def test_no_frame_passes_as_it_was_sent_while_streams_come_and_go(first, wire, monkeypatch):
    """A frame follows each message, also while the stream's own entries get other numbers, and
    while it is to be known by something else."""
    first.apply(FIRST)
    exchange, sent = NetlinkSocket._exchange, []
    with inside(FAR):
        talker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def one_by_one(kernel, messages):
        refusals = []
        for each in messages:
            refusals += exchange(kernel, [each])
            sent.append(talker.sendto(PAYLOAD, (LISTENER_IP, UDP_PORT)))
        return refusals

    monkeypatch.setattr(NetlinkSocket, "_exchange", one_by_one)
    others = [
        replace(INCOMING, handle=n, index=n, match=UDP._replace(destination_port=6000 + n))
        for n in range(10, 20)
    ]
    for number in range(10):
        match = UDP if number % 3 else UDP._replace(ip_source=None)
        own = replace(INCOMING, index=number, match=match)
        streams = [own, *others[: number % 7], *others[number:]]
        first.apply(FIRST | asked("p1", table(*streams)))
    talker.close()
    time.sleep(0.05)
    assert len(sent) > 20
    assert wire() == [TRANSLATED] * len(sent)
