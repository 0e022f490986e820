"""Loops that follow a path over a lab: a conveyor, and plants of first and second order."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.loops.model import Loops
from cnc.model import Plan
from cnc.planner import plan as compute
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.path_error import distances, path_error
from tests.kernel.test_lab_loop import pushed

DOCUMENT = intents.load(Path(__file__).parents[2] / "schedules" / "arm.yaml").document
# In place of the arm and its circle.
LOOPS: dict[str, dict[str, Any]] = {
    "a conveyor that is moved on": {
        "plant": {"conveyor": {"speed": 0.8, "time-constant": "20ms"}},
        "controller": {"pi": {"kp": 60, "ki": 100, "limit": 1}},
        "path": {"ramp": 0.05},
    },
    "a conveyor that is moved to and fro": {
        "plant": {"conveyor": {"speed": 0.8, "time-constant": "20ms"}},
        "controller": {"pi": {"kp": 60, "ki": 100, "limit": 1}},
        "path": {"sine": {"amplitude": 0.02, "period": "100ms"}},
    },
    "a plant of first order": {
        "plant": {"order": 1, "gain": 1, "time-constant": "5ms"},
        "controller": {"pi": {"kp": 1, "ki": 250, "limit": 10}},
        "path": {"sine": {"amplitude": 1, "period": "50ms"}},
    },
    "a plant of second order": {
        "plant": {"order": 2, "gain": 1, "time-constant": "5ms", "damping": 0.5},
        "controller": {"pi": {"kp": 1, "ki": 100, "limit": 10}},
        "path": {"ramp": 1},
    },
}

pytestmark = pytest.mark.virtual_time


def following(keys: Mapping[str, Any]) -> intents.Intent:
    """arm.yaml with another plant, which follows another path."""
    document = deepcopy(dict(DOCUMENT))
    loop = document["loops"]["tip"]
    del loop["accept"]
    loop.update(keys, duration="100ms")
    return intents.from_document(document, "arm.yaml")


@pytest.fixture(scope="module")
def scheduled() -> Iterator[tuple[Lab, Plan]]:
    with lab(following(LOOPS["a plant of first order"]), timed_wires=True) as running:
        yield running, pushed(running)


@pytest.mark.parametrize("what", LOOPS)
def test_a_plant_follows_its_path_as_over_an_idle_network_to_the_last_digit(
    scheduled: tuple[Lab, Plan], tmp_path: Path, what: str
) -> None:
    running, _ = scheduled
    plan = compute(following(LOOPS[what]))
    loop = plan.intent[Loops].by_name["tip"]
    with running.quiet():
        curve = run.run(running, plan, loop, tmp_path)
    undisturbed = run.undisturbed_axes(loop)
    assert curve.axes == undisturbed
    assert (curve.missed, curve.lost_samples, curve.lost_commands) == (0, 0, 0)
    assert max(curve.delays_ns) <= plan.loops["tip"].total_ns
    found = path_error(loop, curve.axes)
    assert found == path_error(loop, undisturbed)
    assert found
    assert found.maximum
    with (tmp_path / run.FILE).open(newline="") as file:
        errors = [float(row["path_error"]) for row in csv.DictReader(file)]
    assert errors == distances(loop, undisturbed)
    assert max(errors) == found.maximum
