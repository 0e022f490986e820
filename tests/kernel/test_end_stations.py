"""Talkers send when the agent of their station says, and follow a push that moves their stream."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import app, rollout
from cnc.errors import CncError
from cnc.model import NS_PER_S, MeasuredMargin, Plan, PortRef, TalkerStreams
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.talker import OffsetFile, tai_ns
from cnc.talker.lateness import Lateness
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.switch import AGENT
from cnc.testbed.traffic.measure import is_late
from cnc.testbed.traffic.recording import Flow, Frame, flows, run
from tests.kernel.gap import PUSHES_A_ROUND, STEP_NS, bring, moving_plans, observe, with_talkers
from tests.unit.asked import desired_ports

MS = 1_000_000
KEPT = ("torque", "camera", "valves")

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def kept() -> Plan:
    return compute(with_talkers())


@pytest.fixture(scope="module")
def running(kept: Plan) -> Iterator[Lab]:
    with lab(kept.intent, timed_wires=True) as found:
        yield found


def frames_of(record: Sequence[Frame], stream: str) -> list[Frame]:
    return [frame for frame in record if frame.flow == stream]


def offset_ns(plan: Plan, stream: str) -> int:
    return plan.streams[stream].talker_offsets_ns[0]


def lost_or_late(flow: Flow, record: Sequence[Frame]) -> list[Frame]:
    return [
        frame
        for frame in frames_of(record, flow.name)
        if frame.received_ns is None or is_late(frame, flow.latency_bound_ns or 0)
    ]


def test_a_talker_without_a_plan_says_what_is_missing(running: Lab, kept: Plan, tmp_path: Path):
    with pytest.raises(CncError) as refused:
        run(running, flows(kept), 10 * MS, tmp_path)
    assert "publishes no offset of stream" in (refused.value.hint or "")


def test_talkers_send_at_the_offsets_that_the_push_brought(
    running: Lab, kept: Plan, tmp_path: Path
):
    bring(running, kept)
    sent = flows(kept)
    with running.quiet():
        record = run(running, sent, 100 * MS, tmp_path)
    for flow in sent:
        if flow.name in kept.streams:
            own = frames_of(record, flow.name)
            assert len(own) == 100 * MS // flow.period_ns
            assert {frame.planned_ns % flow.period_ns for frame in own} == {
                offset_ns(kept, flow.name)
            }
            assert not lost_or_late(flow, record)


def test_frames_follow_a_push_that_moves_their_stream_and_no_period_is_left_out(
    running: Lab, kept: Plan, tmp_path: Path
):
    bring(running, kept)
    moved = next(moving_plans(kept))
    assert offset_ns(moved, "motion") != offset_ns(kept, "motion")
    assert all(offset_ns(moved, name) == offset_ns(kept, name) for name in KEPT)
    sent = flows(kept)
    with ThreadPoolExecutor(max_workers=1) as pool:
        grid_ns = kept.intent.hyperperiod_ns()
        traffic = pool.submit(run, running, sent, 10 * NS_PER_S, tmp_path, grid_ns=grid_ns)
        time.sleep(2)
        base_time_ns = push(moved, connect=running.connect).base_time_ns or 0
        record = traffic.result()
    motion = frames_of(record, "motion")
    assert motion[0].planned_ns < base_time_ns < motion[-1].planned_ns
    first = motion[0].planned_ns // MS
    assert [frame.planned_ns // MS for frame in motion] == list(range(first, first + 10_000))
    for frame in motion:
        in_force = moved if frame.planned_ns // MS * MS >= base_time_ns else kept
        assert frame.planned_ns % MS == offset_ns(in_force, "motion")
    for flow in sent:
        assert flow.latency_bound_ns is None or not lost_or_late(flow, record)


def test_how_late_a_talker_sends_is_taken_by_the_next_plan(running: Lab, kept: Plan):
    bring(running, kept)
    assert not app.limit(kept.intent, connect=running.connect).measured_lateness
    talker = ["motion", "127.0.0.1", "--frames", "1000"]
    talker += ["--offsets", str(running.offsets_file("t1"))]
    program = [sys.executable, "-m", "cnc.talker", *talker]
    subprocess.run(running.command("t1", program), check=True, capture_output=True, timeout=600)
    said = rollout.read_ports(kept.intent.network, connect=running.connect).lateness
    assert list(said) == [PortRef("t1", "eth0")]
    assert said[PortRef("t1", "eth0")].count == 999  # all but the last, which nothing followed
    # A program that sleeps for as long as no other needs the processor; the reading of clocks alone
    # takes time.
    assert said[PortRef("t1", "eth0")].maximum_ns < 10_000
    late = Lateness.of(running.offsets_file("t1"), "motion", 1)
    late.add(43_000)
    late.write()
    unstated = replace(kept.intent, document={**kept.intent.document, "defaults": {}})
    later = app.limit(unstated.with_gate_margin(20_000), connect=running.connect)
    measured = MeasuredMargin(50_000, PortRef("t1", "eth0"), 43_000, 1)
    assert later.measured_lateness == {"t1": measured}


def test_no_frame_is_lost_over_pushes_that_move_a_stream_and_move_it_back(running: Lab, kept: Plan):
    bring(running, kept)
    found = observe(
        running, flows(kept), list(itertools.islice(moving_plans(kept), PUSHES_A_ROUND)), STEP_NS
    )
    assert found.sound, found
    assert all(("t1", "eth0") in one.planned for one in found.pushes)
    assert all(("t2", "eth0") not in one.planned for one in found.pushes)


def test_an_agent_that_is_killed_leaves_the_talkers_their_offsets(running: Lab, kept: Plan):
    bring(running, kept)
    file = OffsetFile(running.offsets_file("t1"))
    before = file.path.read_bytes()
    running.kill("t1", AGENT)
    assert file.path.read_bytes() == before
    running.start("t1", AGENT)
    running.wait_ready()
    assert file.offsets().departure("motion", tai_ns())
    assert all(each.agrees for each in status(kept, connect=running.connect))


def test_a_file_that_somebody_removed_is_reported_and_a_push_writes_it_again(
    running: Lab, kept: Plan
):
    bring(running, kept)
    running.offsets_file("t1").unlink()
    (port,) = (each for each in status(kept, connect=running.connect) if each.port.node == "t1")
    assert "no offsets are published" in port.verdict
    report = push(kept, connect=running.connect)
    assert [each.port.node for each in report.changes] == ["t1"]
    document = json.loads(running.offsets_file("t1").read_text())
    names = [each["name"] for each in document["interfaces"]["eth0"]["pending"]["stream"]]
    told = desired_ports(kept, "t1")["eth0"][TalkerStreams]
    assert names == [each.name for each in told.streams]
