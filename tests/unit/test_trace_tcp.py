"""Segments of flows over TCP in a trace: which frame each is, and which of them were sent again."""

from __future__ import annotations

import select
import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.model import Plan
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.talker.clock import NS_PER_S, tai_ns
from cnc.testbed.traffic.ethernet import Arrival
from cnc.testbed.traffic.flows import Flow, TcpFlow, flows, over_tcp
from cnc.testbed.traffic.sockets import UNCOUNTED
from cnc.testbed.traffic.tcp import TcpListener, TcpOutlet
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.clocks import OneClock
from cnc.testbed.traffic.trace.columns import gather
from cnc.testbed.traffic.trace.join import Kind
from cnc.testbed.traffic.trace.margins import Margins
from cnc.testbed.traffic.trace.segments import Probes
from tests.bridged_networks import ring, stream
from tests.unit.traced_frames import T0, US, Record

PORTS = (">t1/eth0", "s1/t1", ">s1/s2", "s2/s1", ">s2/s3", "s3/s2", ">s3/l1", "l1/eth0")
PASSED_US = (1, 2, 10, 12, 20, 22, 30, 31)  # when a frame that was sent at 0 passes them
CAME_US = PASSED_US[-1]


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


@pytest.fixture
def record(line3: Plan) -> Record:
    found = Record(line3)
    found.sent = over_tcp(found.sent, ["torque"])
    return found


def add(record: Record, seq: int, sent_us: dict[int, int], delivered_us: int | None = None) -> None:
    """A frame that was sent at these times, and passed so many ports then."""
    begin_ns = T0 + min(sent_us) * US
    stamps = [
        (port, T0 + (at_us + passed_us) * US)
        for at_us, ports in sent_us.items()
        for port, passed_us in [*zip(PORTS, PASSED_US, strict=True)][:ports]
    ]
    # What TCP stamps at the listener is of the last segment that it has joined with others.
    came = [] if delivered_us is None else [(T0 + delivered_us * US, T0 + delivered_us * US)]
    record.add("torque", seq, (begin_ns, begin_ns, begin_ns + US), came, stamps)


def durations(account: Account, *layers: Layer) -> list[int | None]:
    found = (account.layer_ns(layer) for layer in layers)
    return [ns and ns // US for ns in found]


def test_a_segment_that_was_lost_and_sent_again_has_a_row_for_each_time(record: Record):
    add(record, 0, {0: 4, 500: 8}, delivered_us=532)
    lost, resent = record.accounts()
    assert (lost.row.kind, resent.row.kind) == (Kind.SINGLE, Kind.RESENT)
    assert (lost.row.received_ns, lost.row.delivered_ns, lost.total_ns) == (None, None, None)
    assert [each.left_ns is not None for each in lost.row.crossings] == [True, True, False, False]
    assert resent.total_ns == sum(part.duration_ns or 0 for part in resent.parts) == 532 * US
    assert durations(resent, Layer.RETRANSMISSION, Layer.HEAD_OF_LINE) == [500, 0]
    (columns,) = gather([lost, resent])
    assert (columns.frames, columns.lost, columns.resent, len(columns)) == (2, 1, 1, 1)


def test_what_was_written_behind_a_lost_segment_waits_for_it_at_the_listener(record: Record):
    add(record, 0, {0: 4, 600: 8}, delivered_us=632)
    add(record, 1, {500: 8}, delivered_us=634)
    add(record, 2, {1000: 8}, delivered_us=1032)
    _, _, behind, after = record.accounts()
    waits_us = 600 - 500
    assert durations(behind, Layer.HEAD_OF_LINE, Layer.LISTENER) == [waits_us, 634 - 631]
    assert behind.total_ns == sum(part.duration_ns or 0 for part in behind.parts)
    assert durations(after, Layer.HEAD_OF_LINE) == [0]


def test_the_second_arrival_of_a_segment_that_was_sent_again_in_vain_is_repeated(record: Record):
    add(record, 0, {0: 8, 500: 8}, delivered_us=CAME_US + 1)
    first, again = record.accounts()
    assert (first.row.kind, again.row.kind) == (Kind.SINGLE, Kind.RESENT)
    assert first.total_ns == (CAME_US + 1) * US
    assert again.row.received_ns == T0 + (500 + CAME_US) * US
    assert (again.row.delivered_ns, again.row.path) == (None, None)
    (columns,) = gather([first, again])
    counts = columns.frames, columns.lost, columns.resent, columns.repeated, len(columns)
    assert counts == (1, 0, 1, 1, 1)


def test_a_segment_that_is_lost_each_time_is_never_delivered_nor_is_what_follows(record: Record):
    add(record, 0, {0: 4, 500: 2})
    add(record, 1, {600: 8})
    rows = [each.row for each in record.accounts()]
    assert [(row.kind, row.delivered_ns) for row in rows] == [
        *((Kind.SINGLE, None), (Kind.RESENT, None), (Kind.SINGLE, None)),
    ]
    assert rows[2].received_ns is not None
    assert rows[2].in_order_ns is None


def test_margins_of_the_plan_are_not_those_of_what_was_sent_again(record: Record, line3: Plan):
    add(record, 0, {0: 4, 500: 8}, delivered_us=532)
    margins = Margins(line3, OneClock())
    for each in record.accounts():
        margins.add(each.row)
    hop = next(iter(margins.hops()))
    assert (hop.used_max_ns or 0) < 100 * US


ISN = (1 << 32) - 200  # so that it wraps in the second write


def segment(octets: int, sequence_number: int, *, flags: int = 0, tag: bytes = b"") -> bytes:
    """As a tap shows it: its first octets, over IPv6."""
    tcp = struct.pack("!HHIIBB", 40_000, 5102, sequence_number % (1 << 32), 0, 8 << 4, flags)
    ip = struct.pack("!IHBB32x", 6 << 28, 32 + octets, socket.IPPROTO_TCP, 64)
    return bytes(12) + tag + b"\x86\xdd" + ip + tcp + bytes(12)


@pytest.mark.parametrize("tag", [b"", struct.pack("!HH", 0x8100, 6 << 13 | 10)])
def test_a_segment_is_the_frame_whose_last_octet_it_carries(line3: Plan, tag: bytes):
    sent = over_tcp(flows(line3), ["torque", "motion"])
    number, flow = next((n, each) for n, each in enumerate(sent) if each.name == "motion")
    assert isinstance(flow, TcpFlow)
    assert flow.tcp_port == 5100 + number
    probes = Probes(sent)

    def of(begin: int, octets: int, flags: int = 0) -> tuple[int, int] | None:
        its = segment(octets, ISN + 1 + begin, flags=flags, tag=tag)
        return probes.of(its.replace(struct.pack("!H", 5102), struct.pack("!H", flow.tcp_port)))

    write = flow.write_octets
    assert of(-1, 0, flags=0x02) is None  # SYN
    assert of(0, 1) is None  # the rehearsal
    assert [of(1 + seq * write, write) for seq in (0, 1, 2)] == [(number, seq) for seq in (0, 1, 2)]
    assert of(1, 2 * write) == (number, 1)  # two of them in one segment
    assert of(1, write - 1) is None  # the last octet is in the next one
    assert of(write, 1) == (number, 0)
    assert of(1 + 4 * write, 0) is None  # an acknowledgement
    assert probes.of(segment(write, 0, tag=tag).replace(b"\x13\xee", b"\x13\x88")) is None


def test_segments_are_as_long_as_the_packets_were(line3: Plan):
    (flow,) = (each for each in over_tcp(flows(line3), ["motion"]) if isinstance(each, TcpFlow))
    assert flow.write_octets == flow.payload_octets - 40 - 32


def test_flows_that_cannot_go_over_tcp_are_refused(line3: Plan):
    with pytest.raises(InputError, match="--tcp: found the flow 'motoin', expected one of"):
        over_tcp(flows(line3), ["motoin"])
    bridged = flows(compute(ring(both=stream("t1", "l3"))))
    with pytest.raises(InputError, match="bridged network send both as Ethernet frames"):
        over_tcp(bridged, ["both"])
    short = [replace(flow, payload_octets=72) for flow in flows(line3) if isinstance(flow, Flow)]
    with pytest.raises(InputError, match="72 octets of motion has no room for the headers of TCP"):
        over_tcp(short, ["motion"])


class Ends:
    """A connection over the loopback interface."""

    def __init__(self) -> None:
        self.listener = TcpListener("AF_INET", "127.0.0.1", 0, 7, 100, tai_offset_ns=0)
        _, port = self.listener.socket.getsockname()
        flow = {"dscp": 0, "destination": "127.0.0.1", "tcp_port": port, "write_octets": 100}
        self.outlet = TcpOutlet(flow, socket.AF_INET)

    def received(self) -> list[Arrival | None]:
        """What the listener takes until it has nothing to take."""
        found: list[Arrival | None] = []
        while select.select([self.listener.socket], [], [], 0.2)[0] and None not in found:
            found.append(self.listener.receive())
        return [each for each in found if each is None or each.number < UNCOUNTED]


def test_each_write_is_received_once_and_stamped_until_it_is_acknowledged():
    ends = Ends()
    begin_ns = tai_ns()
    ends.outlet.send_probe(0xFFFF, 0)  # the rehearsal
    ends.outlet.stamp()
    for seq in range(3):
        ends.outlet.send_probe(7, seq)
    found = ends.received()
    assert [each and (each.number, each.seq) for each in found] == [(7, 0), (7, 1), (7, 2)]
    ends.outlet.await_acknowledged()
    while ends.outlet.read_stamp():
        pass
    for seq in range(3):
        scheduled_ns, left_ns, acked_ns = ends.outlet.stamps(seq)
        assert scheduled_ns is not None
        assert left_ns is not None
        assert acked_ns is not None
        assert begin_ns <= scheduled_ns <= left_ns <= acked_ns < begin_ns + 10 * NS_PER_S
    assert ends.outlet.stamps(3) == (None, None, None)
    ends.outlet.socket.close()
    assert ends.received() == [None]
