"""Streams by a credit-based shaper and by strict priority, beside planned ones and best effort.

talkers ══ s1 ══ s2 ══ s3 ══ listeners
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.cbs.model import Shapers
from agent.switch import Switch
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.model import NS_PER_S, Plan, PortRef, Theory
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.rollout.history import History
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.namespaces import inside
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.recording import run
from tests.unit.shaped_networks import intent_of, stream

SWITCHES = 3
LAST = PortRef(f"s{SWITCHES}", "l1")
BACKGROUND_NS = 311_000  # of each flow of best effort
DURATION_NS = int(float(os.environ.get("TSN_SHAPER_SECONDS", "1")) * NS_PER_S)
STREAMS = {
    "video1": stream("t1", period="3.3ms", frames=2),
    "video2": stream("t2", period="2.5ms"),
    "audio": stream("t1", "l1", "l2", period="2.1ms", payload="300B", **{"class": "audio"}),
    "alarm": stream("t2", period="5ms", payload="200B", **{"class": "events"}),
    "axis": stream("t3", **{"class": "axes", "payload": "100B", "period": "1ms"}),
}

pytestmark = pytest.mark.virtual_time


def slopes_in_kernel(running: Lab, port: PortRef) -> dict[int, int]:
    def read_here() -> dict[int, int]:
        opened = KernelPorts(MECHANISMS)
        try:
            its = Switch(opened).read()[port.port][Shapers].queues
            return {each.traffic_class: each.idle_slope_bps for each in its}
        finally:
            opened.close()

    return inside(running.namespace(port.node), read_here)


def bring(running: Lab, plan: Plan, history: History) -> None:
    report = push(plan, connect=running.connect, history=history)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)


def test_every_frame_of_each_theory_arrives_within_its_bound(tmp_path: Path) -> None:
    intent = intent_of(switches=SWITCHES, talkers=3, streams=STREAMS)
    plan = compute(intent)
    with lab(intent, timed_wires=True) as running, History(None) as history:
        bring(running, plan, history)
        assert {its.theory for its in plan.streams.values()} == {
            Theory.CBS,
            Theory.STRICT,
            Theory.SCHEDULED,
        }
        assert slopes_in_kernel(running, LAST) == plan[IdleSlopes].by_port[LAST]
        sent = [
            each if each.latency_bound_ns else replace(each, period_ns=BACKGROUND_NS)
            for each in flows(plan)
        ]
        with running.quiet():
            record = run(running, sent, DURATION_NS, tmp_path)
        found = [
            each
            for each in summarise(plan, sent, record, timed_wires=True)
            if each.flow.latency_bound_ns
        ]
        for each in found:
            assert each.latency is not None
            bound_ns = each.flow.latency_bound_ns or 0
            print(
                f"{each.flow.name}: {each.sent} frames, {each.latency.min_ns} to "
                f"{each.latency.max_ns} ns, bound {bound_ns} ns"
            )
            assert each.latency.max_ns <= bound_ns
        assert len(found) == len(STREAMS) + 1  # audio has two listeners
        assert {(each.lost, each.late, each.out_of_order) for each in found} == {(0, 0, 0)}
        assert all(each.agrees for each in status(plan, connect=running.connect))

        # Without shaped streams no trace is left of them.
        planned = {"axis": STREAMS["axis"]}
        bring(running, compute(intent_of(switches=SWITCHES, talkers=3, streams=planned)), history)
        assert slopes_in_kernel(running, LAST) == {}
