"""A talker and a listener that know no VLANs, and two bridges between them.

talker q1 ══ p1 ┬ br0 ┬ p2 ══ q2 ┬ br1 ┬ q3 ══ p3 listener
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from queue import SimpleQueue
from typing import NamedTuple

import pytest
from pyroute2 import IPRoute

from agent.datastore.changes import Changes
from agent.datastore.desired import desired_ports
from agent.datastore.watch import Watch
from agent.events import Event, PortDrift, PortRestored, PortStateChange
from agent.kernel import netlink_batch
from agent.kernel.clsact import EGRESS, INGRESS
from agent.kernel.flower_filters import read_filters, set_filter
from agent.kernel.netlink_batch import NetlinkSocket, raise_first
from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.bridged_classification.model import BridgedConfig
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingConfig,
    ForwardingTable,
    Member,
)
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.identification.filters import incoming_filter, outgoing_filter
from agent.mechanisms.identification.model import (
    IdentificationConfig,
    IdentificationState,
    IdentificationTable,
    Incoming,
    Match,
    Outgoing,
)
from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityConfig
from agent.model import AgentError, PortConfig
from agent.switch import Switch, differences
from tests.kernel.conftest import FAR, QUEUES, SWITCH, inside
from tests.stack.recording_kernel import configured
from tests.stack.stream_identities import identified, rewritten, stream_identities

UNKNOWN = "02-00-00-00-00-09"
STREAM, TALKER, LISTENER = "02-54-53-4E-00-07", "02-00-00-00-02-01", "02-00-00-00-01-03"
VLAN_ID, PCP = 10, 1
TALKER_IP, LISTENER_IP, LISTENER_IPV6 = "10.0.1.2", "10.0.1.77", "fd00:1::77"
UDP_PORT, OTHER_PORT = 5000, 5001
EXPERIMENTAL, IPV4, IPV6 = 0x88B5, 0x0800, 0x86DD
FRAMES = 10
EF = 46
SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL = 263, 8, 3
TP_STATUS_VLAN_VALID = 0x10
RTMGRP_TC = 0x8

UDP = Match(
    ip_source=TALKER_IP,
    ip_destination=LISTENER_IP,
    protocol="udp",
    destination_port=UDP_PORT,
)
INCOMING = Incoming(7, 1, 2, UDP, STREAM, VLAN_ID, PCP)
OUTGOING = Outgoing(7, 3, STREAM, VLAN_ID, LISTENER)


class OnTheWire(NamedTuple):
    """A frame between the bridges; None: it has no tag."""

    destination: str
    vlan_id: int | None
    pcp: int | None


TRANSLATED = OnTheWire(STREAM, VLAN_ID, PCP)
AS_SENT = OnTheWire(LISTENER, None, None)


def table(*streams: Incoming | Outgoing) -> IdentificationConfig:
    return IdentificationConfig(
        IdentificationTable(
            frozenset(each for each in streams if isinstance(each, Incoming)),
            frozenset(each for each in streams if isinstance(each, Outgoing)),
        )
    )


def asked(port: str, *parts: object) -> dict[str, PortConfig]:
    return {port: PortConfig(port, parts)}


def forwarded(bridge: str, *ports: str, to: str) -> dict[str, PortConfig]:
    entries = frozenset({Entry(Address(STREAM, VLAN_ID), to)})
    members = frozenset(Member(VLAN_ID, port) for port in ports)
    return asked(bridge, ForwardingConfig(ForwardingTable(entries, members)))


FIRST = asked("p1", table(INCOMING)) | forwarded("br0", "p1", "p2", to="p2")
LAST = asked("q3", table(OUTGOING)) | forwarded("br1", "q2", "q3", to="q3")


@pytest.fixture
def bridges(ports, eventually) -> None:
    """br0 and br1 with VLAN filtering, whose ports forward, and the addresses of the end stations.

    The talker finds the listener by a permanent neighbour, as after its address resolution.
    """
    queues = {"num_tx_queues": QUEUES, "num_rx_queues": QUEUES}
    with IPRoute() as near, IPRoute(netns=FAR) as far:
        peer = {"ifname": "q3", "net_ns_fd": FAR, **queues}
        near.link("add", ifname="p3", kind="veth", peer=peer, **queues)
        p3 = index_of(near, "p3")
        near.link("set", index=p3, address=LISTENER.replace("-", ":").lower(), state="up")
        near.addr("add", index=p3, address=LISTENER_IP, prefixlen=32)
        near.addr("add", index=p3, address=LISTENER_IPV6, prefixlen=128, flags=0x02)
        far.link("set", index=index_of(far, "q3"), state="up")
        for ipr, bridge, members in ((near, "br0", ("p1", "p2")), (far, "br1", ("q2", "q3"))):
            ipr.link("add", ifname=bridge, kind="bridge", br_vlan_filtering=1, state="up")
            for name in members:
                ipr.link("set", index=index_of(ipr, name), master=index_of(ipr, bridge))
            eventually(
                lambda ipr=ipr, members=members: all(forwards(ipr, name) for name in members)
            )
        for address in (LISTENER_IP, LISTENER_IPV6):
            far.neigh(
                "replace",
                ifindex=index_of(far, "q1"),
                dst=address,
                lladdr=LISTENER.replace("-", ":").lower(),
                state=0x80,
            )


def index_of(ipr: IPRoute, name: str) -> int:
    return ipr.link_lookup(ifname=name)[0]


def forwards(ipr: IPRoute, name: str) -> bool:
    (link,) = ipr.get_links(index_of(ipr, name))
    return link.get(("linkinfo", "slave_data", "IFLA_BRPORT_STATE")) == 3


@pytest.fixture
def first(bridges) -> Iterator[Switch]:
    """The switch of br0."""
    opened = KernelPorts(MECHANISMS)
    yield Switch(opened)
    opened.close()


@pytest.fixture
def last(bridges) -> Iterator[Switch]:
    """The switch of br1."""
    with inside(FAR):
        opened = KernelPorts(MECHANISMS)
    yield Switch(opened)
    opened.close()


@pytest.fixture
def wire(bridges) -> Iterator[Callable[[], list[OnTheWire]]]:
    """The frames with a test's payload that have passed between the bridges since the last call."""
    with inside(FAR):
        capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        capture.bind(("q2", ETH_P_ALL))
    with closing(capture):
        capture.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        capture.setblocking(False)
        yield lambda: list(captured(capture))


PAYLOAD = b"a frame of a test"


def captured(capture: socket.socket) -> Iterator[OnTheWire]:
    while True:
        try:
            frame, ancillary, _flags, address = capture.recvmsg(2048, 64)
        except BlockingIOError:
            return
        if address[2] == socket.PACKET_OUTGOING or PAYLOAD not in frame:
            continue
        status, _len, _snaplen, _mac, _net, tci, _tpid = struct.unpack("=IIIHHHH", ancillary[0][2])
        tag = (tci & 0xFFF, tci >> 13) if status & TP_STATUS_VLAN_VALID else (None, None)
        yield OnTheWire(frame[:6].hex("-").upper(), *tag)


def send_udp(port: int = UDP_PORT, *, to: str = LISTENER_IP, dscp: int = 0) -> None:
    """Send by an ordinary socket of the talker."""
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    level, option = (
        (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
        if family == socket.AF_INET6
        else (socket.IPPROTO_IP, socket.IP_TOS)
    )
    with inside(FAR), socket.socket(family, socket.SOCK_DGRAM) as talker:
        talker.setsockopt(level, option, dscp << 2)
        for _ in range(FRAMES):
            talker.sendto(PAYLOAD, (to, port))
    time.sleep(0.05)


def send_frames(ethertype: int = EXPERIMENTAL, *, to: str = LISTENER, tci: int | None = None):
    """Send frames of this kind by the talker, with a VLAN tag if there is something to put in."""
    addresses = bytes.fromhex((to + TALKER).replace("-", ""))
    tag = b"" if tci is None else struct.pack("!HH", 0x8100, tci)
    with inside(FAR), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as talker:
        talker.bind(("q1", 0))
        for _ in range(FRAMES):
            talker.send((addresses + tag + struct.pack("!H", ethertype) + PAYLOAD).ljust(60, b"\0"))
    time.sleep(0.05)


@pytest.fixture
def received() -> Iterator[Callable[[], int]]:
    """The packets that an ordinary socket of the listener has got since the last call."""
    with inside(SWITCH), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((LISTENER_IP, UDP_PORT))
        listener.setblocking(False)

        def count() -> int:
            packets = 0
            while True:
                try:
                    packets += listener.recv(2048) == PAYLOAD
                except BlockingIOError:
                    return packets

        yield count


def test_plain_udp_crosses_the_network_as_a_stream_and_arrives_as_it_was_sent(
    first, last, wire, two_classes, request
):
    gates = {"p2": configured("p2", two_classes((0x3, 1_000_000)))}
    first.apply(FIRST | gates)
    last.apply(LAST)
    received = request.getfixturevalue("received")

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


def test_what_is_read_back_is_what_was_asked_with_what_it_has_met(first, last, wire):
    first.apply(FIRST)
    last.apply(LAST)
    send_udp()
    state = first.read()["p1"][IdentificationState]
    assert state == IdentificationState(table(INCOMING).table, {INCOMING: FRAMES})
    state = last.read()["q3"][IdentificationState]
    assert state == IdentificationState(table(OUTGOING).table, {OUTGOING: FRAMES})


def test_a_second_push_changes_nothing(first):
    first.apply(FIRST)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK) as listening:
        listening.bind((0, RTMGRP_TC))
        assert first.apply(FIRST).steps == ()
        with pytest.raises(BlockingIOError):
            listening.recv(1)
        first.apply({})
        assert listening.recv(1)


def test_a_withdrawn_agent_leaves_nothing_and_a_change_is_undone(first, wire):
    first.apply(FIRST)
    other = replace(INCOMING, mac="02-54-53-4E-00-08", pcp=3)
    change = first.apply(FIRST | asked("p1", table(other)))
    assert first.read()["p1"][IdentificationState].table.incoming == {other}
    change.undo()
    assert first.read()["p1"][IdentificationState].table.incoming == {INCOMING}
    with closing(KernelPorts(MECHANISMS)) as restarted:
        assert Switch(restarted).apply(FIRST).steps == ()
        Switch(restarted).apply({})
    assert hooks("p1") == []
    send_udp()
    assert wire() == [AS_SENT] * FRAMES


def test_no_frame_passes_as_it_was_sent_while_streams_come_and_go(first, wire, monkeypatch):
    """A frame follows each message, also while the stream's own entries get other numbers."""
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
        streams = [replace(INCOMING, index=number), *others[: number % 7], *others[number:]]
        first.apply(FIRST | asked("p1", table(*streams)))
    talker.close()
    time.sleep(0.05)
    assert len(sent) > 20
    assert wire() == [TRANSLATED] * len(sent)


def hooks(port: str) -> list[str]:
    """The qdiscs of a port that carry filters."""
    with IPRoute() as ipr:
        kinds = [qdisc.get("TCA_KIND") for qdisc in ipr.get_qdiscs(index_of(ipr, port))]
    return [kind for kind in kinds if kind in {"clsact", "ingress"}]


def tc(*words: str) -> None:
    subprocess.run(["tc", *words], check=True)


def remove_by_hand() -> None:
    tc("filter", "del", "dev", "p1", "ingress", "prio", str(0x7900))


def test_filters_of_others_stay(first):
    tc("qdisc", "add", "dev", "p1", "clsact")
    tc("filter", "add", "dev", "p1", "ingress", "prio", "1", "flower", "action", "continue")
    first.apply(FIRST)
    first.apply({})
    with IPRoute() as ipr:
        left = {each["info"] >> 16 for each in ipr.get_filters(index_of(ipr, "p1"), 0, INGRESS)}
    assert left == {1}
    assert hooks("p1") == ["clsact"]


def test_a_filter_that_was_removed_or_changed_is_a_difference_until_it_is_set_again(first, wire):
    first.apply(FIRST)
    remove_by_hand()
    assert differences(MECHANISMS, FIRST, first.read()) == {
        "p1": f"frames of stream 7 ({UDP}) do not get {STREAM}, VLAN 10 and priority 1"
    }
    first.apply(FIRST)
    place = ("dev", "p1", "ingress", "prio", str(0x7900), "handle", "1", "protocol", "ip")
    keys = ("src_ip", TALKER_IP, "dst_ip", LISTENER_IP, "ip_proto", "udp", "dst_port", "5000")
    tc("filter", "replace", *place, "flower", *keys, "action", "drop")
    assert differences(MECHANISMS, FIRST, first.read()).keys() == {"p1"}
    first.apply(FIRST)
    send_udp()
    assert wire() == [TRANSLATED] * FRAMES


def test_a_filter_among_those_of_streams_is_removed(first):
    first.apply(FIRST)
    place = ("dev", "p1", "ingress", "prio", str(0x7900), "handle", "9", "protocol", "ip")
    tc("filter", "add", *place, "flower", "dst_ip", "192.0.2.9", "action", "drop")
    (step,) = first.apply(FIRST).steps
    assert step.changes[0].description.endswith("which another program has changed")
    assert first.apply(FIRST).steps == ()


def test_a_refused_filter_leaves_none_of_the_others_and_says_why(first):
    tc("qdisc", "add", "dev", "p1", "clsact")
    place = ("dev", "p1", "ingress", "prio", str(0x7902), "protocol", "all")
    tc("filter", "add", *place, "u32", "match", "u32", "0", "0", "action", "continue")
    by_mac = replace(INCOMING, handle=8, index=8, match=Match(destination_mac=UNKNOWN))
    other_ip = UDP._replace(destination_mac=LISTENER)
    with pytest.raises(AgentError, match=r"^port p1: the kernel refused a filter .*\(E"):
        first.apply(FIRST | asked("p1", table(replace(INCOMING, match=other_ip), by_mac)))
    assert first.read()["p1"][IdentificationState].table == IdentificationTable()


@pytest.fixture
def events(first) -> Iterator[SimpleQueue[Event]]:
    """What an agent notifies of, whose configuration identifies the stream."""
    tree = stream_identities(
        identified(
            **{"ip-source": TALKER_IP, "ip-destination": LISTENER_IP},
            **{"next-protocol": "udp", "destination-port": UDP_PORT},
        ),
        rewritten(),
    )
    assert desired_ports(tree, {})["p1"][IdentificationConfig] == table(INCOMING)
    changes = Changes(first, lambda: tree)
    changes.reconcile(tree)
    queue: SimpleQueue[Event] = SimpleQueue()

    def keep(event: Event) -> None:
        if not isinstance(event, PortStateChange):
            queue.put(event)

    watch = Watch(first, changes, keep)
    yield queue
    watch.close()
    changes.close()


def test_an_agent_notices_what_was_removed_by_hand(first, events):
    remove_by_hand()
    drift = events.get(timeout=60)
    assert isinstance(drift, PortDrift)
    assert drift.port == "p1"
    first.apply(asked("p1", table(INCOMING)))
    assert events.get(timeout=60) == PortRestored("p1")


TC_INCOMING = (
    *("src_ip", TALKER_IP, "dst_ip", LISTENER_IP, "ip_proto", "udp", "dst_port", str(UDP_PORT)),
    *("action", "pedit", "ex", "munge", "eth", "dst", "set", STREAM.replace("-", ":"), "pipe"),
    *("action", "vlan", "push", "id", str(VLAN_ID), "priority", str(PCP), "pipe"),
    *("action", "skbedit", "priority", str(PCP)),
)
TC_OUTGOING = (
    *("dst_mac", STREAM.replace("-", ":"), "vlan_id", str(VLAN_ID)),
    *("action", "vlan", "pop", "pipe"),
    *("action", "pedit", "ex", "munge", "eth", "dst", "set", LISTENER.replace("-", ":"), "pipe"),
)


@pytest.mark.parametrize(
    ("hook", "protocol", "words", "ours"),
    [
        ("ingress", "ip", TC_INCOMING, incoming_filter(INCOMING)),
        ("egress", "802.1q", TC_OUTGOING, outgoing_filter(OUTGOING)),
    ],
)
def test_a_filter_is_the_one_that_tc_makes_of_the_same(bridges, hook, protocol, words, ours):
    tc("qdisc", "add", "dev", "p1", "clsact")
    tc("filter", "add", "dev", "p1", hook, "prio", "5", "protocol", protocol, "flower", *words)
    where = (socket.if_nametoindex("p1"), {"ingress": INGRESS, "egress": EGRESS}[hook])
    with closing(NetlinkSocket(socket.NETLINK_ROUTE)) as kernel:
        (theirs,) = read_filters(kernel, *where, 5)
        raise_first(kernel.send([set_filter(*where, theirs.place._replace(prio=6), ours)]))
        (listed,) = read_filters(kernel, *where, 6)
    assert theirs.filter == ours._replace(cookie=b"")
    assert listed.filter == ours
    assert listed.keys == theirs.keys


def test_a_thousand_streams_take_little_more_than_a_thousand_messages(first, monkeypatch):
    streams = [
        replace(INCOMING, handle=n, index=n, match=UDP._replace(destination_port=10_000 + n))
        for n in range(1000)
    ]
    wanted = FIRST | asked("p1", table(*streams))
    encoded, sent = netlink_batch._encoded, []

    def recorded(message, *arguments):
        sent.append(message)
        return encoded(message, *arguments)

    monkeypatch.setattr(netlink_batch, "_encoded", recorded)
    started_s = time.process_time()
    first.apply(wanted)
    print(f"{time.process_time() - started_s:.3f} s of CPU, {len(sent)} messages")
    assert len(sent) < 1_100
    assert len(first.read()["p1"][IdentificationState].table.incoming) == 1000
    started_s = time.process_time()
    assert first.apply(wanted).steps == ()
    print(f"{time.process_time() - started_s:.3f} s of CPU for a second push")
