"""Experiments in a real kernel: small ones, in virtual time, where each run is like the last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.testbed import experiments
from cnc.testbed.experiments.description import load
from cnc.testbed.experiments.experiment import ROWS, Emulated, Report
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.platform import Platform

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


ONE_SWITCH = """
name: experiments
defaults:
  rate: 1Gbps
  propagation: 100ns
  processing: {min: 1us, max: 3us}
  clock-error: 1us
  talker-interference: none
  gate-margin: 1us  # a gate reads the clock after it has opened: 256 ns in virtual time
  user: tsn
classes:
  cyclic: {traffic-class: 1, priority: 1, dscp: 16, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort}
switches: {gateway: {management: 10.99.0.1, ports: [sensor, bulk, cloud, controller]}}
end-stations: [sensor, bulk, cloud, controller]
links:
  - [sensor/eth0, gateway/sensor]
  - [bulk/eth0, gateway/bulk]
  - [cloud/eth0, gateway/cloud]
  - [controller/eth0, gateway/controller]
streams:
  one: {talker: sensor, listeners: [cloud], period: 1ms, payload: 200B, max-latency: 20us}
  two: {talker: bulk, listeners: [cloud], period: 1ms, payload: 900B, max-latency: 40us}
"""


@pytest.fixture(scope="module")
def one_switch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("network") / "one-switch.yaml"
    file.write_text(ONE_SWITCH)
    return file


@pytest.fixture(scope="module")
def running(one_switch: Path) -> Iterator[Lab]:
    """One lab for all: its start takes longer than what is done in it."""
    with lab(intents.load(one_switch), timed_wires=True) as found:
        yield found


def outcome(running: Lab, file: Path, directory: Path) -> Report:
    """What came of it, without the pictures: to draw takes long in an emulated kernel."""
    experiment = experiments.experiment_of(load(file), file)
    assert isinstance(experiment, Emulated)
    directory.mkdir()
    experiment.run_in(running, directory, print)
    return experiment.report(directory, Platform.here())


def test_two_runs_are_alike_to_the_nanosecond_and_agree_with_the_closed_form(
    running: Lab, tmp_path: Path
):
    # Frames of these cables hold each other up by 12 us: few enough a cycle that none does.
    changes = {"shares": "[80]", "frames": "500", "frames-per-cycle": "1", "rate": "1Gbps"}
    file = smaller("share-sweep", tmp_path, **changes)
    found = [outcome(running, file, tmp_path / name) for name in ("one", "other")]
    for each in found:
        assert each.disagreements == []
    rows = [(tmp_path / name / ROWS).read_bytes() for name in ("one", "other")]
    assert rows[0] == rows[1]
    points = found[0].summary["points"]
    assert {point["class"] for point in points} == {"high-priority", "best-effort"}
    # One closed window, the transmission of one frame, and how exact an emulated clock is.
    for point in points:
        assert point["max_ns"] <= point["closed_ns"] + 11_824 + 1_000


def test_a_stream_keeps_its_bound_beside_a_share_that_is_offered_more_than_it_passes(
    running: Lab, tmp_path: Path
):
    # 49 frames come of each class in a cycle of which half passes 42 of one of them.
    changes = {"shares": "[50]", "frames": "2000", "frames-per-cycle": "50", "rate": "1Gbps"}
    file = smaller("overload-beside", tmp_path, **changes)
    found = outcome(running, file, tmp_path / "out")
    assert found.disagreements == []
    (beside,) = found.summary["beside"]
    assert (beside["frames"], beside["late"], beside["lost"]) == (41, 0, 0)
    assert 0.5 * beside["bound_ns"] < beside["max_ns"] <= beside["bound_ns"]
    high, best_effort = sorted(found.summary["points"], key=lambda its: -len(its["class"]))
    assert high["class"] == "high-priority"
    for each in (high, best_effort):
        assert each["max_ns"] > 1_000_000  # they wait for each other, over cycles


def test_every_frame_keeps_the_bound_that_was_planned(
    running: Lab, one_switch: Path, tmp_path: Path
):
    file = smaller("bound-check", tmp_path, network=str(one_switch), frames="400")
    found = outcome(running, file, tmp_path / "out")
    assert found.disagreements == []
    summary = found.summary
    assert (summary["frames"], summary["late"], summary["lost"]) == (400, 0, 0)
    assert summary["background"]["frames"] > 0
    for stream in summary["streams"]:
        assert 0.8 * stream["bound_ns"] < stream["max_ns"] <= stream["bound_ns"]


def test_frames_are_late_when_a_clock_is_wrong_by_more_than_was_planned_for(
    running: Lab, one_switch: Path, tmp_path: Path
):
    changes = {"switches": "[gateway]", "errors": "[1us, 50us]", "cycles": "100"}
    file = smaller("clock-error", tmp_path, network=str(one_switch), **changes)
    found = outcome(running, file, tmp_path / "out")
    assert found.disagreements == []
    late = {point["error_ns"]: point["late"] for point in found.summary["points"]}
    assert late[-1_000] == late[1_000] == 0
    assert late[-50_000] > 0
    assert late[50_000] > 0
