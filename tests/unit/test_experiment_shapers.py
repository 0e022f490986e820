"""What is sent beside best effort by shapers, and how is judged what became of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed.experiments import description, planned
from cnc.testbed.experiments.description import ShapersDescription
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.experiments.shapers import Shapers
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.recording import Frame, Recording

FILE = Path(__file__).parents[2] / "schedules/experiments/shapers.yaml"
EXACT, REAL = (Platform("Linux 6.12", "a clock", is_exact) for is_exact in (True, False))


@pytest.fixture(scope="module")
def experiment() -> Shapers:
    found = description.load(FILE)
    assert isinstance(found, ShapersDescription)
    return Shapers.of(found, FILE)


def reported(
    experiment: Shapers,
    directory: Path,
    platform: Platform = EXACT,
    **parts: float | None,
) -> Report:
    """The report of one frame of each flow, which takes such a part of its bound; None: it is lost.
    Where nothing is said it takes half of it, that of a gate as long as until its window opens."""
    frames = []
    for flow in experiment.sent:
        if flow.latency_bound_ns:
            part = parts.get(flow.name, 0.86 if flow.name == "axis" else 0.5)
            received_ns = None if part is None else round(part * flow.latency_bound_ns)
            frames.append(Frame(flow.name, 0, 0, 0, received_ns))
    write_rows(directory, planned.FRAME_COLUMNS, planned.frame_rows(Recording(0, tuple(frames))))
    return experiment.report(directory, platform)


def test_each_stream_is_told_with_the_theory_that_its_bound_follows_from(
    experiment: Shapers, tmp_path: Path
) -> None:
    found = reported(experiment, tmp_path)
    assert found.disagreements == []
    theories = {each["id"]: each["theory"] for each in found.summary["streams"]}
    assert theories == {
        "camera1": "CBS",
        "camera2 to l1": "CBS",
        "camera2 to l2": "CBS",
        "axis": "scheduled",
        "alarm": "strict",
    }
    assert {each["of_bound"] for each in found.summary["streams"]} == {0.5, 0.86}
    assert {each["switches"] for each in found.summary["streams"]} == {3}


def test_a_frame_that_is_lost_or_beyond_its_bound_disagrees(
    experiment: Shapers, tmp_path: Path
) -> None:
    lost = reported(experiment, tmp_path, alarm=None)
    assert lost.disagreements == ["alarm: 1 of 1 frame lost", "alarm: nothing arrived"]
    late = reported(experiment, tmp_path, camera1=1.01)
    assert [line.partition(",")[0] for line in late.disagreements] == ["camera1: 1 of 1 frame late"]
    assert reported(experiment, tmp_path, REAL, camera1=1.01).disagreements == []


def test_a_network_that_forwards_once_each_interval_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(
        FILE.read_text().replace("../shapers3.yaml", str(FILE.parents[1] / "cqf5.yaml"))
    )
    found = description.load(file)
    assert isinstance(found, ShapersDescription)
    with pytest.raises(InputError, match=r"is forwarded once each interval"):
        Shapers.of(found, file)
