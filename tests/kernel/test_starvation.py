"""A network that is nearly full of best effort starves nobody, and nobody says so."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.mechanisms.gates.starvation import Starvation
from cnc.model import NS_PER_S
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.switch.device import Device
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.slower import slower
from cnc.testbed.traffic.endpoint import tai_ns
from cnc.testbed.traffic.flows import flows, saturating_period_ns
from cnc.testbed.traffic.recording import run

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
# Of line3, so that a guest can send as many frames as a link carries.
SLOWER = 50
BEST_EFFORT_PERCENT = 95
# Measurements of ten seconds, one after the other: a process keeps the frames of its measurement,
# and user-mode Linux gives it 256 MiB where its pages lie scattered (docs/reference/limits.md).
SPAN_S = 10
SPANS = int(os.environ.get("TSN_STARVATION_SPANS", "1"))
LOOK_EVERY_S = 1.0

# Of virtual time, of which a measurement takes a little more than it lasts.
pytestmark = [pytest.mark.virtual_time, pytest.mark.timeout(400 + 2 * SPANS * SPAN_S)]


class Looks(threading.Thread):
    """Looks at every switch as often as `cnc watch --interval 1`, until it is stopped."""

    def __init__(self, running: Lab) -> None:
        super().__init__(name="looks")
        self._running = running
        self._stop_asked = threading.Event()
        self.count = 0
        self.found: list[str] = []

    def run(self) -> None:
        network = self._running.intent.network
        judges = {name: Starvation(self._running.intent, name) for name in network.bridges}
        ports = {name: {p.port for p in network.links if p.node == name} for name in judges}
        while not self._stop_asked.wait(LOOK_EVERY_S):
            for name, judge in judges.items():
                with Device(network.bridges[name], self._running.connect) as device:
                    starved = judge.update(device.state(ports[name]))
                self.found += [f"{name}/{port}: {text}" for port, text in starved.items()]
            self.count += 1

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


def false_alarms(directory: Path) -> tuple[int, list[str]]:
    """How often all switches were looked at while the network was nearly full, and the alarms."""
    intent = slower(intents.load(LINE3), SLOWER)
    plan = compute(intent)
    with lab(intent) as running:
        report = push(plan, connect=running.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        looks = Looks(running)
        looks.start()
        sent = []
        for flow in flows(plan):
            if flow.latency_bound_ns is None:
                cable_ns = saturating_period_ns(
                    intent, flow.talker, flow.listener, flow.payload_octets
                )
                flow = replace(flow, period_ns=cable_ns * 2 * 100 // BEST_EFFORT_PERCENT)  # noqa: PLW2901  two such flows share a cable
            sent.append(flow)
        for _ in range(SPANS):
            run(running, sent, SPAN_S * NS_PER_S, directory)
        looks.stop()
    return looks.count, looks.found


def test_no_class_is_called_starved_while_best_effort_fills_the_links(tmp_path: Path):
    count, found = false_alarms(tmp_path)
    print(f"all switches looked at {count} times, {len(found)} alarms")
    assert count >= SPANS * SPAN_S // 2
    assert found == []
