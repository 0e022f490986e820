"""When frames leave whose program is late, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.description import LaunchTimeDescription
from cnc.testbed.experiments.experiment import ROWS
from cnc.testbed.experiments.launch_time import LaunchTimes
from cnc.testbed.experiments.launch_time.figures import LAUNCHES, SLEEPS
from cnc.testbed.lab import lab
from cnc.testbed.lab.platform import Platform

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "launch-time.yaml"
MS = 1_000_000
STAMP_NS = 1_000
pytestmark = pytest.mark.virtual_time


def test_a_program_that_is_late_makes_no_frame_late_that_states_its_time(tmp_path: Path):
    loaded = experiments.load(FILE)
    assert isinstance(loaded, LaunchTimeDescription)
    fewer = {"frames": 100, "lateness_ns": [0, MS]}
    experiment = LaunchTimes.of(loaded.model_copy(update=fewer), FILE)
    with lab(experiment.emulated, timed_wires=True) as running:
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            experiment.run_in(running, tmp_path / name, print)
    rows = [(tmp_path / name / ROWS).read_bytes() for name in ("one", "other")]
    assert rows[0] == rows[1]
    report = experiment.report(tmp_path / "one", Platform.here())
    assert report.disagreements == []
    points = {(each["way"], each["lateness_ns"]): each for each in report.summary["points"]}
    assert all(each["frames"] == 100 for each in points.values())
    assert points[SLEEPS, 0]["max_ns"] <= STAMP_NS
    assert points[SLEEPS, MS]["max_ns"] > 0.9 * MS
    assert points[LAUNCHES, 0]["max_ns"] <= STAMP_NS
    assert points[LAUNCHES, MS]["max_ns"] <= STAMP_NS
