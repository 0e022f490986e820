"""How long frames take that shapers send beside best effort, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.description import ShapersDescription
from cnc.testbed.experiments.shapers import Shapers
from cnc.testbed.lab import lab
from cnc.testbed.lab.platform import Platform
from tests.experiments import run_twice_alike

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "shapers.yaml"
pytestmark = pytest.mark.virtual_time


def test_frames_of_each_shaper_keep_their_bounds_beside_best_effort(tmp_path: Path):
    loaded = experiments.load(FILE)
    assert isinstance(loaded, ShapersDescription)
    experiment = Shapers.of(loaded.model_copy(update={"frames": 1_500}), FILE)
    with lab(experiment.emulated, timed_wires=True) as running:
        run_twice_alike(experiment, running, tmp_path)
    report = experiment.report(tmp_path / "one", Platform.here())
    assert report.disagreements == []
    assert report.summary["background"]["frames"] > 1_000
    assert {each["theory"] for each in report.summary["streams"]} == {"CBS", "scheduled", "strict"}
    # Frames of a class that is shaped do wait: the bounds are not far above what happens.
    assert max(each["of_bound"] for each in report.summary["streams"]) > 0.5
