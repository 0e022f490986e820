"""Echo commands through a chain of components, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.characterizer import Characterizer
from cnc.testbed.experiments.characterizer.description import CharacterizerDescription
from cnc.testbed.lab import lab
from cnc.testbed.lab.platform import Platform
from tests.experiments import run_twice_alike

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "characterizer.yaml"
MS = 1_000_000
pytestmark = pytest.mark.virtual_time


def test_differences_are_the_modelled_delays_and_the_same_again(tmp_path: Path):
    loaded = experiments.load(FILE)
    assert isinstance(loaded, CharacterizerDescription)
    assert loaded.accuracy is not None
    few = loaded.accuracy.model_copy(update={"works_ns": [5 * MS], "rates_bps": [0, 750_000]})
    changes = {"least": 30, "most": 60, "accuracy": few}
    experiment = Characterizer.of(loaded.model_copy(update=changes), FILE)
    with lab(experiment.emulated, timed_wires=True) as running:
        run_twice_alike(experiment, running, tmp_path)
    report = experiment.report(tmp_path / "one", Platform.here())
    # Among others: every difference within a microsecond, and echo points asked in turn.
    assert report.disagreements == []
    components = report.summary["components"]
    assert len(components["points"]) == 9
    moves = components["differences"][-1]
    assert moves["of"] == "robot moves"
    assert moves["measured_ns"] == pytest.approx(110 * MS, rel=1e-3)
    alone, beside = report.summary["accuracy"]
    assert alone["margin_ns"] < 1_000
    assert beside["margin_ns"] > 10_000  # others were there
    assert beside["error"] == pytest.approx(0, abs=0.1)
    assert 30 <= beside["rounds"] <= 60
