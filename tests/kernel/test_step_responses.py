"""Step responses over a network that takes longer and loses frames, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.description import StepResponsesDescription
from cnc.testbed.experiments.step_responses import StepResponses
from cnc.testbed.experiments.step_responses.figures import draw
from cnc.testbed.lab import lab
from cnc.testbed.lab.platform import Platform
from tests.experiments import run_twice_alike

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "step-responses.yaml"
MS = 1_000_000
pytestmark = pytest.mark.virtual_time


def test_every_curve_is_the_computed_one_to_the_last_digit_and_the_same_again(tmp_path: Path):
    loaded = experiments.load(FILE)
    assert isinstance(loaded, StepResponsesDescription)
    grid = {"round_trips_ns": [0, 10 * MS], "losses": [0, 30], "seeds": [1], "tune": None}
    experiment = StepResponses.of(loaded.model_copy(update=grid), FILE)
    with lab(experiment.emulated, timed_wires=True) as running:
        run_twice_alike(experiment, running, tmp_path)
    report = experiment.report(tmp_path / "one", Platform.here())
    assert report.disagreements == []
    curves = {
        (point["round_trip_ns"], point["loss_percent"]): point["curves"][0]
        for point in report.summary["points"]
    }
    assert all(curve["is_computed"] for curve in curves.values())
    assert curves[0, 0]["overshoot"] == 0
    assert curves[10 * MS, 0]["overshoot"] == pytest.approx(0.206, abs=5e-4)
    assert curves[10 * MS, 30]["overshoot"] > curves[10 * MS, 0]["overshoot"]
    lost = draw(experiment.loop.periods, 30, 1)
    for round_trip_ns in (0, 10 * MS):
        curve = curves[round_trip_ns, 30]
        assert curve["lost_samples"] == len(lost.samples)
        assert curve["lost_commands"] == len(lost.commands)
