"""Packets through each switch in software, in a real kernel on a real clock.

Nothing here is said of any time: a busy machine may be late by any.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.experiment import read_rows
from cnc.testbed.experiments.switching import Switching
from cnc.testbed.experiments.switching.experiment import NOT_MEASURED
from cnc.testbed.experiments.switching.figures import AF_XDP, BRIDGE, CABLE, XDP
from cnc.testbed.experiments.unplanned_description import SwitchingDescription
from cnc.testbed.lab.namespaces import NETNS_DIRECTORY
from cnc.testbed.lab.platform import Platform

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "switching.yaml"
FRAMES, LOADS = 50, [0, 1]
WAYS = CABLE, BRIDGE, XDP, AF_XDP

pytestmark = pytest.mark.real_time


def small(**changes: object) -> Switching:
    loaded = experiments.load(FILE)
    assert isinstance(loaded, SwitchingDescription)
    fewer = {"rounds": 1, "frames": FRAMES, "period_ns": 2_000_000, "busy": LOADS}
    return Switching(loaded.model_copy(update=fewer | changes))


@pytest.mark.parametrize("mode", ["generic", "native"])
def test_packets_pass_each_switch_and_the_verdict_names_the_noise(
    mode: str, tmp_path: Path
) -> None:
    experiment = small(xdp=mode)
    experiment.run(tmp_path, print)
    assert json.loads((tmp_path / NOT_MEASURED).read_text()) == {}
    rows = [*read_rows(tmp_path)]
    sent = Counter((row["way"], int(row["busy"])) for row in rows)
    assert sent == dict.fromkeys(((way, busy) for way in WAYS for busy in LOADS), FRAMES)
    assert all(row["took_ns"] for row in rows)
    assert all(int(row["took_ns"]) > 0 for row in rows)
    report = experiment.report(tmp_path, Platform.here())
    assert report.disagreements == []
    assert sum(report.summary["talker_late"]["0"].values()) == FRAMES * len(WAYS)
    assert any("this machine woke the talker up to" in each for each in report.remarks)
    assert not [each for each in NETNS_DIRECTORY.iterdir() if "switching" in each.name]


def test_one_processor_is_not_left_to_a_program_that_polls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    experiment = small(af_xdp="polls", busy=[0])
    experiment.run(tmp_path, print)
    report = experiment.report(tmp_path, Platform.here())
    assert report.remarks[0].startswith("AF_XDP: not measured on this kernel: this machine has one")
    assert {its["way"] for its in report.summary["points"]} == {CABLE, BRIDGE, XDP}
