"""Experiments in a real kernel: small ones, in virtual time, where each run is like the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.lab import experiments
from cnc.lab.experiments.description import load
from cnc.lab.experiments.experiment import ROWS, Report
from cnc.lab.outcome import Platform

SCHEDULES = Path(__file__).parents[2] / "schedules"
pytestmark = pytest.mark.virtual_time


def smaller(name: str, directory: Path, **changes: str) -> Path:
    """An experiment that comes along, with other values for some of its keys."""
    lines = (SCHEDULES / "experiments" / f"{name}.yaml").read_text().splitlines()
    for key, value in changes.items():
        (place,) = (n for n, line in enumerate(lines) if line.startswith(f"{key}:"))
        lines[place] = f"{key}: {value}"
    file = directory / f"{name}.yaml"
    file.write_text("\n".join(lines))
    return file


def outcome(file: Path, directory: Path) -> Report:
    """What came of it, without the pictures: to draw takes long in an emulated kernel."""
    directory.mkdir()
    experiments.run(file, directory, print)
    return experiments.understood(load(file), file).report(directory, Platform.here())


def test_two_runs_are_alike_to_the_nanosecond_and_agree_with_the_closed_form(tmp_path: Path):
    file = smaller("share-sweep", tmp_path, shares="[20]", frames="500")
    found = [outcome(file, tmp_path / name) for name in ("one", "other")]
    for each in found:
        assert each.disagreements == []
    rows = [(tmp_path / name / ROWS).read_bytes() for name in ("one", "other")]
    assert rows[0] == rows[1]
    points = found[0].summary["points"]
    assert {point["class"] for point in points} == {"high-priority", "best-effort"}
    # One closed window, the transmission of one frame, and how exact an emulated clock is.
    for point in points:
        assert point["max_ns"] <= point["closed_ns"] + 1_176 + 1_000


ONE_SWITCH = """
name: little
defaults:
  rate: 1Gbps
  propagation: 100ns
  processing: {min: 1us, max: 3us}
  clock-error: 1us
  user: tsn
classes:
  cyclic: {traffic-class: 1, priority: 1, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort}
switches: {s1: {management: 10.99.0.1, ports: [t1, t2, l1]}}
end-stations: [t1, t2, l1]
links: [[t1/eth0, s1/t1], [t2/eth0, s1/t2], [s1/l1, l1/eth0]]
streams:
  one: {talker: t1, listeners: [l1], class: cyclic, period: 1ms, payload: 200B, max-latency: 20us}
  two: {talker: t2, listeners: [l1], class: cyclic, period: 1ms, payload: 900B, max-latency: 40us}
"""


@pytest.fixture
def one_switch(tmp_path: Path) -> str:
    file = tmp_path / "little.yaml"
    file.write_text(ONE_SWITCH)
    return str(file)


def test_every_frame_keeps_the_bound_that_was_planned(tmp_path: Path, one_switch: str):
    file = smaller("bound-check", tmp_path, network=one_switch, frames="400")
    found = outcome(file, tmp_path / "out")
    assert found.disagreements == []
    summary = found.summary
    assert (summary["frames"], summary["late"], summary["lost"]) == (400, 0, 0)
    assert summary["background"]["frames"] > 0
    for stream in summary["streams"]:
        assert 0.8 * stream["bound_ns"] < stream["max_ns"] <= stream["bound_ns"]


def test_frames_are_late_when_a_clock_is_wrong_by_more_than_was_planned_for(
    tmp_path: Path, one_switch: str
):
    changes = {"switches": "[s1]", "errors": "[1us, 50us]", "cycles": "100"}
    file = smaller("clock-error", tmp_path, network=one_switch, **changes)
    found = outcome(file, tmp_path / "out")
    assert found.disagreements == []
    points = found.summary["points"]
    late = {point["error_ns"]: point["late"] for point in points}
    assert late[-1_000] == late[1_000] == 0
    assert late[-50_000] > 0
    assert late[50_000] > 0
