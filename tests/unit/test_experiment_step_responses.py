"""Step responses over round-trip time and loss: the recursion, the draw, the report, the search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from cnc import experiments
from cnc import intent as intents
from cnc.errors import InputError
from cnc.experiments import description
from cnc.experiments.description import StepResponsesDescription
from cnc.experiments.experiment import Report, write_rows
from cnc.experiments.step_responses import StepResponses
from cnc.experiments.step_responses.experiment import COLUMNS
from cnc.experiments.step_responses.figures import (
    NOTHING,
    Cell,
    Lost,
    Measured,
    computed,
    draw,
    has_settled,
    order_disagreements,
    over,
)
from cnc.experiments.step_responses.impairment import Impairment
from cnc.experiments.step_responses.sheets import grid
from cnc.experiments.step_responses.tuning import Comparison, Gains, compare, search, separation_s
from cnc.lab.platform import Platform
from cnc.loops import Accepted, Loop, PiController
from cnc.traffic.loop import run
from cnc.traffic.loop.response import step_responses
from cnc.traffic.loop.run import Curve, Period

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "experiments" / "step-responses.yaml"
LOOP = intents.load(SCHEDULES / "touch.yaml").loops["press"]
MS = 1_000_000
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)


def gains(kp: str, ki: str) -> Gains:
    return Gains(Decimal(kp), Decimal(ki))


# --- the recursion -------------------------------------------------------------------------------


def test_an_integral_part_alone_closes_the_same_share_of_the_error_in_each_period():
    outputs = computed(gains("0", "150").of(LOOP))
    share = 0.5 * 150 * 0.001  # of the plant's gain, in a period
    expected = [1 - (1 - share) ** n for n in range(LOOP.periods)]
    assert outputs == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_over_a_network_that_loses_nothing_it_is_the_curve_that_the_lab_compares_with():
    for round_trip_ns in (0, 5 * MS, 20 * MS):
        loop = over(LOOP, round_trip_ns)
        assert computed(loop) == run.undisturbed(loop)


@pytest.mark.parametrize(
    ("round_trip_ms", "overshoot"), [(0, 0.0), (5, 0.0), (10, 0.206), (20, 0.956)]
)
def test_a_longer_round_trip_makes_more_overshoot(round_trip_ms: int, overshoot: float):
    loop = over(LOOP, round_trip_ms * MS)
    (found,) = step_responses(computed(loop), loop)
    assert found.overshoot == pytest.approx(overshoot, abs=5e-4)


def test_nothing_is_felt_of_a_step_before_its_round_trip_is_over():
    outputs = computed(over(LOOP, 10 * MS))
    assert outputs[:11] == [0.0] * 11
    assert outputs[11] == pytest.approx(0.5 * (0.2 + 0.15))


def test_what_is_lost_is_held_on_both_ways():
    lost = Lost(samples=frozenset({0, 3}), commands=frozenset({1, 4}))
    outputs = computed(replace(LOOP, duration_ns=7 * MS), lost)
    y, felt, pushed, integral, expected = 0.0, 0.0, 0.0, 0.0, []
    for n in range(7):
        expected.append(y)
        felt = felt if n in lost.samples else y
        integral += 150 * 0.001 * (1 - felt)
        pushed = pushed if n in lost.commands else 0.2 * (1 - felt) + integral
        y = 0.5 * pushed
    assert outputs == pytest.approx(expected, rel=1e-12)
    assert outputs[2] == outputs[1]  # command 1 never came


# --- the draw ------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_frames_and_another_one_others():
    one, again, other = (draw(400, 30, seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert one.samples != one.commands
    for its in (one.samples, one.commands, other.samples, other.commands):
        assert 90 <= len(its) <= 150  # 120 of 400, and three standard deviations


def test_what_is_lost_at_one_percentage_is_lost_at_every_greater_one():
    for fewer, more in pairwise(draw(400, percent, 7) for percent in (0, 10, 30, 99)):
        assert fewer.samples < more.samples
        assert fewer.commands < more.commands
    assert draw(400, 0, 7) == draw(400, 50, None) == NOTHING


def test_frames_are_dropped_by_their_number_and_the_others_delayed():
    found = Impairment("r", "eth0", 4, 2_500_000, {3, 65_538})
    drop = (
        "filter add dev eth0 egress prio 1 protocol ip u32 match u16 0x138e 0xffff at 22 "
        "match u16 {} 0xffff at 30 match u16 {} 0xffff at 32 action drop"
    )
    assert [*found.commands()] == [
        "qdisc add dev eth0 root netem limit 100000 delay 2500.0us",
        "qdisc add dev eth0 clsact",
        drop.format("0x0000", "0x0003"),
        drop.format("0x0001", "0x0002"),
    ]
    assert [*found.removal()] == ["qdisc del dev eth0 root", "qdisc del dev eth0 clsact"]
    of_version_6 = [*replace(found, ip_version=6, lost={1}).commands()][-1]
    assert "protocol ipv6" in of_version_6
    assert "0x138e 0xffff at 42 match u16 0x0000 0xffff at 50" in of_version_6
    untouched = replace(found, delay_ns=0, lost=())
    assert [*untouched.commands(), *untouched.removal()] == []


# --- the search ----------------------------------------------------------------------------------

UNIT = (Decimal(0), Decimal(2)), (Decimal(0), Decimal(400))


def hill(at_kp: float, at_ki: float):
    def height(its: Gains) -> float:
        return -((float(its.kp) - at_kp) ** 2) - ((float(its.ki_per_s) - at_ki) / 200) ** 2

    return height


@pytest.mark.parametrize("top", [(1.2345, 77.7), (0.0, 400.0), (2.0, 0.0), (1.99, 399.0)])
def test_the_search_finds_a_maximum_within_its_ranges(top: tuple[float, float]):
    found = search(hill(*top), *UNIT)
    assert found.gains is not None
    assert float(found.gains.kp) == pytest.approx(top[0], abs=2 / 16 / 8**3)
    assert float(found.gains.ki_per_s) == pytest.approx(top[1], abs=400 / 16 / 8**3)
    assert len(found.surface) == 17**2
    assert found == search(hill(*top), *UNIT)


def test_the_search_stays_where_gains_are_allowed():
    def allowed_below_1(its: Gains) -> float | None:
        return float(its.kp) if its.kp < 1 else None

    found = search(allowed_below_1, *UNIT)
    assert found.gains is not None
    assert Decimal("0.999") < found.gains.kp < 1
    assert found.gains.ki_per_s == 0  # of equal ones the least
    assert found.surface[gains("1", "0")] is None
    nothing = search(lambda _: None, *UNIT)
    assert (nothing.gains, nothing.separation_s) == (None, None)
    assert len(nothing.surface) == 17**2


def test_the_two_curves_that_are_least_apart_count():
    both = [
        separation_s(LOOP, gains("0.2", "150"), pair) for pair in ([0, 5 * MS], [5 * MS, 10 * MS])
    ]
    of_three = separation_s(LOOP, gains("0.2", "150"), [0, 5 * MS, 10 * MS])
    assert None not in both
    assert of_three == min(filter(None, both))
    one, other = (computed(over(LOOP, round_trip_ns)) for round_trip_ns in (0, 5 * MS))
    by_hand = sum(abs(y - z) for y, z in zip(one, other, strict=True)) / 1000
    assert both[0] == pytest.approx(by_hand)


def test_the_separation_is_in_parts_of_the_step():
    tenfold = replace(LOOP, reference=Decimal(-10))
    both = (separation_s(its, gains("0.2", "150"), [0, 5 * MS]) for its in (LOOP, tenfold))
    assert next(both) == pytest.approx(next(both))


def test_gains_whose_curves_run_away_or_are_not_good_are_not_allowed():
    assert separation_s(LOOP, gains("0.2", "150"), [0, 20 * MS]) is None
    assert separation_s(LOOP, gains("0.2", "150"), [0, 10 * MS]) is not None
    # At 10 ms it overshoots by 20.6 %, and 20 % are accepted.
    assert separation_s(LOOP, gains("0.2", "150"), [10 * MS, 11 * MS]) is None
    # Within 40 ms and without overshoot, but after 82 % it is at 22, and at 73 again.
    assert separation_s(LOOP, gains("1.5", "150"), [0, 5 * MS]) is None


def test_the_gains_that_are_found_separate_the_curves_more_than_those_of_the_loop():
    found = compared(LOOP, 120 * MS, tuning("0.1", "0.9", "75", "235"))
    assert found.found is not None
    assert found.own.separation_s is not None
    assert found.found.separation_s > found.own.separation_s
    assert found.disagreement() is None
    better_own = replace(found, own=replace(found.own, separation_s=1.0))
    assert better_own.disagreement() == "tuning: the gains of the loop separate its curves more"
    elsewhere = replace(better_own, tune=tuning("0.5", "0.9", "75", "235"))
    assert elsewhere.disagreement() is None


def tuning(kp: str, to_kp: str, ki: str, to_ki: str) -> description.Tuning:
    return description.Tuning.model_validate(
        {
            "kp": {"from": float(kp), "to": float(to_kp)},
            "ki": {"from": float(ki), "to": float(to_ki)},
            "round-trips": ["0ms", "5ms"],
        }
    )


def compared(loop: Loop, duration_ns: int, tune: description.Tuning) -> Comparison:
    assert isinstance(loop.controller, PiController)
    return compare(replace(loop, duration_ns=duration_ns), loop.controller, tune)


def test_a_search_in_vain_is_told():
    found = compared(LOOP, 20 * MS, tuning("0", "0.1", "0", "1"))
    assert found.found is None
    assert found.disagreement() == (
        "tuning: with no gains of the first grid the curve at 0 ns is good and steady, and all "
        "curves settle"
    )
    assert found.document()["found"] is None


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


def cell(round_trip_ns: int, outputs: list[float]) -> Cell:
    loop = replace(LOOP, duration_ns=len(outputs) * MS)
    periods = [
        Period(n, n * MS, output, n * MS, n, n * MS, 0.0, n, n) for n, output in enumerate(outputs)
    ]
    curve = Curve(loop, periods)
    return Cell(round_trip_ns, 0, [Measured(round_trip_ns, 0, None, curve, NOTHING, outputs)])


def test_an_overshoot_that_falls_with_the_round_trip_is_told():
    more, less, running_away = [0, 1.3, 1, 1], [0, 1.2, 1, 1], [0, 1.4, 1, 0.5]
    assert order_disagreements([cell(0, less), cell(5 * MS, more)]) == []
    assert order_disagreements([cell(0, more), cell(5 * MS, less)]) == [
        "round trip 5 ms: overshoot 20.0 %, less than 30.0 % at 0 ns"
    ]
    assert order_disagreements([cell(0, running_away), cell(5 * MS, less)]) == []


@pytest.mark.parametrize(
    ("last", "settled"), [([1.0, 1.0], True), ([1.3, 1.0], False), ([1.0, 1.3], False)]
)
def test_a_curve_that_only_passes_by_at_its_end_has_not_settled(last: list[float], settled: bool):
    loop = replace(LOOP, duration_ns=8 * MS)
    (response,) = step_responses([0, 1.3, 1, 1.3, 1, 1.3, *last], loop)
    assert has_settled(response, loop) is settled


def test_a_row_has_the_spread_of_all_seeds_and_a_dash_for_what_never_came():
    never, soon = cell(0, [0, 0.5, 0.5, 0.5]), cell(0, [0, 1.2, 1, 1])
    both = Cell(0, 30, [*soon.curves, *never.curves])
    (row,) = grid([both], Accepted(overshoot_percent=10)).rows
    dash = "\N{EN DASH}"
    its = [f"1 … {dash}", "0.0 … 20.0", f"2 … {dash}", "1.20 … 2.50"]
    assert row == ["0", "30", "1 of 2", *its, "0", "0", "yes"]


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
    text = FILE.read_text()
    assert text.count(change[0]) == 1
    file = tmp_path / "e.yaml"
    file.write_text(text.replace(*change))
    with pytest.raises(InputError) as refused:
        description.load(file)
    assert str(refused.value) == f"{file}:{why}"


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
            (
                "loop: the controller of press is the operator's own, and its curves cannot be "
                "computed"
            ),
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
                "network: network.yaml is bridged, and frames that are to be lost are told by the "
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
