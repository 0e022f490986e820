"""A grid of an experiment in a real kernel, by the command that an operator types."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.test_experiments import ONE_SWITCH

pytestmark = pytest.mark.virtual_time

EXPERIMENT = """
kind: bound-check
name: bounds-of-two
title: Bounds over the period of a stream
network: one-switch.yaml
frames: 60
"""


def test_each_point_is_a_run_of_its_own_and_equal_ones_are_equal_octet_for_octet(tmp_path: Path):
    (tmp_path / "one-switch.yaml").write_text(ONE_SWITCH)
    (tmp_path / "bounds.yaml").write_text(EXPERIMENT)
    words = ["lab", "measure", "bounds.yaml", "--set", "streams.one.period=2ms,2000us"]
    command = [sys.executable, "-m", "cnc", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    grid = tmp_path / "bounds"
    with (grid / "grid.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["streams.one.period"] for row in rows] == ["2ms", "2000us"]
    for row in rows:
        assert (row["exit_code"], row["late"], row["lost"]) == ("0", "0", "0")
        assert (row["streams.one.frames"], row["streams.two.frames"]) == ("20", "40")
    one, other = (grid / row["point"] for row in rows)
    for name in ("rows.csv", "summary.json", "latency.svg", "latency.pdf"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    made_by = json.loads((one / "platform.json").read_text())
    assert made_by["command"].startswith("cnc lab measure bounds/1-streams.one.period=2ms/")
