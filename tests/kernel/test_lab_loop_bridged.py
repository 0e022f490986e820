"""A control loop over a lab whose switches bridge, with a controller of the operator's."""

from __future__ import annotations

import time
from copy import deepcopy
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.loops.model import Loops
from cnc.model import NS_PER_S
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed.lab import lab
from cnc.testbed.traffic.loop import run

FILE = Path(__file__).parents[2] / "schedules" / "loop.yaml"

pytestmark = pytest.mark.virtual_time

CONTROLLER = """
def make(period_s):
    integral = 0.0

    def step(reference, sample):
        nonlocal integral
        error = reference - sample
        integral = integral + 250.0 * error * period_s
        return error + integral

    return step
"""


def test_a_controller_of_the_operator_closes_a_loop_where_switches_bridge(tmp_path: Path) -> None:
    document = deepcopy(dict(intents.load(FILE).document))
    document["forwarding"] = "bridged"
    for its in document["classes"].values():
        del its["dscp"]
    for its in document["streams"].values():
        del its["ip"]
    document["loops"]["axis"]["controller"] = {"python": "mine:make"}
    (tmp_path / "mine.py").write_text(CONTROLLER)
    intent = intents.from_document(document, "loop.yaml, bridged")
    with lab(intent, timed_wires=True) as running:
        plan = compute(running.intent)
        report = push(plan, connect=running.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        with running.quiet():
            axis = plan.intent[Loops].by_name["axis"]
            curve = run.run(running, plan, axis, tmp_path / "run", modules=tmp_path)
    assert (curve.missed, curve.lost_samples, curve.lost_commands) == (0, 0, 0)
    assert max(curve.delays_ns) <= plan.loops["axis"].total_ns
    expected = run.undisturbed(intents.load(FILE)[Loops].by_name["axis"])
    assert curve.outputs == pytest.approx(expected, rel=1e-9)
