"""Streams of an end station with a launch time, pushed, sent and taken away in a lab."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cnc import app
from cnc import intent as intents
from cnc.errors import RolloutError
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.rollout.history import History
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.measure import Summary, summarise
from cnc.testbed.traffic.recording import run

pytestmark = pytest.mark.virtual_time

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
MS = 1_000_000
DURATION_NS = 300 * MS
PORT = PortRef("t1", "eth0")
SOFTWARE = {"launch-time": "software", "launch-error": "1us"}


def planned(**t1: str) -> Plan:
    """line3 with an agent at t1, whose station has these keys."""
    document = intents.load(LINE3).document
    stations = {name: {} for name in document["end-stations"]}
    stations["t1"] = {"management": "10.99.0.11", **t1}
    return compute(
        intents.from_document({**document, "name": "launch", "end-stations": stations}, "line3")
    )


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    with lab(planned(**SOFTWARE, gates="software").intent, timed_wires=True) as found:
        yield found


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with History(tmp_path_factory.mktemp("history") / "history.sqlite") as found:
        yield found


def bring(running: Lab, history: History, plan: Plan) -> None:
    """Push a plan and wait until it runs."""
    report = push(plan, connect=running.connect, history=history)
    start_ns = report.base_time_ns or tai_ns()
    time.sleep(max(0, start_ns + MS - tai_ns()) / NS_PER_S)


def verdict(running: Lab, plan: Plan) -> str:
    (port,) = (each for each in status(plan, connect=running.connect) if each.port == PORT)
    return port.verdict


def in_t1(running: Lab, command: str) -> str:
    argv = running.command("t1", command.split())
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def qdiscs(running: Lab) -> list[str]:
    shown = in_t1(running, f"tc qdisc show dev {PORT.port}").splitlines()
    return [line for line in shown if "etf" in line or "root" in line]


def sent(running: Lab, plan: Plan, directory: Path) -> Mapping[str, Summary]:
    streams = [flow for flow in flows(plan) if flow.latency_bound_ns is not None]
    with running.quiet():
        record = run(running, streams, DURATION_NS, directory)
    found = summarise(plan, streams, record, timed_wires=True)
    return {each.flow.name: each for each in found}


@pytest.mark.parametrize("gates", [{}, {"gates": "software"}], ids=["plain", "gates"])
def test_frames_that_state_when_they_leave_keep_their_bounds(
    running: Lab, history: History, tmp_path: Path, gates: dict[str, str]
):
    plan = planned(**SOFTWARE, **gates)
    bring(running, history, plan)
    assert "launch time in software" in verdict(running, plan)
    assert any("etf" in line for line in qdiscs(running))
    for name, its in sent(running, plan, tmp_path).items():
        assert its.sent >= DURATION_NS // plan.intent.streams[name].period_ns
        assert (its.lost, its.late) == (0, 0), its


def test_a_qdisc_that_is_gone_is_seen_and_set_again(running: Lab, history: History, eventually):
    plan = planned(**SOFTWARE)
    bring(running, history, plan)
    in_t1(running, f"tc qdisc del dev {PORT.port} root")
    difference = "launch time of priority 6 is none, expected software, delta 500 µs"
    eventually(lambda: difference in verdict(running, plan))
    bring(running, history, plan)
    assert "launch time in software" in verdict(running, plan)


def test_hardware_that_the_device_lacks_is_refused_and_nothing_changes(
    running: Lab, history: History, eventually
):
    before = planned(**SOFTWARE)
    bring(running, history, before)
    shown = qdiscs(running)
    with pytest.raises(RolloutError, match="Specified device does not support ETF offload"):
        bring(running, history, planned(**{"launch-time": "hardware"}))
    assert qdiscs(running) == shown
    eventually(lambda: "launch time in software" in verdict(running, before))


def test_a_plan_without_it_takes_it_away_and_a_rollback_brings_it_again(
    running: Lab, history: History
):
    bring(running, history, planned(**SOFTWARE))
    without = planned()
    bring(running, history, without)
    assert not any("etf" in line or "mqprio" in line for line in qdiscs(running))
    assert verdict(running, without) == "talkers know their offsets"
    before = app.former_rollout(history)
    bring(running, history, app.plan_of_rollout(history, before.number))
    assert any("etf" in line for line in qdiscs(running))
