"""Traffic through an emulated network: what is sent when, and what the record of it says."""

from __future__ import annotations

import dataclasses
import itertools
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import intent as intents
from cnc.captures.gate import Gate
from cnc.errors import CncError, InputError
from cnc.model import NS_PER_S, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.talker.clock import tai_offset_ns
from cnc.testbed.cli.traffic import traffic
from cnc.testbed.lab import Lab, lab, namespaces, topology
from cnc.testbed.lab.addressing import port_addresses
from cnc.testbed.lab.attach import attach
from cnc.testbed.traffic import iperf
from cnc.testbed.traffic.flows import Flow, Pattern, flows, saturating_period_ns
from cnc.testbed.traffic.recording import run
from cnc.testbed.traffic.tap import Tap, TappedFrame
from tests import pcapng_reader

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
ETHERNET_HEADER_OCTETS, MOTION_OCTETS, IPV6 = 14, 200, b"\x86\xdd"
MS = 1_000_000
# Reading a clock takes this much virtual time, and every time stamp is a reading.
CLOCK_NS = 256


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    """The lab of line3 with the plan of line3, once it runs."""
    intent = intents.load(LINE3)
    with lab(intent, timed_wires=True) as found:
        report = push(compute(intent), connect=found.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        yield found


@pytest.fixture
def capturing(running: Lab, tmp_path: Path) -> Iterator[Callable[[], pcapng_reader.Contents]]:
    """Captures s1/s2 and s3/l1; call it to end the capture and to have what is in it."""
    file = tmp_path / "capture.pcapng"
    command = [sys.executable, "-m", "cnc", "lab", "capture", "s1/s2", "s3/l1", "-o", str(file)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def end() -> pcapng_reader.Contents:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        return pcapng_reader.read(file.read_bytes())

    try:
        while not (file.exists() and file.stat().st_size):
            assert process.poll() is None, process.stderr
            time.sleep(0.01)
        yield end
    finally:
        process.kill()
        process.wait()


def test_nothing_is_on_the_cables_of_a_lab_that_nobody_sends():
    intent = dataclasses.replace(intents.load(LINE3), name="still")
    network = intent.network
    nodes = (*network.bridges, *network.end_stations)
    names = [namespaces.of_node(intent.name, node) for node in nodes]
    with ExitStack() as stack:
        stack.callback(topology.remove, intent.name, names)
        topology.build(intent, timed_wires=True)
        time.sleep(0.1)  # in which nodes report the multicast groups that they are in
        taps = [stack.enter_context(closing(Tap(intent.name, port))) for port in network.links]
        time.sleep(15)
        seen = [(tap.port, frame) for tap in taps for frame in taken(tap)]
    assert seen == []


def taken(tap: Tap) -> Iterator[TappedFrame]:
    with suppress(BlockingIOError):
        while True:
            yield tap.take(flags=socket.MSG_DONTWAIT)


def saturating(running: Lab, talker: str, listener: str) -> Flow:
    period_ns = saturating_period_ns(running.intent, talker, listener, 1000)
    return Flow(
        "bulk", talker, listener, 0, 6, 0, 1000, period_ns, 0, None, pattern=Pattern.SATURATING
    )


@pytest.mark.virtual_time
@pytest.mark.parametrize("stamps", [False, True])
def test_a_run_that_is_repeated_in_virtual_time_gives_the_same_record(
    running: Lab, tmp_path: Path, stamps: bool
):
    """A program outside the lab that reads a clock as a talker wakes delays one frame by `CLOCK_NS`
    and more. It hits one run, and not in two runs the same frame."""
    sent = flows(compute(running.intent))
    records: list[bytes] = []
    with running.quiet():
        for repetition in ("one", "two", "three", "four"):
            run(running, sent, 200 * MS, tmp_path / repetition, stamps=stamps)
            record = (tmp_path / repetition / "frames.csv").read_bytes()
            if record in records:
                return
            records.append(record)
    first, second, *_ = (record.decode().splitlines() for record in records)
    differing = [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]]
    pytest.fail(f"4 runs, no two alike; of the first two {len(differing)} lines: {differing[:5]}")


def test_a_flow_that_is_chosen_has_stamps_and_costs_the_others_none(running: Lab, tmp_path: Path):
    sent = flows(compute(running.intent))
    record = run(running, sent, 100 * MS, tmp_path, stamps=["motion"])
    assert {frame.flow for frame in record if frame.left_ns is not None} == {"motion"}
    assert all(frame.left_ns is not None for frame in record if frame.flow == "motion")
    with pytest.raises(InputError, match="stamps: found the flow 'none', expected one of"):
        run(running, sent, 100 * MS, tmp_path, stamps=["none"])


def test_stamps_say_when_a_frame_entered_the_queue_and_when_it_left(running: Lab, tmp_path: Path):
    sent = flows(compute(running.intent))
    record = run(running, sent, 100 * MS, tmp_path, stamps=True)
    assert {frame.copies for frame in record} == {1}
    for frame in record:
        assert frame.sent_ns <= frame.scheduled_ns <= frame.left_ns <= frame.received_ns
    # An end station's port has no gates: what enters its queue leaves it. A switch's has.
    assert any(
        frame.left_ns - frame.scheduled_ns > 10_000
        for frame in record
        if frame.flow.startswith("background s1")
    )


@pytest.mark.virtual_time
def test_a_capture_has_every_frame_of_a_port_and_when_its_gate_let_it_go(
    running: Lab, tmp_path: Path, capturing: Callable[[], pcapng_reader.Contents]
):
    plan = compute(running.intent)
    with running.quiet():
        record = run(running, flows(plan), 100 * MS, tmp_path / "run")
    found = capturing()
    assert found.dropped == {"s1/s2": 0, "s3/l1": 0}
    talker = port_addresses(running.intent.network)[PortRef("t1", "eth0")]
    assert found.names[str(talker.v6.ip)] == "t1"
    assert found.names[talker.mac] == "t1/eth0"

    sent = [frame for frame in record if frame.flow == "motion"]
    begin_ns = sent[0].planned_ns  # before it each talker sends a frame that is not recorded
    captured = [
        frame.time_ns + tai_offset_ns()
        for frame in found.frames
        if frame.port == "s1/s2" and len(frame.octets) == ETHERNET_HEADER_OCTETS + MOTION_OCTETS
        if frame.octets[12:14] == IPV6 and frame.is_leaving
    ]
    left = [instant_ns for instant_ns in captured if instant_ns > begin_ns]
    assert len(left) == len(sent) > 50
    gates = plan.gates[PortRef("s1", "s2")]
    assert max(Gate(gates, 6).shut_ns(instant_ns) for instant_ns in left) <= 8 * CLOCK_NS


@pytest.mark.virtual_time
def test_frames_of_a_switch_leave_it_only_while_their_gate_is_open(running: Lab, tmp_path: Path):
    plan = compute(running.intent)
    with running.quiet():
        record = run(running, flows(plan), 100 * MS, tmp_path, stamps=True)
    gates = plan.gates[PortRef("s1", "s2")]
    left = [frame.left_ns for frame in record if frame.flow.startswith("background s1")]
    assert len(left) > 100
    assert max(Gate(gates, 0).shut_ns(instant_ns) for instant_ns in left) <= 8 * CLOCK_NS


@pytest.mark.virtual_time
def test_a_saturating_end_station_fills_its_cable_and_ends(running: Lab, tmp_path: Path):
    flow = saturating(running, "t1", "l2")
    with running.quiet():
        record = run(running, [flow], 10 * MS, tmp_path)
    assert len(record) == -(-10 * MS // flow.period_ns)
    assert {frame.copies for frame in record} == {1}


@pytest.mark.virtual_time
def test_a_saturating_talker_waits_in_the_kernel_while_its_gate_is_closed(
    running: Lab, tmp_path: Path
):
    flow = saturating(running, "s1", "l1")
    gates = compute(running.intent).gates[PortRef("s1", "s2")]
    closed_ns = max(entry.interval_ns for entry in gates.entries if not entry.gate_states & 1)
    with running.quiet():
        record = run(running, [flow], 20 * MS, tmp_path, stamps=True)
    assert {frame.copies for frame in record} == {1}
    assert 0.5 * 20 * MS / flow.period_ns < len(record) <= 20 * MS / flow.period_ns + 1
    waits_ns = [after.sent_ns - before.sent_ns for before, after in itertools.pairwise(record)]
    assert max(waits_ns) > 0.5 * closed_ns
    left = [frame.left_ns for frame in record]
    assert max(Gate(gates, 0).shut_ns(instant_ns) for instant_ns in left) <= 16 * CLOCK_NS


@pytest.mark.virtual_time
def test_a_saturating_talker_ends_even_if_its_gate_never_opens(running: Lab, tmp_path: Path):
    shut = "root handle 1: taprio num_tc 2 map 0 1 queues 1@0 1@1 base-time 0 clockid CLOCK_TAI"
    entries = "sched-entry S 02 1000000"
    command = f"tc qdisc replace dev eth0 {shut} {entries}".split()
    subprocess.run(running.command("t2", command), check=True)
    try:
        with running.quiet():
            record = run(running, [saturating(running, "t2", "l2")], 20 * MS, tmp_path)
    finally:
        clean = ["tc", "qdisc", "del", "dev", "eth0", "root"]
        subprocess.run(running.command("t2", clean), check=True)
    assert 0 < len(record) < 20
    assert {frame.received_ns for frame in record} == {None}


def test_the_command_sends_the_streams_of_an_intent_and_keeps_the_record(
    running: Lab, tmp_path: Path
):
    arguments = [str(LINE3), "--cycles", "20", "--stamps", "-o", str(tmp_path)]
    done = CliRunner().invoke(traffic, arguments, catch_exceptions=False)
    assert "motion" in done.output
    assert "background s1 to l1" in done.output
    assert len((tmp_path / "frames.csv").read_text().splitlines()) > 200


@pytest.mark.virtual_time
def test_the_command_succeeds_where_every_frame_keeps_its_promise(running: Lab):
    done = CliRunner().invoke(traffic, [str(LINE3), "--json"], catch_exceptions=False)
    found = {flow["flow"]["name"]: flow for flow in json.loads(done.stdout)["flows"]}
    assert found["torque"]["sent"] == found["torque"]["received"] == 2_000
    assert found["torque"]["late"] == 0
    assert done.exit_code == 0


@pytest.mark.virtual_time
def test_the_command_fails_where_a_frame_is_lost(running: Lab):
    forwarding = "net.ipv4.conf.s1.forwarding"
    subprocess.run(running.command("s2", ["sysctl", f"{forwarding}=0"]), check=True)
    try:
        done = CliRunner().invoke(traffic, [str(LINE3), "--cycles", "5", "--json"])
    finally:
        subprocess.run(running.command("s2", ["sysctl", f"{forwarding}=1"]), check=True)
    found = {flow["flow"]["name"]: flow for flow in json.loads(done.stdout)["flows"]}
    assert found["torque"]["lost"] == found["torque"]["sent"] == 20
    assert found["motion"]["lost"] == 0
    assert done.exit_code == CncError.exit_code


def test_the_command_sends_the_flows_of_a_file(running: Lab, tmp_path: Path):
    file = tmp_path / "flows.yaml"
    file.write_text(
        "flows:\n"
        "  - {name: video, talker: t1, listener: l2, pattern: cbr, rate: 10Mbps, payload: 1250B}\n"
    )
    arguments = [str(LINE3), "--flows", str(file), "--duration", "100ms", "--json"]
    done = CliRunner().invoke(traffic, arguments, catch_exceptions=False)
    (flow,) = json.loads(done.stdout)["flows"]
    assert (flow["flow"]["name"], flow["sent"], flow["received"]) == ("video", 100, 100)


def test_a_lab_is_found_by_its_intent_only_if_it_was_made_for_it(running: Lab):
    found = attach(running.intent)
    assert found == running
    assert found.nodes.timed_wires
    links = {
        port: link
        for port, link in running.intent.network.links.items()
        if "l2" not in {port.node, link.target.node}
    }
    network = dataclasses.replace(running.intent.network, links=links)
    with pytest.raises(CncError, match="has other nodes or cables"):
        attach(dataclasses.replace(running.intent, network=network))
    with pytest.raises(CncError, match="lab other is not up"):
        attach(dataclasses.replace(running.intent, name="other"))


@pytest.mark.parametrize("rate_bps", [None, 10_000_000])
def test_iperf3_sends_through_the_lab_and_tells_its_figures(running: Lab, rate_bps: int | None):
    found = iperf.measure(running, "t1", "l2", NS_PER_S, rate_bps)
    assert found.protocol == ("TCP" if rate_bps is None else "UDP")
    assert found.received_bps > 1_000_000
