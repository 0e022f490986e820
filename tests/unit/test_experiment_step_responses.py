"""Step responses over round-trip time and loss: the report, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.errors import InputError
from cnc.loops.model import Loop, Loops
from cnc.testbed import experiments
from cnc.testbed.experiments.description import StepResponsesDescription
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.experiments.step_responses import StepResponses
from cnc.testbed.experiments.step_responses.experiment import COLUMNS
from cnc.testbed.experiments.step_responses.figures import (
    computed,
    draw,
    over,
)
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.run import Period
from tests.experiments import assert_file_is_refused

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "experiments" / "step-responses.yaml"
LOOP = intents.load(SCHEDULES / "touch.yaml")[Loops].by_name["press"]
MS = 1_000_000
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)


# --- the report ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def experiment() -> StepResponses:
    made = experiments.experiment_of(experiments.load(FILE), FILE)
    assert isinstance(made, StepResponses)
    few = made.description.model_copy(
        update={
            "round_trips_ns": [0, 10 * MS],
            "losses": [0, 70],
            "seeds": [1, 2],
            "tune": None,
        }
    )
    return replace(made, description=few, loop=replace(made.loop, duration_ns=120 * MS))


Key = tuple[int, int, int | None]


def measured(experiment: StepResponses, key: Key) -> list[Period]:
    """What a lab records that does as the recursion says."""
    round_trip_ns, loss, seed = key
    loop = over(experiment.loop, round_trip_ns)
    lost = draw(loop.periods, loss, seed)
    return [
        Period(
            n,
            n * MS,
            output,
            None if n in lost.samples else n * MS + 1,
            n,
            None if n in lost.commands else n * MS + 2,
            0.0,
            n,
            n,
        )
        for n, output in enumerate(computed(loop, lost))
    ]


def reported(
    experiment: StepResponses,
    directory: Path,
    changed: Mapping[Key, Mapping[int, dict[str, object]]] | None = None,
    platform: Platform = EXACT,
) -> Report:
    """The report of such a record, in which some periods of some curves are others."""
    rows: list[list[object]] = []
    for round_trip_ns in experiment.description.round_trips_ns:
        for loss in experiment.description.losses:
            for seed in experiment.description.seeds if loss else (None,):
                key = (round_trip_ns, loss, seed)
                for period in measured(experiment, key):
                    change = (changed or {}).get(key, {}).get(period.step, {})
                    its = replace(period, **change)  # type: ignore[arg-type]
                    rows.append([*key, *run.cells(its)])
    write_rows(directory, COLUMNS, rows)
    return experiment.report(directory, platform)


def test_curves_that_are_computed_and_measured_alike_agree(
    experiment: StepResponses, tmp_path: Path
):
    report = reported(experiment, tmp_path)
    assert report.disagreements == []
    points = report.summary["points"]
    places = [(each["round_trip_ns"], each["loss_percent"]) for each in points]
    assert places == [(0, 0), (0, 70), (10 * MS, 0), (10 * MS, 70)]
    assert [len(each["curves"]) for each in points] == [1, 2, 1, 2]
    assert points[0]["good"] == 1
    assert points[2]["good"] == 0  # 20.6 %, and 20 % are accepted
    assert points[1]["curves"][1]["lost_samples"] == len(draw(120, 70, 2).samples)
    assert report.summary["tuning"] is None
    json.dumps(report.summary)


def test_a_curve_that_is_off_in_the_last_digit_is_told(experiment: StepResponses, tmp_path: Path):
    its = measured(experiment, (0, 70, 2))[30].output
    off = its * (1 + 2**-52)
    report = reported(experiment, tmp_path, {(0, 70, 2): {30: {"output": off}}})
    assert report.disagreements == [
        f"round trip 0 ns, 70 % lost, seed 2: the output of period 30 is {off!r}, computed {its!r}"
    ]


def test_a_frame_that_was_lost_beside_those_drawn_is_told(
    experiment: StepResponses, tmp_path: Path
):
    lost = {(10 * MS, 0, None): {5: {"sample_received_ns": None}}}
    report = reported(experiment, tmp_path, lost)
    why = (
        "round trip 10 ms, 0 % lost: 1 sample and 0 commands did not come, and 0 samples and 0 "
        "commands were to"
    )
    assert report.disagreements == [why]


def test_nothing_that_was_measured_is_judged_on_a_real_clock(
    experiment: StepResponses, tmp_path: Path
):
    off = {(0, 0, None): {30: {"output": 7.0}}}
    report = reported(experiment, tmp_path, off, ON_A_REAL_CLOCK)
    assert report.disagreements == []
    assert report.remarks[-1].endswith("measured curves are not judged.")


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("round-trips: [0ms, 5ms, 8ms, 10ms, 20ms]", "round-trips: [0ms, 5ms, 5ms]"),
            "15: round-trips[2]: found 5ms, expected more than 5ms, which is before it",
        ),
        (
            ("round-trips: [0ms, 5ms, 8ms, 10ms, 20ms]", "round-trips: [0ms, 2s]"),
            "15: round-trips[1]: found '2s', expected a duration from 0ns to 1s",
        ),
        (
            ("losses: [0, 30, 50, 70]", "losses: [30, 0]"),
            "16: losses[1]: found 0, expected more than 30, which is before it",
        ),
        (
            ("losses: [0, 30, 50, 70]", "losses: [100]"),
            "16: losses[0]: found 100, expected a percentage from 0 to 99",
        ),
        (
            ("seeds: [1, 2, 3, 4, 5]", "seeds: [1, 2, 1]"),
            "17: seeds[2]: found 1, expected a seed that is not before it",
        ),
        (
            ("kp: {from: 0, to: 0.5}", "kp: {from: 0.5, to: 0.5}"),
            "19: tune.kp.to: found 0.5, expected more than 0.5, its `from`",
        ),
        (
            ("to: 350}, round-trips: [0ms, 5ms, 10ms]", "to: 350}, round-trips: [0ms]"),
            "19: tune.round-trips: found 1 value, expected at least 2",
        ),
        (
            ("to: 350}, round-trips: [0ms, 5ms, 10ms]", "to: 350}, round-trips: [5ms, 0ms]"),
            "19: tune.round-trips[1]: found 0ns, expected more than 5ms, which is before it",
        ),
    ],
)
def test_a_grid_that_is_none_is_refused_with_line_and_key(
    tmp_path: Path, change: tuple[str, str], why: str
):
    assert_file_is_refused(FILE, change, tmp_path, why)


def a_loop(directory: Path, *changes: tuple[str, str]) -> Path:
    """The file of an experiment on a network that is not quite touch.yaml."""
    network = (SCHEDULES / "touch.yaml").read_text()
    for one, other in changes:
        assert network.count(one) == 1
        network = network.replace(one, other)
    (directory / "network.yaml").write_text(network)
    file = directory / "e.yaml"
    file.write_text(FILE.read_text().replace("../touch.yaml", "network.yaml"))
    return file


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([("press:", "push:")], "loop: found 'press', expected push"),
        (
            [("pi: {kp: 0.2, ki: 150}", 'python: "mine:make"')],
            "loop: press has code of the operator's own, and its curves are not computed here",
        ),
        (
            [
                ("    accept: {rise-time: 40ms, overshoot: 20}\n", ""),
                ("duration: 400ms", "duration: 400ms\n    path: {ramp: 1}"),
                ("    reference: 1\n", ""),
            ],
            "loop: press follows a path, and has no step response",
        ),
        (
            [("    accept: {rise-time: 40ms, overshoot: 20}\n", "")],
            "loop: press has no `accept`, and nothing says which curves are good",
        ),
        (
            [("duration: 400ms", "duration: 400ms\n    steps: 3")],
            "loop: press has 3 steps, and a curve is one of one step",
        ),
        (
            [("duration: 400ms", "duration: 5s")],
            (
                "loop: press has 5000 periods, and the kernel's classifier has room for the losses "
                "of 4000"
            ),
        ),
        (
            [("duration: 400ms", "duration: 20ms")],
            (
                "round-trips: with 20 ms the first command of press acts after 20.5 ms, and the "
                "loop is watched for 20 ms"
            ),
        ),
        (
            [("name: touch", "name: touch\nforwarding: bridged")],
            (
                "network: network.yaml is bridged, and frames to be lost are identified by the "
                "headers of IP and UDP here"
            ),
        ),
    ],
)
def test_a_loop_that_does_not_fit_is_refused(
    tmp_path: Path, changes: list[tuple[str, str]], why: str
):
    file = a_loop(tmp_path, *changes)
    with pytest.raises(InputError) as refused:
        experiments.experiment_of(experiments.load(file), file)
    assert str(refused.value) == f"{file}: {why}"


def test_a_search_over_a_network_too_long_for_the_loop_is_refused(tmp_path: Path):
    file = a_loop(tmp_path, ("duration: 400ms", "duration: 21ms"))
    file.write_text(file.read_text().replace("5ms, 10ms]}", "5ms, 21ms]}"))
    with pytest.raises(InputError) as refused:
        experiments.experiment_of(experiments.load(file), file)
    assert str(refused.value) == (
        f"{file}: tune.round-trips: with 21 ms the first command of press acts after 21.5 ms, and "
        "the loop is watched for 21 ms"
    )


def test_half_of_the_round_trip_is_on_each_way(experiment: StepResponses):
    there, back = experiment.impairments(5 * MS + 1, 70, 2)
    assert (there.talker, there.delay_ns, back.talker, back.delay_ns) == (
        "r",
        2_500_000,
        "o",
        2_500_001,
    )
    lost = draw(120, 70, 2)
    assert (there.lost, back.lost) == (lost.samples, lost.commands)


def test_a_search_is_optional_and_the_loop_of_the_file_is_found():
    loaded = experiments.load(FILE)
    assert isinstance(loaded, StepResponsesDescription)
    without = loaded.model_copy(update={"tune": None})
    found: Loop = StepResponses.of(without, FILE).loop
    assert found == LOOP
