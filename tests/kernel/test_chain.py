"""Flows through the components of a chain over a lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.intent import read
from cnc.testbed import experiments
from cnc.testbed.experiments.chain import Chain
from cnc.testbed.experiments.chain.description import ChainDescription
from cnc.testbed.experiments.experiment import read_rows
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.chain import functions
from tests.experiments import TIMER_MIN_DELTA_NS

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "experiments" / "chain.yaml"
MS = 1_000_000

pytestmark = pytest.mark.virtual_time

Rows = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    with lab(intents.load(SCHEDULES / "chain.yaml"), timed_wires=True) as made:
        yield made


def sent(
    running: Lab, directory: Path, stations: dict[str, str] | None = None, **flows: dict[str, Any]
) -> tuple[Rows, Any]:
    """The rows of 200 ms of the shipped chain, by flow, and its report; with components on other
    stations, and other keys of flows."""
    document: dict[str, Any] = dict(read(FILE).document)
    document["duration"] = "200ms"
    document["components"] = [
        {**each, "station": (stations or {}).get(each["role"], each["station"])}
        for each in document["components"]
    ]
    document["flows"] = {name: its | flows.get(name, {}) for name, its in document["flows"].items()}
    description = ChainDescription.model_validate(document)
    assert [*description.contradictions()] == []
    experiment = experiments.experiment_of(description, FILE)
    assert isinstance(experiment, Chain)
    directory.mkdir()
    experiment.run_in(running, directory, print)
    rows: Rows = {}
    for row in read_rows(directory):
        rows.setdefault(row["flow"], []).append(row)
    return rows, experiment.report(directory, Platform.here())


def at(rows: list[dict[str, str]], component: str) -> list[dict[str, str]]:
    return [row for row in rows if row["component"] == component]


def robot_or_operator(flow: str) -> str:
    """Where a flow ends."""
    return "tactile-teleoperator" if flow == "kinematic" else "tactile-operator"


def unlike(one: Rows, other: Rows) -> list[object]:
    """The rows that differ by more than the step of the kernel's timers, of which a run may begin
    in another phase: one of 32 runs differed by that from the others."""
    assert one.keys() == other.keys()
    pairs = [pair for name in one for pair in zip(one[name], other[name], strict=True)]
    return [pair for pair in pairs if not are_alike(*pair)]


def are_alike(one: dict[str, str], other: dict[str, str]) -> bool:
    instants = [name for name in ("received_ns", "left_ns") if one[name] and other[name]]
    return one == other | {name: one[name] for name in instants} and all(
        abs(int(one[name]) - int(other[name])) <= 2 * TIMER_MIN_DELTA_NS for name in instants
    )


def test_a_message_crosses_a_chain_and_a_flow_that_is_lost_changes_no_row_of_the_others(
    running: Lab, tmp_path: Path
) -> None:
    whole, report = sent(running, tmp_path / "whole")
    assert report.disagreements == []
    robot = at(whole["kinematic"], "tactile-teleoperator")
    assert [int(row["seq"]) for row in robot] == [*range(100)]
    # What the robot's joints are told is what the hand's were, by the functions on the way.
    for n, row in enumerate(robot):
        hand = functions.joints_of_a_hand(n, n * 2 * MS / 1e9)
        joints = functions.inverse_kinematics(functions.kinematics(hand))
        assert row["value"] == functions.shown_numbers(joints)

    # The fastest met no other frame: cables, switches and work, and 2 µs of reading clocks.
    for flow in report.summary["flows"][:2]:
        assert 0 < flow["latency"]["min_ns"] - flow["idle_ns"] < 5_000

    again, _ = sent(running, tmp_path / "again")
    assert unlike(again, whole) == []
    for name in whole:
        end = robot_or_operator(name)
        lossy, report = sent(
            running, tmp_path / name, **{name: {"loss": {"at": end, "percent": 100}}}
        )
        assert report.disagreements == []
        assert at(lossy[name], end) == []
        assert len(at(whole[name], end)) > 0
        others = [other for other in whole if other != name]
        assert unlike({o: lossy[o] for o in others}, {o: whole[o] for o in others}) == []


def test_a_component_is_where_the_file_places_it(running: Lab, tmp_path: Path) -> None:
    here, _ = sent(running, tmp_path / "here")
    there, report = sent(running, tmp_path / "there", stations={"srv": "h3", "ms-ei": "ms"})
    assert report.disagreements == []
    robot = "tactile-teleoperator"
    ends = [at(rows["kinematic"], robot) for rows in (here, there)]
    assert [[row["value"] for row in end] for end in ends] == [
        [row["value"] for row in ends[0]]
    ] * 2
    # Edge intelligence beside what it is next to: two cables less, each way.
    fastest = [min(int(row["received_ns"]) for row in end) for end in ends]
    assert fastest[0] - fastest[1] > 200_000


def test_messages_that_are_lost_before_edge_intelligence_are_predicted(
    running: Lab, tmp_path: Path
) -> None:
    loss = {"at": "ss-ei", "percent": 50}
    rows, report = sent(
        running, tmp_path / "held", kinematic={"loss": loss, "predict-after": "6ms"}
    )
    assert report.disagreements == []
    edge, robot = (at(rows["kinematic"], each) for each in ("ss-ei", "tactile-teleoperator"))
    came = [int(row["seq"]) for row in edge if row["received_ns"]]
    assert 30 < len(came) < 70
    assert [int(row["seq"]) for row in robot] == [*range(came[0], 100)]
    # 6 ms after its instant and a reading of the clock, whether it had come or not.
    left = {int(row["left_ns"]) for row in edge}
    assert max(left) - 6 * MS < 2_000
    assert min(left) >= 6 * MS
    values = {int(row["seq"]): row["value"] for row in robot}
    lost = sorted(values.keys() - {*came})
    assert all(values[n] == values[n - 1] for n in lost)
