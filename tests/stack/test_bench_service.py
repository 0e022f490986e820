"""`scripts/bench-service` measures by itself, and says of each figure whether its bar is met."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "scripts" / "bench-service"
SMALL = {"requests": 2, "switches": 6, "streams": 200, "mesh": 10, "events": 50}


@pytest.mark.timeout(600)
def test_every_figure_is_measured_and_compared_with_its_bar() -> None:
    options = [str(word) for name, value in SMALL.items() for word in (f"--{name}", value)]
    command = [BENCH, *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["yardstick_ms"] > 0
    figures = {each["name"]: each for each in document["figures"]}
    repeated = figures.pop("rollouts that failed and were repeated, counted in")
    assert repeated["value"] >= 0
    assert all(each["value"] > 0 for each in figures.values())
    beside = {name: each["bar"] for name, each in figures.items() if " beside " in name}
    assert {bar for name, bar in beside.items() if name.endswith("against alone")} == {2.0}
    for name in beside:
        del figures[name]
    barred = {name for name, each in figures.items() if each["bar"] is not None}
    assert {name for name, each in figures.items() if each["met"] is not None} == barred
    assert {name.split(",")[0] for name in barred} == {
        "accepted to running",
        "an event at 200 streams",
        "start with 200 stored streams",
        "streams with a place after 50 events",
    }
    share = figures["streams with a place after 50 events, of a plan made anew"]
    assert share["met"] == (share["value"] >= share["bar"])
