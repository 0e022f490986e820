"""Captured packets sent through the lab of line3, beside its streams, in virtual time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic import flowfile
from cnc.testbed.traffic.flows import AnyFlow, flows
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.recording import Recording, run
from cnc.testbed.traffic.replay.flow import ReplayedFlow

CHECKOUT = Path(__file__).parents[2]
LINE3 = CHECKOUT / "schedules" / "line3.yaml"
BURSTY = CHECKOUT / "schedules" / "captures" / "bursty.pcap.gz"
US, MS = 1_000, 1_000_000
pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compute(intents.load(LINE3))


@pytest.fixture(scope="module")
def running(plan: Plan) -> Iterator[Lab]:
    """The lab of line3 with its plan, once it runs."""
    with lab(plan.intent, timed_wires=True) as found:
        report = push(plan, connect=found.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        yield found


def beside(plan: Plan, directory: Path, speed: int) -> Sequence[AnyFlow]:
    """The streams of line3, and the capture at a speed, both ways between t1 and l2."""
    file = directory / "flows.yaml"
    file.write_text(
        f"flows: [{{name: office, replay: {{pcap: {BURSTY}, speed: {speed}, "
        "addresses: {10.1.0.0/16: t1, 192.0.2.0/24: l2}}}]"
    )
    streams = [flow for flow in flows(plan) if flow.latency_bound_ns is not None]
    return flowfile.beside(streams, flowfile.load(file, plan.intent))


def sent_by(running: Lab, sent: Sequence[AnyFlow], directory: Path, *, stamps: bool) -> Recording:
    with running.quiet():
        return run(running, sent, NS_PER_S, directory, stamps=stamps)


@pytest.mark.parametrize("stamps", [False, True])
def test_every_captured_packet_leaves_within_a_microsecond_of_its_instant(
    running: Lab, plan: Plan, tmp_path: Path, stamps: bool
):
    sent = beside(plan, tmp_path, speed=5)
    record = sent_by(running, sent, tmp_path / "one", stamps=stamps)
    its = {flow.name: flow for flow in sent if isinstance(flow, ReplayedFlow)}
    assert sorted(its) == ["office l2 to t1", "office t1 to l2"]
    for name, flow in its.items():
        frames = [frame for frame in record if frame.flow == name]
        planned = [(f.planned_ns - record.start_ns, flow.timeline.octets_of(f.seq)) for f in frames]
        assert planned == [*flow.timeline.until(NS_PER_S)]
        assert {frame.copies for frame in frames} == {1}
        assert all(f.received_ns and f.received_ns > f.planned_ns for f in frames)
        if stamps:  # each takes time: talkers that wake together are up to 4 us late
            assert max((f.left_ns or 0) - f.planned_ns for f in frames) <= 4 * US
        else:
            assert max(frame.sent_ns - frame.planned_ns for frame in frames) <= US


def test_streams_are_in_time_beside_a_capture_at_five_times_its_speed(
    running: Lab, plan: Plan, tmp_path: Path
):
    sent = beside(plan, tmp_path, speed=5)
    record = sent_by(running, sent, tmp_path / "one", stamps=False)
    summaries = summarise(plan, sent, record, timed_wires=True)
    assert [line for each in summaries for line in each.violations()] == []
    octets = sum(
        octets
        for flow in sent
        if isinstance(flow, ReplayedFlow)
        for _, octets in flow.timeline.until(NS_PER_S)
    )
    assert octets * 8 > 40_000_000  # in a second


def test_two_runs_are_equal_octet_for_octet(running: Lab, plan: Plan, tmp_path: Path):
    sent = beside(plan, tmp_path, speed=5)
    records = []
    for name in ("one", "two", "three"):
        sent_by(running, sent, tmp_path / name, stamps=False)
        records.append((tmp_path / name / "frames.csv").read_bytes())
    assert records[0] in records[1:] or records[1] == records[2]
