"""A signal over a lossy cable: predictions, what is computed, the report, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed import experiments
from cnc.testbed.experiments.edge_intelligence import EdgeIntelligence
from cnc.testbed.experiments.edge_intelligence.experiment import COLUMNS, RUNS
from cnc.testbed.experiments.edge_intelligence.figures import RAMP, TOGGLE, computed, value_at
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.edge.predictors import Received, forward, hold, line
from tests.experiments import assert_file_is_refused

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "experiments" / "edge-intelligence.yaml"
MS = 1_000_000
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)


@pytest.fixture(scope="module")
def experiment() -> EdgeIntelligence:
    made = experiments.experiment_of(experiments.load(FILE), FILE)
    assert isinstance(made, EdgeIntelligence)
    return made


# --- predictions ---------------------------------------------------------------------------------

TWO = (Received(0, 1.0), Received(10, 3.0))


def test_a_value_that_has_just_come_is_sent_as_it_is():
    assert [predict(TWO, 10) for predict in (forward, hold, line)] == [3.0, 3.0, 3.0]


def test_between_two_values_nothing_the_last_one_or_the_line_is_sent():
    assert [predict(TWO, 15) for predict in (forward, hold, line)] == [None, 3.0, 4.0]


def test_a_line_needs_two_values():
    assert line(TWO[:1], 15) == 1.0


# --- what is computed ----------------------------------------------------------------------------


def test_a_toggle_changes_at_each_interval_and_a_ramp_turns_after_ten():
    assert [value_at(TOGGLE, n) for n in (0, 0.9, 1, 2, 3.5)] == [1, 1, 0, 1, 0]
    assert [value_at(RAMP, n) for n in (0, 5, 10, 12.5, 20, 21)] == [0, 0.5, 1, 0.75, 0, 0.1]


def test_what_is_lost_is_made_up_for_by_the_next_frame_if_there_is_one():
    values = [1.0, 0.0]
    assert computed(values, "none", 3, {0}) == [
        *((1.0, 0.0), (None, 0.0), (None, 0.0)),
        *((0.0, 0.0), (None, 0.0), (None, 0.0)),
    ]
    assert computed(values, "hold", 3, {0, 3, 4}) == [
        *((1.0, 0.0), (1.0, 1.0), (1.0, 1.0)),
        *((0.0, 1.0), (0.0, 1.0), (0.0, 0.0)),
    ]


# --- the report ----------------------------------------------------------------------------------

Row = list[object]


def reported(
    experiment: EdgeIntelligence,
    directory: Path,
    change: Callable[[Row], None] = lambda _: None,
    platform: Platform = EXACT,
) -> Report:
    """The report of what a lab records that does as computed, each row changed."""
    rows: list[Row] = []
    for signal, predictor, is_lossy in RUNS:
        loss = experiment.description.loss if is_lossy else 0
        lost = experiment.lost(loss)
        its = computed(experiment.values(signal), predictor, experiment.periods_each, lost)
        for n, (sent, position) in enumerate(its):
            came = sent is not None and n not in lost
            row: Row = [signal, predictor, loss, n, "" if sent is None else repr(sent)]
            row += [n * MS + 600_000 if came else None, repr(position)]
            change(row)
            rows.append(row)
    write_rows(directory, COLUMNS, rows)
    return experiment.report(directory, platform)


def test_with_a_hold_every_change_comes_and_without_it_a_third_does(
    experiment: EdgeIntelligence, tmp_path: Path
):
    report = reported(experiment, tmp_path)
    assert report.disagreements == []
    lossless, none, held, *ramps = report.summary["runs"]
    assert (lossless["changes"], {*lossless["gaps_ns"]}) == (40, {100 * MS})
    assert (none["sent"], none["arrived"], none["changes"]) == (40, 19, 13)
    assert max(none["gaps_ns"]) == 1100 * MS
    assert (held["sent"], held["arrived"], held["changes"]) == (4000, 1988, 40)
    assert (min(held["gaps_ns"]), max(held["gaps_ns"])) == (95 * MS, 105 * MS)
    assert [round(each["mean_error"], 4) for each in ramps] == [0.147, 0.0505, 0.0096]
    json.dumps(report.summary)


def test_a_hold_is_off_by_half_a_step_of_the_ramp_where_nothing_is_lost():
    """And by as much of a step as frames are late for, where something is."""
    values = [value_at(RAMP, n) for n in range(10)]
    held = [position for _, position in computed(values, "hold", 100, ())]
    errors = [abs(position - value_at(RAMP, n / 100)) for n, position in enumerate(held)]
    assert sum(errors) / len(errors) == pytest.approx(0.1 * 0.99 / 2)


@pytest.mark.parametrize(
    ("place", "changed", "why"),
    [
        (
            ("toggle", "none", 0, 100),
            (5, None),
            "toggle, prediction none, 0 % lost: 0.0 of period 100 did not come, against what was",
        ),
        (
            ("toggle", "hold", 50, 0),
            (4, "0.0"),
            "toggle, prediction hold, 50 % lost: 0.0 of period 0 did not come, against what was",
        ),
        (
            ("ramp", "line", 50, 150),
            (6, "0.25"),
            "ramp, prediction line, 50 % lost: at 0.25 in period 150, computed 0.1",
        ),
    ],
)
def test_what_is_not_as_computed_is_told(
    experiment: EdgeIntelligence,
    tmp_path: Path,
    place: tuple[object, ...],
    changed: tuple[int, object],
    why: str,
):
    def change(row: Row) -> None:
        if tuple(row[:4]) == place:
            row[changed[0]] = changed[1]

    assert reported(experiment, tmp_path, change).disagreements[0].startswith(why)
    assert reported(experiment, tmp_path, change, ON_A_REAL_CLOCK).disagreements == []


def test_changes_too_far_apart_are_told(experiment: EdgeIntelligence, tmp_path: Path):
    strict = experiment.description.model_copy(update={"gap_error_ns": 4 * MS})
    told = reported(EdgeIntelligence(strict, experiment.emulated), tmp_path).disagreements
    assert (
        "toggle, prediction hold, 50 % lost: two changes 105 ms apart, 100 ms and at most 4 ms off "
        "expected"
    ) in told


def test_a_seed_that_loses_no_changes_is_told(experiment: EdgeIntelligence, tmp_path: Path):
    """What is expected is not what is computed: another draw may be as computed, and not so."""
    few = experiment.description.model_copy(update={"values": 4, "seed": 7})
    told = reported(EdgeIntelligence(few, experiment.emulated), tmp_path).disagreements
    why = "toggle, prediction none, 50 % lost: 4 of 4 changes came, fewer than 5 of 8 expected"
    assert why in told


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("edge: h3", "edge: o"),
            "13: edge: found o, expected another end station than o",
        ),
        (
            ("device: r", "device: h3"),
            "14: device: found h3, expected another end station than o and h3",
        ),
        (
            ("interval: 100ms", "interval: 100500us"),
            "16: interval: found 100.5ms, expected a multiple of the period, 1ms",
        ),
        (
            ("loss: 50", "loss: 100"),
            "19: loss: found 100, expected a percentage from 1 to 99",
        ),
        (
            ("period: 1ms", "period: 100us"),
            "18: period: found '100us', expected a duration from 1ms to 1s",
        ),
    ],
)
def test_an_experiment_that_is_none_is_refused_with_line_and_key(
    tmp_path: Path, change: tuple[str, str], why: str
):
    assert_file_is_refused(FILE, change, tmp_path, why)


@pytest.mark.parametrize(
    ("network", "file", "why"),
    [
        (
            ("name: crowded", "name: crowded\nforwarding: bridged"),
            ("", ""),
            (
                "network: network.yaml is bridged, and frames to be lost are identified by the "
                "headers of IP and UDP here"
            ),
        ),
        (("h3", "h4"), ("", ""), "edge: found 'h3', expected one of h1, h2, h4, o, r"),
        (
            ("", ""),
            ("values: 40", "values: 41"),
            (
                "values: the edge sends 4100 frames, and the kernel's classifier has room for the "
                "losses of 4000"
            ),
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, network: tuple[str, str], file: tuple[str, str], why: str
):
    text = (SCHEDULES / "crowded.yaml").read_text()
    (tmp_path / "network.yaml").write_text(text.replace(*network) if network[0] else text)
    of = tmp_path / "e.yaml"
    written = FILE.read_text().replace("../crowded.yaml", "network.yaml")
    of.write_text(written.replace(*file) if file[0] else written)
    with pytest.raises(InputError) as refused:
        experiments.experiment_of(experiments.load(of), of)
    assert str(refused.value) == f"{of}: {why}"
