"""What is sent by intervals, and how is judged what became of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed.experiments import description, planned
from cnc.testbed.experiments.cyclic_queuing import CyclicQueuing
from cnc.testbed.experiments.description import CyclicQueuingDescription
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.flows import BridgedFlow
from cnc.testbed.traffic.recording import Frame, Recording

FILE = Path(__file__).parents[2] / "schedules/experiments/cyclic-queuing.yaml"
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)
MS = 1_000_000
SWITCHES = {"l3": 3, "l4": 4, "l5": 5}


@pytest.fixture(scope="module")
def experiment() -> CyclicQueuing:
    found = description.load(FILE)
    assert isinstance(found, CyclicQueuingDescription)
    return CyclicQueuing.of(found, FILE)


def reported(
    experiment: CyclicQueuing, directory: Path, platform: Platform = EXACT, **took_ms: float | None
) -> Report:
    """The report of one frame of each stream, that takes so long; None: it is lost; as many
    intervals of 2 ms as there are switches, and some of its window, where nothing is said."""
    frames = []
    for flow in experiment.sent:
        if isinstance(flow, BridgedFlow) and flow.latency_bound_ns:
            took = took_ms.get(flow.stream, 2 * SWITCHES[flow.listener] + 0.3)
            received_ns = None if took is None else round(took * MS)
            frames.append(Frame(flow.name, 0, 0, 0, received_ns))
    write_rows(directory, planned.FRAME_COLUMNS, planned.frame_rows(Recording(0, tuple(frames))))
    return experiment.report(directory, platform)


def test_best_effort_takes_of_the_cables_what_is_stated(experiment: CyclicQueuing) -> None:
    beside = {
        flow.stream: flow
        for flow in experiment.sent
        if isinstance(flow, BridgedFlow) and flow.latency_bound_ns is None
    }
    (flow,) = beside.values()
    frame_ns = (flow.payload_octets + 18 + 20) * 8 * 10
    assert flow.period_ns == pytest.approx(frame_ns / 0.30, rel=0.01)


def test_it_sends_until_there_are_frames_enough(experiment: CyclicQueuing) -> None:
    sent = sum(
        experiment.duration_ns // flow.period_ns * flow.frames
        for flow in experiment.sent
        if flow.latency_bound_ns
    )
    assert sent == pytest.approx(10_000, rel=0.01)


def test_each_way_is_told_with_the_switches_that_it_crosses(
    experiment: CyclicQueuing, tmp_path: Path
) -> None:
    found = reported(experiment, tmp_path)
    assert found.disagreements == []
    crossed = {each["id"]: each["switches"] for each in found.summary["streams"]}
    assert crossed == {
        "pressure": 3,
        "level": 3,
        "flow": 4,
        "torque": 4,
        "temperature": 5,
        **{f"vibration to {name}": switches for name, switches in SWITCHES.items()},
    }
    assert [picture.name for picture in found.pictures] == ["cyclic-queuing"]


@pytest.mark.parametrize(
    ("took", "why"),
    [
        ({"pressure": None}, "pressure: 1 of 1 frame lost"),
        ({"flow": 9.5}, "flow: 1 of 1 frame late"),
        ({"flow": 5.9}, "flow: frames took 5.9 ms to 5.9 ms over 4 switches, not between 6 ms"),
        ({"vibration": 8.1}, "vibration to l3: frames took 8.1 ms"),
    ],
)
def test_what_is_lost_late_or_not_as_annex_t_has_it_disagrees(
    experiment: CyclicQueuing, tmp_path: Path, took: dict[str, float | None], why: str
) -> None:
    found = reported(experiment, tmp_path, **took)
    assert any(line.startswith(why) for line in found.disagreements), found.disagreements
    assert reported(experiment, tmp_path, ON_A_REAL_CLOCK, **took).disagreements == []


def test_a_network_with_planned_streams_is_refused(tmp_path: Path) -> None:
    text = FILE.read_text().replace("../cqf5.yaml", str(FILE.parents[1] / "cqf4.yaml"))
    file = tmp_path / "e.yaml"
    file.write_text(text)
    found = description.load(file)
    assert isinstance(found, CyclicQueuingDescription)
    with pytest.raises(InputError, match=r"stream axis of .*cqf4.yaml is not forwarded"):
        CyclicQueuing.of(found, file)
