"""Gates of a talker's own port keep its best effort back while its streams are due."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc import app
from cnc import intent as intents
from cnc.model import NS_PER_S, Intent, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.rollout.history import History
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.flows import Flow, Pattern, flows, saturating_period_ns
from cnc.testbed.traffic.measure import Summary, summarise
from cnc.testbed.traffic.recording import run

pytestmark = pytest.mark.virtual_time

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
MS = 1_000_000
DURATION_NS = 300 * MS
PORT = PortRef("t1", "eth0")
OWN = ("motion", "torque")  # the streams that t1 sends


def with_station(gates: str | None) -> Intent:
    """line3 with an agent at t1, whose port has gates or none; the plan counts on no best effort of
    its own in either case, and on nearly no control, of which the lab sends none: a bound with room
    for more of it could hold best effort instead."""
    document = intents.load(LINE3).document
    classes = {**document["classes"]}
    classes["control"] = {**classes["control"], "rate": "1Mbps"}
    station = {"management": "10.99.0.11", **({"gates": gates} if gates else {})}
    stations = {name: {} for name in document["end-stations"]} | {"t1": station}
    return intents.from_document(
        {**document, "name": "talker", "classes": classes, "end-stations": stations},
        "line3.yaml with gates at t1",
    )


@pytest.fixture(scope="module")
def gated() -> Plan:
    return compute(with_station("software"))


@pytest.fixture(scope="module")
def running(gated: Plan) -> Iterator[Lab]:
    with lab(gated.intent, timed_wires=True) as found:
        yield found


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with History(tmp_path_factory.mktemp("history") / "history.sqlite") as found:
        yield found


def beside_best_effort_of_t1(running: Lab, plan: Plan, directory: Path) -> dict[str, Summary]:
    """What becomes of the streams, and of as much best effort as t1 can send."""
    streams = [flow for flow in flows(plan) if flow.latency_bound_ns is not None]
    period_ns = saturating_period_ns(running.intent, "t1", "l2", 1_400)
    bulk = Flow("bulk", "t1", "l2", 0, 6, 0, 1_400, period_ns, 0, None, Pattern.SATURATING)
    sent = [*streams, bulk]
    with running.quiet():
        record = run(running, sent, DURATION_NS, directory)
    return {each.flow.name: each for each in summarise(plan, sent, record, timed_wires=True)}


def bring(running: Lab, history: History, plan: Plan) -> None:
    """Push a plan and wait until it runs."""
    report = push(plan, connect=running.connect, history=history)
    start_ns = report.base_time_ns or tai_ns()
    time.sleep(max(0, start_ns + MS - tai_ns()) / NS_PER_S)


def verdict_at_port(running: Lab, plan: Plan) -> str:
    (port,) = (each for each in status(plan, connect=running.connect) if each.port == PORT)
    return port.verdict


def qdiscs(running: Lab) -> str:
    command = running.command("t1", ["tc", "qdisc", "show", "dev", PORT.port])
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_best_effort_of_a_talker_with_gates_makes_none_of_its_frames_late(
    running: Lab, history: History, gated: Plan, tmp_path: Path
):
    bring(running, history, gated)
    assert verdict_at_port(running, gated) == "running; talkers know their offsets"
    found = beside_best_effort_of_t1(running, gated, tmp_path)
    for name in gated.streams:
        assert found[name].sent >= DURATION_NS // gated.intent.streams[name].period_ns
        assert (found[name].lost, found[name].late) == (0, 0), found[name]
    # It has the rest of the link, of which gates and guard bands take a part.
    most = DURATION_NS // found["bulk"].flow.period_ns
    assert 0.5 * most < found["bulk"].received < 0.99 * most


def test_without_the_gates_best_effort_of_the_talker_gets_in_the_way(
    running: Lab, history: History, gated: Plan, tmp_path: Path
):
    bring(running, history, gated)
    without = compute(with_station(None), keep=gated)
    assert without.streams == gated.streams
    bring(running, history, without)
    assert verdict_at_port(running, without) == "talkers know their offsets"
    assert "taprio" not in qdiscs(running)
    found = beside_best_effort_of_t1(running, without, tmp_path)
    assert all(found[name].late for name in OWN), found


def test_a_rollback_brings_the_list_of_a_talker_back(running: Lab, history: History, gated: Plan):
    bring(running, history, gated)
    bring(running, history, compute(with_station(None), keep=gated))
    before = app.former_rollout(history)
    bring(running, history, app.plan_of_rollout(history, before.number))
    assert verdict_at_port(running, gated) == "running; talkers know their offsets"
    assert "taprio" in qdiscs(running)
