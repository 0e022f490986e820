"""Packets of a capture as flows of a lab, and the program that sends them."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from cnc.errors import CncError, InputError
from cnc.model import Intent, Plan
from cnc.plans import file as planfile
from cnc.talker import tai_ns
from cnc.testbed.lab.addressing import NodeAddresses
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic import flowfile, measure
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.frames import Frame
from cnc.testbed.traffic.probe import PROGRAM
from cnc.testbed.traffic.replay import sender
from cnc.testbed.traffic.replay.flow import ReplayedFlow, Timeline
from cnc.testbed.traffic.replay.sender import ReplaySender
from tests.unit.captures import RAW_IP, ip_packet, pcap

MS = 1_000_000
PROBE = struct.Struct("!HI")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


@pytest.fixture(scope="module")
def intent(plan: Plan) -> Intent:
    return plan.intent


def loaded(directory: Path, intent: Intent, flow: str, *packets: tuple[int, bytes]) -> list[Flow]:
    """The flows that a file with this one has; `packets` are those of `a.pcap`."""
    (directory / "a.pcap").write_bytes(pcap(*packets, link_type=RAW_IP))
    file = directory / "flows.yaml"
    file.write_text(f"flows:\n  - {{{flow}}}\n")
    return flowfile.load(file, intent)


def refusal(directory: Path, intent: Intent, flow: str, *packets: tuple[int, bytes]) -> str:
    with pytest.raises(InputError) as refused:
        loaded(directory, intent, flow, *packets)
    return str(refused.value).replace(f"{directory}/", "")


def replayed(flows: Sequence[Flow]) -> list[ReplayedFlow]:
    found = [each for each in flows if isinstance(each, ReplayedFlow)]
    assert len(found) == len(flows)
    return found


OFFICE = "name: office, talker: t1, listener: l1, replay: {pcap: a.pcap}"
FAST = OFFICE.replace("a.pcap", "a.pcap, speed: 5")
BOTH_WAYS = (
    "name: office, replay: {pcap: a.pcap, "
    "addresses: {10.1.0.0/16: t1, 10.2.0.0/16: l1, 10.1.9.0/24: t2}}"
)
APART = (MS, ip_packet(100)), (3 * MS, ip_packet(200)), (5 * MS, ip_packet(300))


# --- which flows ---------------------------------------------------------------------------------


def test_packets_leave_as_far_apart_as_they_were_captured_and_as_long(
    tmp_path: Path, intent: Intent
):
    (flow,) = replayed(loaded(tmp_path, intent, OFFICE, *APART))
    assert (flow.name, flow.talker, flow.listener, flow.ip_version) == ("office", "t1", "l1", 4)
    assert [*flow.timeline.until(5 * MS)] == [(0, 100), (2 * MS, 200), (4 * MS, 300)]
    assert (flow.payload_octets, flow.period_ns, flow.latency_bound_ns) == (300, 2 * MS, None)


def test_at_five_times_the_speed_they_are_a_fifth_as_far_apart(tmp_path: Path, intent: Intent):
    (flow,) = replayed(loaded(tmp_path, intent, FAST, *APART))
    assert [at_ns for at_ns, _ in flow.timeline.until(MS)] == [0, 400_000, 800_000]
    (flow,) = replayed(loaded(tmp_path, intent, FAST.replace("5", "0.3"), *APART))
    assert [at_ns for at_ns, _ in flow.timeline.until(14 * MS)] == [0, 6_666_666, 13_333_333]


def test_a_capture_that_is_shorter_than_the_run_begins_again_after_a_mean_distance(
    tmp_path: Path, intent: Intent
):
    (flow,) = replayed(loaded(tmp_path, intent, OFFICE, *APART))
    again = [*flow.timeline.until(10 * MS)][3:]
    assert again == [(6 * MS, 100), (8 * MS, 200)]
    assert [flow.timeline.octets_of(seq) for seq in range(4)] == [100, 200, 300, 100]


def test_addresses_say_from_where_to_where_the_most_specific_first(tmp_path: Path, intent: Intent):
    packets = [
        (0, ip_packet(100, "10.1.0.1", "10.2.0.1")),
        (1, ip_packet(101, "10.2.0.1", "10.1.0.1")),
        (2, ip_packet(102, "10.1.9.1", "10.2.0.1")),
        (3, ip_packet(103, "10.1.0.1", "10.1.0.2")),  # at one node: on no cable
        (4, ip_packet(104, "10.1.0.1", "10.2.0.9")),
    ]
    flows = replayed(loaded(tmp_path, intent, BOTH_WAYS, *packets))
    assert {flow.name: [octets for _, octets in flow.timeline.until(5)] for flow in flows} == {
        "office t1 to l1": [100, 104],
        "office l1 to t1": [101],
        "office t2 to l1": [102],
    }
    assert {flow.timeline.lasts_ns for flow in flows} == {5}  # of the capture, not of each


def test_packets_have_the_class_that_their_dscp_has(tmp_path: Path, intent: Intent):
    packets = (0, ip_packet(dscp=46)), (1, ip_packet(dscp=0)), (2, ip_packet(dscp=46))
    flows = replayed(loaded(tmp_path, intent, OFFICE, *packets))
    assert [(f.name, f.dscp, f.traffic_class) for f in flows] == [
        ("office, DSCP 46", 46, 6),
        ("office, DSCP 0", 0, 0),
    ]
    (flow,) = replayed(loaded(tmp_path, intent, f"{OFFICE}, dscp: 0", *packets))
    assert (flow.name, flow.dscp, flow.traffic_class) == ("office", 0, 0)


def test_a_packet_too_short_for_a_probe_is_as_short_as_one_can_be(tmp_path: Path, intent: Intent):
    short = (0, ip_packet(21)), (1, ip_packet(40))
    (flow,) = replayed(loaded(tmp_path, intent, OFFICE, *short))
    assert [*flow.timeline.octets] == [34, 40]
    (flow,) = replayed(loaded(tmp_path, intent, f"{OFFICE}, ip: 6", *short))
    assert [*flow.timeline.octets] == [54, 54]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            (OFFICE, f"{OFFICE}, period: 1ms"),
            (
                "flows.yaml:2: flows[0].period: found a period beside `replay`, expected none: the "
                "capture says it"
            ),
        ),
        (
            (OFFICE, OFFICE.replace("talker: t1, ", "")),
            "flows.yaml:2: flows[0]: found no talker, expected one",
        ),
        (
            (OFFICE, f"{BOTH_WAYS}, talker: t1"),
            (
                "flows.yaml:2: flows[0].talker: found t1, expected none: the addresses say from "
                "where to where"
            ),
        ),
        (
            (OFFICE, BOTH_WAYS.replace("l1", "l9")),
            "flows.yaml:2: flows[0].replay.addresses.10.2.0.0/16: found 'l9', expected one of",
        ),
        (
            (OFFICE, BOTH_WAYS.replace("10.1.9.0/24", "10.1.9.1/24")),
            (
                "flows.yaml:2: flows[0].replay.addresses.10.1.9.1/24: found '10.1.9.1/24', "
                "expected an IP address or network, such as 10.1.2.3 or 10.1.0.0/16"
            ),
        ),
        (
            (OFFICE, "name: office, replay: {pcap: a.pcap, addresses: {0.0.0.0/0: t1}}"),
            (
                "flows.yaml:2: flows[0].replay.addresses: found one node, expected two or "
                "more, between which packets are sent"
            ),
        ),
        (
            (OFFICE, OFFICE.replace("a.pcap", "a.pcap, speed: 0")),
            (
                "flows.yaml:2: flows[0].replay.speed: found 0, expected a number above 0 and up to "
                "1000, such as 2 or 0.25"
            ),
        ),
        (
            (OFFICE, "name: office, talker: t1, listener: l1, period: 1ms"),
            "flows.yaml:2: flows[0]: found no payload, expected one, or a replay",
        ),
        ((OFFICE, OFFICE.replace("a.pcap", "b.pcap")), "b.pcap: cannot be read: No such file"),
    ],
)
def test_a_replay_that_says_too_little_or_too_much_is_refused_with_its_line(
    tmp_path: Path, intent: Intent, change: tuple[str, str], why: str
):
    assert why in refusal(tmp_path, intent, OFFICE.replace(*change), *APART)


@pytest.mark.parametrize(
    ("flow", "packets", "why"),
    [
        (
            OFFICE,
            [(0, ip_packet()), (1, ip_packet(9014))],
            (
                "a.pcap: packet 2: found a packet of 9014 octets, expected 1500 or less, the MTU "
                "of the lab's ports"
            ),
        ),
        (OFFICE, [], "a.pcap: found 0 packets within 0 ns, expected two or more that are apart"),
        (OFFICE, [(7, ip_packet())], "a.pcap: found 1 packets within 0 ns, expected two or more"),
        (
            BOTH_WAYS,
            [(0, ip_packet()), (1, ip_packet(source="192.0.2.1"))],
            (
                "a.pcap: packet 2: found the address 192.0.2.1, expected one of the networks "
                "in `addresses`: 10.1.0.0/16, 10.2.0.0/16, 10.1.9.0/24"
            ),
        ),
        (
            BOTH_WAYS,
            [(n, ip_packet(destination="10.1.0.2")) for n in range(2)],
            "a.pcap: found no packet between two nodes within 1 ns, expected two or more",
        ),
        (
            OFFICE,
            [(5, ip_packet()), (1, ip_packet())],
            "a.pcap: packet 2: found 4 ns less than of the packet before it",
        ),
    ],
)
def test_a_capture_that_cannot_be_sent_is_refused_with_the_number_of_the_packet(
    tmp_path: Path, intent: Intent, flow: str, packets: list[tuple[int, bytes]], why: str
):
    assert refusal(tmp_path, intent, flow, *packets).startswith(why)


def test_a_flow_beside_streams_has_a_name_that_none_of_them_has(tmp_path: Path, intent: Intent):
    motion = Flow("motion", "t1", "l1", 6, 6, 46, 100, MS, 0, 50_000)
    flows = loaded(tmp_path, intent, OFFICE, *APART)
    assert flowfile.beside([motion], flows) == [motion, *flows]
    flows = loaded(tmp_path, intent, OFFICE.replace("office", "motion"), *APART)
    with pytest.raises(InputError, match="found a flow called motion, expected a name that no"):
        flowfile.beside([motion], flows)


def test_whether_a_gate_was_closed_is_judged_by_the_length_of_each_packet(
    tmp_path: Path, plan: Plan
):
    """One of 1,500 octets takes 11 us longer than one of 100 at 1 Gb/s: taken for as long as the
    longest it would seem to have left before its gate opened."""
    packets = (0, ip_packet(1500)), (1, ip_packet(100))
    (flow,) = replayed(loaded(tmp_path, plan.intent, OFFICE, *packets))
    (last,) = (link for link in plan.intent.network.links.values() if link.target.node == "l1")
    opens_ns = next(
        sum(each.interval_ns for each in plan.gates[last.source].entries[:number])
        for number, entry in enumerate(plan.gates[last.source].entries)
        if number and entry.gate_states & 1
    )
    travel_ns = measure.wires.travel_ns(plan.intent.network, last, 100)
    frame = Frame("office", 1, opens_ns, opens_ns, opens_ns + travel_ns)
    (summary,) = measure.summarise(plan, [flow], [frame], timed_wires=True)
    assert summary.outside == 0


# --- the program ---------------------------------------------------------------------------------


class Here(Lab):
    """A lab whose nodes are all this machine."""

    def command(self, node, argv):
        return [*argv]


LOOPBACK = {"l1": NodeAddresses(IPv4Address("127.0.0.1"), IPv6Address("::1"))}


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """A socket at the port to which packets are sent."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        opened.bind(("::", 0))
        opened.settimeout(10)
        monkeypatch.setattr(sender, "PORT", opened.getsockname()[1])
        yield opened


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("stamps", [False, True])
def test_every_packet_is_sent_at_its_instant_with_its_length_and_dscp(
    tmp_path: Path, plan: Plan, listener: socket.socket, version: int, stamps: bool
):
    packets = [(0, ip_packet(100, dscp=46)), (2 * MS, ip_packet(600)), (2 * MS, ip_packet(200))]
    offset_ns = 0 if stamps else MS
    text = f"{OFFICE}, ip: {version}, offset: {offset_ns}ns"
    flows = dict(enumerate(replayed(loaded(tmp_path, plan.intent, text, *packets)), 7))
    program = ReplaySender(Here(plan.intent, tmp_path), "t1", 0, flows, LOOPBACK)
    program.start(tmp_path, {"duration_ns": offset_ns + 3 * MS, "drain_ns": MS, "stamps": stamps})
    program.await_ready()
    start_ns = tai_ns() + 600 * MS
    program.send_start(start_ns)
    program.finish()
    sent = [*program.sent()]
    assert [[number, seq, at_ns - start_ns] for number, seq, at_ns, *_ in sent] == [
        [7, 0, offset_ns],
        [8, 0, offset_ns + 2 * MS],
        [8, 1, offset_ns + 2 * MS],
    ]
    for _, _, planned_ns, sent_ns, *kernel_ns in sent:
        assert planned_ns <= sent_ns
        if stamps:
            assert planned_ns < kernel_ns[0] <= kernel_ns[1]
        else:
            assert kernel_ns == [None, None]
    headers = 28 if version == 4 else 48
    for number, seq, octets, dscp in ((7, 0, 100, 46), (8, 0, 600, 0), (8, 1, 200, 0)):
        payload, traffic_class = counted(listener)
        assert PROBE.unpack_from(payload) == (number, seq)
        assert (len(payload) + headers, traffic_class >> 2) == (octets, dscp)
    assert [*program.destinations()] == []


def counted(listener: socket.socket) -> tuple[bytes, int]:
    """The next payload that is no rehearsal, and its traffic class."""
    while True:
        payload, control, *_ = listener.recvmsg(2048, 256)
        if PROBE.unpack_from(payload)[0] < 0xFF00:
            return payload, control[0][2][0]


def test_a_sender_without_the_program_says_how_to_get_it(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sender, "PROGRAM", tmp_path / "none")
    program = ReplaySender(Here(plan.intent, tmp_path), "t1", 0, {}, LOOPBACK)
    with pytest.raises(CncError, match="built without a C compiler") as failed:
        program.start(tmp_path, {"duration_ns": 1, "drain_ns": 1, "stamps": False})
    assert str(failed.value.hint).startswith("install gcc")


@pytest.mark.parametrize(
    ("timeline", "why"),
    [
        ("1 7 100\n", "a:1: there is no flow 7 before it"),
        ("flow 7 127.0.0.1 9 0\n1 7 5\n", "a:2: found 5 octets, expected 6 to 9000"),
        ("flow 7 127.0.0.1 9 0\n2 7 9\n1 7 9\n", "a:3: found an instant before that of the line"),
        ("flow 7 nowhere 9 0\n", "found 'nowhere', expected an IPv4 or IPv6 address"),
        ("at noon\n", "a:1: found none of the lines of a timeline"),
    ],
)
def test_a_timeline_that_is_none_is_refused_with_its_line(tmp_path: Path, timeline: str, why: str):
    (tmp_path / "a").write_text(timeline)
    done = subprocess.run(
        [PROGRAM, "replay", "a"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tsn-probe: {why}")


def test_what_is_sent_again_and_again_costs_no_memory_for_each_time():
    timeline = Timeline(lasts_ns=10)
    timeline.add(0, 100)
    assert sum(1 for _ in timeline.until(10_000)) == 1000
    assert len(timeline.at_ns) == 1
