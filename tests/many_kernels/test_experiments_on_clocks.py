"""Experiments on nodes with clocks of their own: small ones, each in a lab of kernels."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cnc.testbed.lab.lifecycle import STATE_ROOT
from tests.many_kernels.test_lab_of_kernels import THREE_CLOCKS

CNC = Path(sys.executable).with_name("cnc")
# Beside a busy machine a lab of kernels takes minutes to come up.
pytestmark = pytest.mark.timeout(1800)
TWO_SWITCHES = THREE_CLOCKS.replace("period: 1ms", "period: 4ms")
# The plan keeps less where its clock is behind: frames are late at once, and not a period later.
CLOCK_LOSS = """
kind: clock-loss
name: clocklosstest
title: Two switches
network: two-switches.yaml
oscillators: [-30ppm, 45ppm, 50ppm]
frames: 100
grandmaster-away: 4s
switch: s2
runs-off: [-16ppm]
runs-off-for: 600ms
"""
SYNC = """
kind: sync
name: synctest
title: Three switches
switches: 3
oscillators: [-50ppm, 50ppm]
allowed: 1us
asymmetry: 500ns
steady: 3s
grandmaster-away: 4s
"""


CLOCK_STEPS = """
kind: clock-steps
name: clockstepstest
title: Two switches
network: two-switches.yaml
oscillators: [-30ppm, 45ppm, 50ppm]
switch: s2
steps: [1ms]
during: commit
adds: valves
sends-for: 9s
"""
VALVES = (
    "  valves: {talker: t1, listeners: [l1], period: 40ms, payload: 100B, max-latency: 500us}\n"
)


def measure(directory: Path, text: str, *options: str, network: str = TWO_SWITCHES) -> None:
    """Leave in `out` what comes of an experiment that agrees with what it expects, or of a grid."""
    (directory / "two-switches.yaml").write_text(network)
    file = directory / "experiment.yaml"
    file.write_text(text)
    done = subprocess.run(
        [CNC, "lab", "measure", file, *options, "-o", directory / "out"],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def summary_of(directory: Path) -> dict[str, Any]:
    """What was found in a run, whose lab is gone."""
    summary: dict[str, Any] = json.loads((directory / "summary.json").read_text())
    assert not (STATE_ROOT / summary["experiment"]).exists()
    return summary


def test_frames_are_late_when_a_lost_clock_is_as_wrong_as_predicted_and_no_sooner(tmp_path: Path):
    measure(tmp_path, CLOCK_LOSS)
    summary = summary_of(tmp_path / "out")
    for part in ("in-sync", "grandmaster-away"):
        found = summary["parts"][part]
        assert (found["late"], found["lost"]) == (0, 0)
        # How far servos swing depends on when they were started, which no test decides.
        assert found["clocks_differed_max_ns"] < summary["planned_clock_error_ns"]
    (turn,) = summary["turns"]
    motion = turn["streams"]["motion"]
    assert motion["predicted_error_ns"] == 8_580
    assert abs(motion["measured_error_ns"] - motion["predicted_error_ns"]) < 300


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two points side by side, which are equal but for how a value is written."""
    directory = tmp_path_factory.mktemp("grid")
    measure(directory, SYNC, "--set", "asymmetry=500ns,0.5us", "--jobs", "2")
    return directory / "out"


def test_clocks_in_a_line_are_in_step_but_for_an_asymmetry_that_ptp4l_does_not_see(grid: Path):
    one, two = summary_of(grid / "1-asymmetry=500ns")["hops"]
    assert abs(one["mean_ns"]) < 150
    # Half of 500 ns behind, and as much ahead as the first.
    assert abs(two["mean_ns"] - 2 * one["mean_ns"] + 250) < 100
    assert abs(two["said_mean_ns"]) < 100


def test_points_of_a_grid_have_kernels_of_their_own_and_do_not_disturb_each_other(grid: Path):
    with (grid / "grid.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["asymmetry"] for row in rows] == ["500ns", "0.5us"]
    assert [(row["exit_code"], row["disagreements"]) for row in rows] == [("0", "0")] * 2
    one, other = (grid / row["point"] for row in rows)
    assert summary_of(one)["experiment"] == "synctest-1"
    assert summary_of(other)["experiment"] == "synctest-2"
    for name in ("rows.csv", "offsets.csv"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_a_clock_that_is_set_in_the_middle_of_a_push_leaves_one_schedule(tmp_path: Path):
    measure(tmp_path, CLOCK_STEPS, network=TWO_SWITCHES.replace("4ms", "20ms") + VALVES)
    summary = summary_of(tmp_path / "out")
    settling = summary["settling"]
    assert "s2: managed by PTP instance 0" in settling["refused"]
    assert settling["then"] == "pushed"
    (turn,) = summary["turns"]
    assert turn["runs"] in {"new", "old"}
    assert turn["late"] > 0
    assert 0 < turn["last_late_after_ns"] < 9_000_000_000
    assert turn["in_step_after_ns"] < 9_000_000_000
