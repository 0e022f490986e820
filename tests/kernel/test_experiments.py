"""Experiments in a real kernel: small ones, in virtual time, where each run is like the last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnc.lab import experiments
from cnc.lab.experiments.experiment import ROWS

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


def test_two_runs_are_alike_to_the_nanosecond_and_agree_with_the_closed_form(tmp_path: Path):
    file = smaller("share-sweep", tmp_path, shares="[20, 80]", frames="500")
    found = [experiments.measure(file, tmp_path / name) for name in ("one", "other")]
    for each in found:
        assert each.report.disagreements == []
    rows = [(tmp_path / name / ROWS).read_bytes() for name in ("one", "other")]
    assert rows[0] == rows[1]
    summary = json.loads((tmp_path / "one" / experiments.SUMMARY).read_text())
    means = {(point["share"], point["class"]): point["mean_ns"] for point in summary["points"]}
    assert means[20, "high-priority"] > means[80, "high-priority"]
    assert means[20, "best-effort"] < means[80, "best-effort"]
    # One closed window, the transmission of one frame, and how exact an emulated clock is.
    for point in summary["points"]:
        assert point["max_ns"] <= point["closed_ns"] + 1_176 + 1_000
