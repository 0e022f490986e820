"""What buffers of switches make a flow wait, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.bufferbloat import Bufferbloat
from cnc.testbed.experiments.bufferbloat.figures import APART, TOGETHER
from cnc.testbed.experiments.unplanned_description import BufferbloatDescription
from cnc.testbed.lab import lab
from cnc.testbed.lab.platform import Platform
from tests.experiments import TIMER_MIN_DELTA_NS, run_twice_alike

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "bufferbloat.yaml"
MS = 1_000_000
pytestmark = pytest.mark.virtual_time


def test_a_larger_buffer_makes_a_flow_wait_unless_it_has_a_queue_of_its_own(tmp_path: Path):
    loaded = experiments.load(FILE)
    assert isinstance(loaded, BufferbloatDescription)
    grid = {"buffers": [2, 20], "intervals_ns": [MS], "duration_ns": 300 * MS}
    experiment = Bufferbloat.of(loaded.model_copy(update=grid), FILE)
    with lab(experiment.emulated, timed_wires=True) as running:
        run_twice_alike(experiment, running, tmp_path, within_ns=TIMER_MIN_DELTA_NS)
    report = experiment.report(tmp_path / "one", Platform.here())
    assert report.disagreements == []
    points = {(each["queues"], each["buffer"]): each for each in report.summary["points"]}
    assert all(each["sent"] == 300 for each in points.values())
    small, large = points[TOGETHER, 2], points[TOGETHER, 20]
    # Two frames of 1,000 octets at each of two switches, and the flow's own at all of them.
    assert small["latency"]["max_ns"] < 2 * 2 * 830_400 + 300_000
    assert large["latency"]["mean_ns"] > 5 * small["latency"]["mean_ns"]
    assert 300 * 0.3 < small["lost"] < 300 * 0.6
    assert large["lost"] < small["lost"] / 3
    assert points[APART, 2]["lost"] == points[APART, 20]["lost"] == 0
    assert points[APART, 20]["latency"]["max_ns"] < experiment.longest_ns
