"""Rollouts in whose middle a clock is set: what is said of them, and of the frames meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cnc.errors import CncError, InputError
from cnc.model import Plan
from cnc.rollout.events import Step, StepBegun, ignore
from cnc.testbed.experiments import description, experiment_of, pictures
from cnc.testbed.experiments.clock_loss.figures import Part, StreamOutcome
from cnc.testbed.experiments.clock_steps import ClockSteps
from cnc.testbed.experiments.clock_steps import experiment as module
from cnc.testbed.experiments.clock_steps.figures import (
    PUSH_COLUMNS,
    PUSHED,
    Push,
    Runs,
    Turn,
    settling_disagreements,
)
from cnc.testbed.experiments.clocked import Recorded
from cnc.testbed.experiments.description import ClockStepsDescription
from cnc.testbed.lab.kernels.offsets import Offset, TrueOffsets
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.recording import Frame, Recording

FILE = Path(__file__).parents[2] / "schedules/experiments/clock-steps.yaml"
ALLOWED_NS = 1_000
# s2 is set 1 ms ahead at 100 ns, and back by its ptp4l at 300 ns, a little too far at first.
AHEAD_NS = [(0, 50), (100, 1_000_050), (200, 1_000_060), (300, -1_400), (400, 900), (500, 30)]
STEP = Push("step of 1000000 ns", 1_000_000, PUSHED, Runs.NEW, 100)
LATE = StreamOutcome("motion", 9, 0, 3, 1, 150, (), last_late_ns=350)
IN_TIME = StreamOutcome("valves", 4, 0, 0, 0, None, ())


@pytest.fixture(scope="module")
def experiment() -> ClockSteps:
    found = description.load(FILE)
    assert isinstance(found, ClockStepsDescription)
    return ClockSteps.of(found, FILE)


def turn(push: Push = STEP, ahead_ns: list[tuple[int, int]] = AHEAD_NS) -> Turn:
    recorded = [Offset(at, node, 0, 37) for at, _ in ahead_ns for node in ["s1"]]
    recorded += [Offset(at, "s2", off, 37) for at, off in ahead_ns]
    return Turn(push, Part((LATE, IN_TIME), TrueOffsets(recorded), ("s1", "s2")), "s2", "s1")


def test_instants_count_from_the_step():
    found = turn()
    assert found.distances_ns()[0] == (0, 1_000_050)
    assert found.in_step_after_ns(ALLOWED_NS) == 300
    assert found.last_bad_after_ns() == 250
    assert found.disagreements(ALLOWED_NS) == []


def test_a_step_within_what_is_allowed_leaves_the_clock_in_step():
    assert turn(ahead_ns=[(100, 999), (200, 10)]).in_step_after_ns(ALLOWED_NS) == 0


def test_a_network_must_end_on_the_schedule_that_the_push_has_named():
    mixed = replace(STEP, runs=Runs.MIXED, result="s2: it did not answer")
    assert turn(mixed).disagreements(ALLOWED_NS) == [
        "a step of 1 ms: some switches run the new schedule, others the old one"
    ]
    unsaid = replace(STEP, runs=Runs.OLD)
    assert turn(unsaid).disagreements(ALLOWED_NS) == [
        "a step of 1 ms: the push said 'pushed', and the switches run the old schedule"
    ]
    assert turn(replace(unsaid, result="rolled back")).disagreements(ALLOWED_NS) == []


def test_a_clock_must_be_in_step_again():
    never = turn(ahead_ns=[(100, 1_000_050), (200, 1_000_050)])
    assert never.in_step_after_ns(ALLOWED_NS) is None
    (line,) = never.disagreements(ALLOWED_NS)
    assert line == "a step of 1 ms: the clock of s2 was not in step again at the end"


def test_a_push_while_a_clock_settles_must_be_refused_for_that_clock_and_then_accepted():
    refused = Push("settling", 0, "s2: managed by PTP instance 0: …", Runs.OLD, None)
    accepted = Push("settled", 0, PUSHED, Runs.NEW, None)
    assert settling_disagreements(refused, accepted, "s2") == []
    assert settling_disagreements(accepted, accepted, "s2") == [
        "a push while the clock of s2 settled was not refused"
    ]
    for_another_reason = replace(refused, result="s1: no answer")
    assert settling_disagreements(for_another_reason, refused, "s2") == [
        "a push while the clock of s2 settled: s1: no answer",
        "a push with clocks in step was refused: s2: managed by PTP instance 0: …",
    ]


@pytest.mark.parametrize("push", [STEP, replace(STEP, result="no", stepped_ns=None)])
def test_a_push_comes_back_from_its_row(push: Push):
    row = {
        column: "" if value is None else str(value)
        for column, value in zip(PUSH_COLUMNS, push.row(), strict=True)
    }
    assert Push.of(row) == push


def test_the_streams_that_are_sent_have_the_same_instants_in_both_schedules(
    experiment: ClockSteps,
):
    assert [flow.name for flow in experiment.sent] == ["motion", "valves"]
    for name, placed in experiment.lesser.streams.items():
        assert experiment.whole.streams[name].talker_offsets_ns == placed.talker_offsets_ns
    assert experiment.whole.gates != experiment.lesser.gates


@pytest.mark.parametrize(
    ("before", "after", "refusal"),
    [
        ("switch: s2", "switch: s1", "no switch s1 that follows another"),
        ("adds: camera", "adds: torque", "the network has no stream torque beside others"),
        ("clocks3.yaml", "bridged5.yaml", "bridged5.yaml is bridged, and a rollout"),
        ("during: commit", "during: lunch", "one of edit, commit, verify, confirm"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, before: str, after: str, refusal: str):
    text = FILE.read_text().replace("network: ..", f"network: {FILE.parents[1]}")
    file = tmp_path / "clock-steps.yaml"
    file.write_text(text.replace(before, after))
    with pytest.raises(InputError, match=refusal):
        experiment_of(description.load(file), file)


# --- the whole experiment, without a lab ----------------------------------------------------------

START_NS = 1_000_000_000
STEPPED_AFTER_NS = 700_000_000
REFUSED = "s2: managed by PTP instance 0: at most 30 ns off in the last 3 s, of the 10 s"


class Network:
    """Switches that all run what was pushed last; a push in whose middle a clock is set by 1 s is
    taken back."""

    def __init__(self) -> None:
        self.runs: Plan | None = None
        self.refuse: list[str] = []
        self.done: list[str] = []
        self.is_set_by_a_second = False

    def push(self, plan: Plan, *, connect: object, listener=ignore) -> None:
        del connect
        if self.refuse:
            raise CncError(self.refuse.pop(0))
        self.is_set_by_a_second = False
        for step in (Step.EDIT, Step.COMMIT, Step.COMMIT, Step.VERIFY):
            listener(StepBegun(step, 3))
        if self.is_set_by_a_second:
            raise CncError("s2: its clock is wrong\nall switches run what they ran before")
        self.runs = plan

    def status(self, plan: Plan, *, connect: object) -> list[SimpleNamespace]:
        del connect
        return [SimpleNamespace(agrees=plan is self.runs)]

    def clocks(self, _running: object) -> Network:
        return self

    def stop_following(self, switch: str) -> None:
        self.done.append(f"{switch} stops")

    def follow_again(self, switch: str) -> None:
        self.done.append(f"{switch} follows")
        self.refuse = [REFUSED]

    def step(self, switch: str, by_ns: int) -> None:
        self.done.append(f"{switch} {by_ns}")
        self.is_set_by_a_second = by_ns == 1_000_000_000

    def record(self, _running, sent, duration_ns, acts) -> Recorded:
        """Each flow sends one frame, in time."""
        for act in acts:
            act.do()
        frames = [
            Frame(flow.name, 0, START_NS, START_NS, START_NS + (flow.latency_bound_ns or 0))
            for flow in sent
        ]
        nodes = ("s1", "s2", "s3", "t1", "t2", "l1")
        truth = [Offset(at, node, 0, 37) for at in (0, duration_ns) for node in nodes]
        return Recorded(Recording(START_NS, tuple(frames)), truth)


def test_from_a_refused_push_to_the_last_step_and_the_report(
    experiment: ClockSteps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    network = Network()
    for name, value in {
        "push": network.push,
        "status": network.status,
        "Clocks": network.clocks,
        "tai_ns": lambda: START_NS + STEPPED_AFTER_NS,
    }.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module.clocked, "record", network.record)
    monkeypatch.setattr(module.gptp, "await_settled", lambda _running: {})
    monkeypatch.setattr(module.sending, "await_schedule", lambda _pushed: None)
    monkeypatch.setattr(module.time, "sleep", lambda _s: None)

    lab = SimpleNamespace(connect=None)
    experiment.run_on(lab, tmp_path, lambda _text: None)  # type: ignore[arg-type]
    assert network.done == [
        *("s2 stops", "s2 follows", "s2 1000", "s2 10000", "s2 1000000", "s2 1000000000")
    ]

    report = experiment.report(tmp_path, Platform("6.12", "virtual", exact=True))
    assert report.disagreements == []
    assert report.summary["settling"] == {"refused": REFUSED, "then": PUSHED}
    assert [turn["runs"] for turn in report.summary["turns"]] == ["new", "new", "new", "old"]
    assert report.summary["turns"][3]["result"] == (
        "s2: its clock is wrong; all switches run what they ran before"
    )
    (sheet,) = report.sheets
    assert sheet.rows[0] == ["1 µs", "pushed", "the new one", "2", "0", "0", "–", "0.00"]  # noqa: RUF001
    pictures.save(report.pictures, tmp_path, {"measured on": "nothing"})
