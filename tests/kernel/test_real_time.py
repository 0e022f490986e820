"""Ten slow streams through switches without a real-time kernel, on a real clock, with the defaults.

Nothing here is said of when frames arrive: a busy machine may be late by any time. They arrive.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.data_tree.tree import GatesReport
from cnc.mechanisms.measurements import EXACT_MAX_NS
from cnc.mechanisms.second_look import Found, second_look
from cnc.model import DEFAULT_GATE_MARGIN_NS, NS_PER_S, Intent, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.support.format import duration
from cnc.switch.device import Device
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.endpoint import tai_ns
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.recording import Recording, run
from tests.bridged_networks import stream
from tests.kernel.test_lab_policing import refused

SCHEDULES = Path(__file__).parents[2] / "schedules"
STREAMS = 10
TALKER_LATENESS_NS = 350_000_000  # beside whatever else a machine does
MEASURED_LIMIT_S = 120

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(900)]


def pushed(running: Lab) -> Plan:
    """The plan with the default margin, once it runs."""
    plan = compute(running.intent)
    assert not plan.intent.states_gate_margin
    assert plan.intent.network.gate_margin_ns == DEFAULT_GATE_MARGIN_NS
    report = push(plan, connect=running.connect)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
    return plan


def starved(running: Lab) -> dict[str, list[Found]]:
    """What a second look some seconds later says of every switch; nothing where no frame waits."""
    found: dict[str, list[Found]] = {}
    for bridge in running.intent.network.bridges.values():
        ports = {port.port for port in running.intent.network.links if port.node == bridge.name}
        with Device(bridge, running.connect) as device:
            found |= second_look(device.name, device.state, device.state(ports), running.intent)
    return found


def recorded(running: Lab, plan: Plan, frames: int, directory: Path) -> Recording:
    """So many of the streams' frames."""
    streams = [flow for flow in flows(plan) if flow.latency_bound_ns]
    (period_ns,) = {its.period_ns for its in plan.intent.streams.values()}
    record = run(running, streams, frames // STREAMS * period_ns, directory)
    assert len(record) == frames
    return record


def lost_of(running: Lab, plan: Plan, frames: int, directory: Path) -> int:
    """How many of the streams' frames nobody received."""
    record = recorded(running, plan, frames, directory)
    return sum(frame.received_ns is None for frame in record)


def test_a_sample_of_frames_on_a_real_clock_arrives(tmp_path: Path):
    with lab(intents.load(SCHEDULES / "slow.yaml")) as running:
        plan = pushed(running)
        assert lost_of(running, plan, 400, tmp_path) == 0
        assert starved(running) == {}


@pytest.mark.parametrize("name", ["slow", "slow3"])
def test_of_10_000_frames_on_a_real_clock_none_is_lost_and_no_class_starves(
    name: str, tmp_path: Path
):
    with lab(intents.load(SCHEDULES / f"{name}.yaml")) as running:
        plan = pushed(running)
        assert lost_of(running, plan, 10_000, tmp_path) == 0
        assert starved(running) == {}


def policed() -> Intent:
    """One switch that bridges, and drops what is late: each station sends one stream, and shares
    the machine with whatever else it does."""
    document = dict(intents.load(SCHEDULES / "slow.yaml").document)
    document |= {"name": "slow-policed", "forwarding": "bridged", "policing": "drop"}
    document["defaults"] = {**document["defaults"], "talker-lateness": f"{TALKER_LATENESS_NS}ns"}
    document["classes"] = {
        name: {key: value for key, value in its.items() if key != "dscp"}
        for name, its in document["classes"].items()
    }
    pairs = [(f"t{n}", f"l{n}") for n in range(1, STREAMS // 2 + 1)]
    document["streams"] = {
        f"{talker}-{listener}": stream(
            talker, listener, period="400ms", **{"class": "cyclic", "max-latency": "400ms"}
        )
        for pair in pairs
        for talker, listener in (pair, pair[::-1])
    }
    return intents.from_document(document, document["name"])


def test_of_10_000_frames_on_a_real_clock_a_filter_drops_those_alone_that_are_late(tmp_path: Path):
    with lab(policed()) as running:
        plan = pushed(running)
        record = recorded(running, plan, 10_000, tmp_path)
        counted = sum(refused(running, plan, "s1").values())
    lost = [frame for frame in record if frame.received_ns is None]
    # The machine may stand still after a program has read the clock, so what is nearly late may be.
    in_time = [f for f in record if f.sent_ns - f.planned_ns < TALKER_LATENESS_NS // 2]
    latest = duration(max(frame.sent_ns - frame.planned_ns for frame in record))
    print(f"{len(record)} frames, sent up to {latest} late: {counted} dropped, {len(lost)} lost")
    assert len(in_time) > len(record) // 2
    assert [frame for frame in in_time if frame.received_ns is None] == []
    # Each program sends one frame of each stream before those that are counted, at any time.
    assert len(lost) <= counted <= len(lost) + STREAMS


def asked(running: Lab, file: Path) -> subprocess.CompletedProcess[str]:
    """`cnc plan --ask-switches`, again until a switch has measured something."""
    keys = {"CNC_IDENTITY": str(running.identity), "CNC_KNOWN_HOSTS": str(running.known_hosts)}
    limit_s = time.monotonic() + MEASURED_LIMIT_S
    while True:
        done = subprocess.run(
            [sys.executable, "-m", "cnc", "plan", file, "--ask-switches"],
            env={**os.environ, **keys},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode or time.monotonic() > limit_s:
            return done


def test_a_plan_without_a_margin_is_refused_with_what_the_switches_measured():
    file = SCHEDULES / "line3.yaml"
    with lab(intents.load(file)) as running:
        done = asked(running, file)
        assert done.returncode == 2, done.stdout
        assert "gate-margin: found 0ns, but s" in done.stderr
        assert "opens its gates up to" in done.stderr
        with Device(running.intent.network.bridges["s1"], running.connect) as device:
            measured = device.state({"s2"}).ports["s2"][GatesReport].wake_ups
        assert measured is not None
        assert measured.maximum_ns > EXACT_MAX_NS
