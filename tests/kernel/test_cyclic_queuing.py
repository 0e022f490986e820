"""How long frames take that are forwarded once each interval, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.cyclic_queuing import CyclicQueuing
from cnc.testbed.experiments.description import CyclicQueuingDescription
from cnc.testbed.lab import lab
from cnc.testbed.lab.platform import Platform
from tests.experiments import run_twice_alike

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "cyclic-queuing.yaml"
pytestmark = pytest.mark.virtual_time


def test_over_each_number_of_switches_frames_take_the_intervals_of_annex_t(tmp_path: Path):
    loaded = experiments.load(FILE)
    assert isinstance(loaded, CyclicQueuingDescription)
    experiment = CyclicQueuing.of(loaded.model_copy(update={"frames": 1_500}), FILE)
    with lab(experiment.emulated, timed_wires=True) as running:
        run_twice_alike(experiment, running, tmp_path)
    report = experiment.report(tmp_path / "one", Platform.here())
    assert report.disagreements == []
    assert report.summary["background"]["frames"] > 1_000
    for each in report.summary["streams"]:
        intervals = each["max_ns"] / report.summary["interval_ns"]
        assert each["switches"] - 0.2 < intervals < each["switches"] + 0.2
