"""A flow beside captured traffic, in a real kernel: table I of TCPSbed in its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.replay import Replayed
from cnc.testbed.experiments.unplanned_description import ReplayDescription
from cnc.testbed.lab import lab
from cnc.testbed.lab.platform import Platform
from tests.experiments import TIMER_MIN_DELTA_NS, run_twice_alike

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "replay.yaml"
MS = 1_000_000
pytestmark = pytest.mark.virtual_time


def test_motions_are_lost_in_time_at_10_megabits_and_not_at_100(tmp_path: Path):
    loaded = experiments.load(FILE)
    assert isinstance(loaded, ReplayDescription)
    experiment = Replayed.of(loaded.model_copy(update={"duration_ns": 1_500 * MS}), FILE)
    with lab(experiment.emulated, timed_wires=True) as running:
        run_twice_alike(experiment, running, tmp_path, within_ns=TIMER_MIN_DELTA_NS)
    report = experiment.report(tmp_path / "one", Platform.here())
    assert report.disagreements == []
    points = {(each["rate_bps"], each["speed"]): each for each in report.summary["points"]}
    assert points[10_000_000, 1]["latency"]["mean_ns"] > 20 * MS
    assert points[100_000_000, 5]["latency"]["max_ns"] < 3 * MS
    assert all(each["sent_within_ns"] <= 1_000 for each in points.values())
