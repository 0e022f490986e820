"""The latency characterizer: the report of what a test PC has recorded, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed import experiments
from cnc.testbed.experiments.characterizer import Characterizer, network
from cnc.testbed.experiments.characterizer.experiment import COLUMNS
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.lab.platform import Platform

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "experiments" / "characterizer.yaml"
US, MS = 1_000, 1_000_000
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)
ROUNDS = 30


@pytest.fixture(scope="module")
def experiment() -> Characterizer:
    made = experiments.experiment_of(experiments.load(FILE), FILE)
    assert isinstance(made, Characterizer)
    accuracy = made.description.accuracy
    assert accuracy is not None
    few = accuracy.model_copy(update={"works_ns": [MS], "rates_bps": [0, 750_000]})
    its = made.description.model_copy(update={"accuracy": few, "least": ROUNDS, "most": ROUNDS})
    return Characterizer(its, made.emulated, made.chain)


Row = tuple[int | None, int, int, int, int, int | None]
Change = Callable[[Row], Row]


def rows_of(experiment: Characterizer) -> list[Row]:
    """What a lab records that does as it is modelled."""
    rows: list[Row] = []
    for work_ns, rate_bps in experiment.keys:
        chain, points = experiment.asked((work_ns, rate_bps))
        before = ["pc", *(each.station for each in chain)]
        links_ns = [
            network.round_trip_ns(experiment.emulated.network, one, each.station, 100)
            for one, each in zip(before, chain, strict=False)
        ]
        for n in range(ROUNDS):
            for point in points:
                place = chain.index(point.component)
                its_ns = sum(links_ns[: place + 1]) + sum(each.work_ns for each in chain[:place])
                its_ns += point.component.work_ns if point.exit_number else 0
                its_ns += (point.component.moving_ns or 0) if point.exit_number > 1 else 0
                sent_ns = n * 1_000 * MS
                row = (work_ns, rate_bps, n, point.number, sent_ns, sent_ns + its_ns)
                rows.append(row)
    return rows


def reported(
    experiment: Characterizer,
    directory: Path,
    change: Change = lambda row: row,
    platform: Platform = EXACT,
) -> Report:
    """The report of such a record, in which some rows are others."""
    return reported_rows(experiment, directory, [*map(change, rows_of(experiment))], platform)


def reported_rows(
    experiment: Characterizer, directory: Path, rows: Sequence[Row], platform: Platform = EXACT
) -> Report:
    write_rows(directory, COLUMNS, rows)
    return experiment.report(directory, platform)


def later(by_ns: int, *, work_ns: int | None, rate_bps: int, point: int) -> Change:
    """Echoes of one point that come later, in one run."""

    def change(row: Row) -> Row:
        *key, number, sent_ns, received_ns = row
        if key[:2] != [work_ns, rate_bps] or number != point or received_ns is None:
            return row
        return (row[0], row[1], row[2], number, sent_ns, received_ns + by_ns)

    return change


# --- the report ----------------------------------------------------------------------------------


def test_differences_are_of_components_links_and_the_actuator(
    experiment: Characterizer, tmp_path: Path
):
    report = reported(experiment, tmp_path)
    assert report.disagreements == []
    components = report.summary["components"]
    assert components["rounds"] == ROUNDS
    assert [point["name"] for point in components["points"]][-3:] == [
        "robot entry",
        "robot exit(1)",
        "robot exit(2)",
    ]
    assert len(components["points"]) == 9
    of = {each["of"]: each["measured_ns"] for each in components["differences"]}
    assert of["ms-com"] == 100 * US
    assert of["srv"] == 2 * MS
    assert of["robot moves"] == 110 * MS
    # 130 octets are on each of three cables of 10 Mb/s, there and back, and take 1 µs to propagate;
    # two switches take another one. Emulated delays are rounded down to 64 ns.
    assert of["ms-com – srv, there and back"] == 2 * (3 * 104_000 + 960 + 2 * 1_984)  # noqa: RUF001
    accuracy = report.summary["accuracy"]
    assert [each["measured_ns"] for each in accuracy] == [MS, MS]
    assert [each["paper_ns"] for each in accuracy] == [1_080 * US, 1_010 * US]
    json.dumps(report.summary)


def test_a_difference_that_is_more_than_a_microsecond_off_is_told(
    experiment: Characterizer, tmp_path: Path
):
    off = later(1_001, work_ns=None, rate_bps=0, point=3)
    report = reported(experiment, tmp_path, off)
    assert report.disagreements == [
        "srv: measured 2.001 ms, 2 ms is modelled",
        "srv – ss-com, there and back: measured 632.855 µs, 633.856 µs is modelled",  # noqa: RUF001
    ]
    not_off = later(1_000, work_ns=None, rate_bps=0, point=3)
    assert reported(experiment, tmp_path, not_off).disagreements == []


def test_a_work_that_is_more_than_a_tenth_off_is_told(experiment: Characterizer, tmp_path: Path):
    off = later(100_001, work_ns=MS, rate_bps=750_000, point=3)
    report = reported(experiment, tmp_path, off)
    assert report.disagreements == ["1 ms beside 750 kb/s: measured 1.1 ms, +10.0 %"]
    not_off = later(-100_000, work_ns=MS, rate_bps=750_000, point=3)
    assert reported(experiment, tmp_path, not_off).disagreements == []


def test_echo_points_that_were_asked_in_batches_are_told(experiment: Characterizer, tmp_path: Path):
    rows = rows_of(experiment)
    batches = sorted(
        (row for row in rows if row[:2] == (MS, 750_000)), key=lambda row: (row[3], row[2])
    )
    in_turn = [row for row in rows if row[:2] != (MS, 750_000)]
    report = reported_rows(experiment, tmp_path, [*in_turn, *batches])
    why = "1 ms beside 750 kb/s: echo points were not asked in turn"
    assert report.disagreements == [why]


def test_rounds_in_another_order_are_told(experiment: Characterizer, tmp_path: Path):
    rows = rows_of(experiment)
    rows[0], rows[1] = rows[1], rows[0]
    report = reported_rows(experiment, tmp_path, rows)
    assert report.disagreements == ["components: echo points were not asked in turn"]


def test_a_lost_echo_is_told_where_nothing_else_is_sent_and_remarked_elsewhere(
    experiment: Characterizer, tmp_path: Path
):
    its = experiment.description.model_copy(update={"least": ROUNDS - 1})
    experiment = Characterizer(its, experiment.emulated, experiment.chain)

    def lost(row: Row) -> Row:
        return (*row[:5], None) if row[2:4] == (7, 3) else row

    report = reported(experiment, tmp_path, lost)
    assert report.disagreements == ["components: an echo was lost in 1 round"]
    assert "1 ms beside 750 kb/s: an echo was lost in 1 round." in report.remarks
    assert report.summary["accuracy"][0]["rounds_with_a_lost_echo"] == 1
    assert report.summary["accuracy"][0]["rounds"] == ROUNDS - 1


def test_a_report_says_what_the_most_rounds_were_too_few_for(
    experiment: Characterizer, tmp_path: Path
):
    def scattered(row: Row) -> Row:
        if row[0] is None or row[3] != 3 or row[5] is None:
            return row
        return (*row[:5], row[5] + (900 * US if row[2] % 2 else -900 * US))

    report = reported(experiment, tmp_path, scattered)
    assert report.disagreements == []
    assert "1 ms beside 750 kb/s: 30 rounds were not enough for srv." in report.remarks
    assert report.summary["accuracy"][1]["is_precise"] is False


def test_nothing_is_judged_on_a_real_clock(experiment: Characterizer, tmp_path: Path):
    off = later(MS, work_ns=None, rate_bps=0, point=3)
    report = reported(experiment, tmp_path, off, ON_A_REAL_CLOCK)
    assert report.disagreements == []
    assert report.remarks[-1].endswith("nothing is judged.")


# --- what is sent beside -------------------------------------------------------------------------


def test_others_send_about_at_their_rate_from_each_to_each_as_the_seed_has_it(
    experiment: Characterizer,
):
    flows = network.others(experiment.emulated, ["h1", "h2", "h3"], 500_000, 1_000, seed=1)
    ends = {(flow.talker, flow.listener) for flow in flows}
    assert len(ends) == len(flows) == 6
    for its in ({flow.period_ns for flow in flows}, {flow.offset_ns for flow in flows}):
        assert len(its) == 6  # of equal periods the phases would stay as they are
    assert all(15.68 * MS <= flow.period_ns <= 16.32 * MS for flow in flows)
    assert all(0 <= flow.offset_ns < 16 * MS for flow in flows)
    assert flows == network.others(experiment.emulated, ["h1", "h2", "h3"], 500_000, 1_000, seed=1)
    assert flows != network.others(experiment.emulated, ["h1", "h2", "h3"], 500_000, 1_000, seed=2)
    assert network.others(experiment.emulated, ["h1", "h2"], 0, 1_000, seed=1) == []


# --- refused -------------------------------------------------------------------------------------


def refused(directory: Path, *changes: tuple[str, str], network_too: bool = False) -> str:
    """Why the file is refused in which something stands that is not in characterizer.yaml, or in
    its network; its own path is left out."""
    texts = {"e.yaml": FILE.read_text(), "network.yaml": (SCHEDULES / "chain.yaml").read_text()}
    texts["e.yaml"] = texts["e.yaml"].replace("../chain.yaml", "network.yaml")
    name = "network.yaml" if network_too else "e.yaml"
    for one, other in changes:
        assert texts[name].count(one) == 1
        texts[name] = texts[name].replace(one, other)
    for each, text in texts.items():
        (directory / each).write_text(text)
    file = directory / "e.yaml"
    with pytest.raises(InputError) as why:
        experiments.experiment_of(experiments.load(file), file)
    return str(why.value).removeprefix(f"{file}:")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("order: interleaved", "order: batch"),
            (
                "19: order: found 'batch', expected interleaved: in batches, what drifts from one "
                "to the next would be read as latency"
            ),
        ),
        (
            ("most: 5000", "most: 50"),
            "22: most: found 50, expected at least 100, which is `least`",
        ),
        (
            ("least: 100", "least: 5"),
            "21: least: found 5, expected a whole number from 30 to 100000",
        ),
        (
            ("work: 2ms", "work: 2ms, spin: true"),
            (
                "15: components[1].spin: found the unknown key 'spin', expected one of "
                "hold-until-moved, name, station, work"
            ),
        ),
        (
            ("work: 2ms", "work: 0ms"),
            "15: components[1].work: found '0ms', expected a duration from 1us to 1s",
        ),
        (
            ("name: ss-com", "name: srv"),
            "16: components[2].name: found 'srv', expected a name that is not before it",
        ),
        (
            ("station: ss,", "station: ms,"),
            "16: components[2].station: found 'ms', expected a station that is not before it",
        ),
        (
            ("component: srv", "component: serv"),
            (
                "25: accuracy.component: found 'serv', expected one of ms-com, robot, srv, ss-com; "
                "did you mean srv?"
            ),
        ),
        (
            ("works: [1ms, 3ms,", "works: [3ms, 1ms,"),
            "26: accuracy.works[1]: found 1ms, expected more than 3ms, which is before it",
        ),
        (
            ("rates: [0kbps, 500kbps,", "rates: [500kbps, 500kbps,"),
            "27: accuracy.rates[1]: found 500kbps, expected more than 500kbps, which is before it",
        ),
        (
            ("stations: [h1, h2, h3, h4]", "stations: [h1]"),
            "28: accuracy.stations: found 1 value, expected at least 2",
        ),
        (
            ("test-pc: pc", "test-pc: pd"),
            (" test-pc: found 'pd', expected one of h1, h2, h3, h4, ms, pc, rb, srv, ss"),
        ),
        (
            ("test-pc: pc", "test-pc: ms"),
            " components[0].station: found 'ms', which is test-pc already",
        ),
        (
            ("stations: [h1, h2, h3, h4]", "stations: [h1, srv]"),
            " accuracy.stations[1]: found 'srv', which is components[1].station already",
        ),
        (
            ("500kbps, 750kbps]", "3Mbps]"),
            (
                " accuracy.rates[1]: 3 Mb/s from each station to each other one is 125% of what "
                "s1/s2 carries"
            ),
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_the_reason(
    tmp_path: Path, change: tuple[str, str], why: str
):
    assert refused(tmp_path, change) == why


def test_a_bridged_network_is_refused(tmp_path: Path):
    change = ("name: chain", "name: chain\nforwarding: bridged")
    assert refused(tmp_path, change, network_too=True) == (
        " network: network.yaml is bridged, and echo commands are packets to an address"
    )


def test_a_network_in_two_parts_is_refused(tmp_path: Path):
    cut = ("  - [s2/s3, s3/s2]\n", "")
    why = refused(tmp_path, cut, network_too=True)
    assert why == " network: pc cannot reach ss"
