"""A signal over a lossy cable, with and without a prediction before it, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.edge_intelligence import EdgeIntelligence
from cnc.testbed.experiments.unplanned_description import EdgeIntelligenceDescription
from cnc.testbed.lab import lab
from cnc.testbed.lab.platform import Platform
from tests.experiments import run_twice_alike

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "edge-intelligence.yaml"
MS = 1_000_000
pytestmark = pytest.mark.virtual_time


def test_what_comes_over_a_lossy_cable_is_what_is_computed_and_the_same_again(tmp_path: Path):
    loaded = experiments.load(FILE)
    assert isinstance(loaded, EdgeIntelligenceDescription)
    few = {"values": 24, "interval_ns": 20 * MS}
    experiment = EdgeIntelligence.of(loaded.model_copy(update=few), FILE)
    with lab(experiment.emulated, timed_wires=True) as running:
        run_twice_alike(experiment, running, tmp_path)
    report = experiment.report(tmp_path / "one", Platform.here())
    assert report.disagreements == []
    lossless, none, held, *_, line = report.summary["runs"]
    assert (lossless["changes"], held["changes"]) == (24, 24)
    assert none["changes"] < 15
    assert all(abs(gap_ns - 20 * MS) <= 6 * MS for gap_ns in held["gaps_ns"])
    assert held["sent"] == line["sent"] == 480
    assert held["arrived"] == 480 - len(experiment.lost(50))
