"""The experiments with two uplinks: what is reported of rows, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cnc.errors import InputError
from cnc.testbed import experiments
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.experiments.multipath import aggregation, on_demand, reliability
from cnc.testbed.lab.platform import Platform
from tests.experiments import assert_file_is_refused

SCHEDULES = Path(__file__).parents[2] / "schedules"
S, MB = 1_000_000_000, 1_000_000
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)


def file_of(name: str) -> Path:
    return SCHEDULES / "experiments" / f"{name}.yaml"


def shipped(name: str) -> Any:
    return experiments.experiment_of(experiments.load(file_of(name)), file_of(name))


def reported(
    name: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    directory: Path,
    platform: Platform = EXACT,
) -> Report:
    write_rows(directory, columns, rows)
    report: Report = shipped(name).report(directory, platform)
    json.dumps(report.summary)
    assert platform.exact or report.disagreements == []
    return report


# --- the station ---------------------------------------------------------------------------------


def test_the_first_uplink_is_the_one_that_is_no_backup():
    uplinks = shipped("reliability").uplinks
    assert [link.source.port for link in uplinks.links] == ["eth0", "wwan0"]
    assert [link.propagation_ns for link in uplinks.links] == [5 * MB, 20 * MB]
    assert uplinks.modelled(EXACT) == "uplinks that take 5 ms and 20 ms one way"


def test_a_second_path_is_there_by_the_readings_of_the_algorithm_and_always_and_never():
    ways = shipped("on-demand").ways()
    assert (ways["never"], ways["always"]) == ({"mode": "single-path"}, {"mode": "hassle-free"})
    for reading in ("claimed", "printed"):
        connections = ways[reading]["connections"]
        assert connections["on-demand"] == {"reading": reading}
        assert connections["applications"]["video"]["media-rate"] == "8Mbps"


@pytest.mark.parametrize(
    "change",
    [
        ("wwan0: {backup: true}", "wwan0: {}"),
        ("paths: {eth0: {}, wwan0: {backup: true}}", "paths: {eth0: {}}"),
        ("[station/eth0, server/eth0]", "{ends: [station/eth1, server/eth0]}"),
    ],
    ids=["no backup", "one path", "no cable"],
)
def test_a_station_without_two_cables_one_of_them_a_backup_is_refused(
    tmp_path: Path, change: tuple[str, str]
):
    text = (SCHEDULES / "uplinks.yaml").read_text().replace("[eth0, wwan0]", "[eth0, wwan0, eth1]")
    assert text.count(change[0]) == 1
    (tmp_path / "uplinks.yaml").write_text(text.replace(*change))
    (tmp_path / "experiments").mkdir()
    file = tmp_path / "experiments" / "reliability.yaml"
    file.write_text(file_of("reliability").read_text())
    with pytest.raises(InputError) as refused:
        experiments.experiment_of(experiments.load(file), file)
    assert str(refused.value) == (
        f"{file}: station: found station, expected a station with `multipath` over two cables to "
        "server, of which one is a backup"
    )


def test_a_file_without_one_of_the_rates_is_refused(tmp_path: Path):
    change = "rates: [50Mbps, 20Mbps]", "rates: [50Mbps]"
    why = "15: rates: found 1 value, expected at least 2"
    assert_file_is_refused(file_of("reliability"), change, tmp_path, why)


# --- what two paths carry ------------------------------------------------------------------------


def aggregated(
    directory: Path, together_octets: int, platform: Platform = EXACT
) -> tuple[Report, Any]:
    """Of uplinks of 54 and 70 Mb/s, over two seconds."""
    octets = {"first": 13 * MB, "second": 17 * MB, "together": together_octets}
    rows = [(54 * MB, 70 * MB, way, each, 2 * S, "A=1") for way, each in octets.items()]
    report = reported("aggregation", aggregation.COLUMNS, rows, directory, platform)
    (point,) = report.summary["points"]
    return report, point


def test_what_both_carry_is_a_part_of_the_sum_of_each_alone(tmp_path: Path):
    report, point = aggregated(tmp_path, 29_100_000)
    assert (point["first_bps"], point["together_bps"]) == (52 * MB, 116_400_000)
    assert point["of_sum"] == pytest.approx(97)
    assert report.disagreements == []
    row = ["54 Mb/s and 70 Mb/s", "52.0", "68.0", "116.4", "97.0"]
    assert [*report.sheets[0].rows] == [row]


def test_too_little_of_the_sum_is_no_success_in_virtual_time(tmp_path: Path):
    report, _ = aggregated(tmp_path, 16 * MB)
    assert report.disagreements == [
        "54 Mb/s and 70 Mb/s: together 53.3 % of the sum, at least 95 % expected",
        "54 Mb/s and 70 Mb/s: together no more than one of them alone",
    ]
    report, _ = aggregated(tmp_path, 16 * MB, ON_A_REAL_CLOCK)
    assert report.remarks[-1] == "On this clock nothing is judged."


# --- a medium on demand --------------------------------------------------------------------------


def played(
    directory: Path,
    *,
    second_octets: int = 300 * MB,
    stalled_ns: int = S,
    subflow_ns: int = 400 * S,
) -> Report:
    """What the claimed algorithm makes of a medium, beside the others; two moments of each."""
    ends = {
        "never": (450 * S, 0, 0),
        "always": (S // 2, 1100 * S, 500 * MB),
        "claimed": (stalled_ns, subflow_ns, second_octets),
        "printed": (S, 1100 * S, 500 * MB),
    }
    rows = []
    for way, (its_stalled_ns, its_subflow_ns, octets) in ends.items():
        rows.append((way, S, S, 0, 0, MB, 0, ""))
        at = 1200 * S + its_stalled_ns, 1200 * S, 1200 * S
        rows.append((way, *at, its_subflow_ns, 1000 * MB - octets, octets, "A=1"))
    return reported("on-demand", on_demand.COLUMNS, rows, directory)


def test_a_medium_is_reported_with_what_its_second_path_carried(tmp_path: Path):
    report = played(tmp_path)
    assert report.disagreements == []
    assert report.sheets[0].rows[2] == ["on-demand", "30.0", "1.00", "400"]
    points = {each["way"]: each for each in report.summary["points"]}
    assert points["never"]["stalled_ns"] == 450 * S
    assert any("Power was not measured" in line for line in report.remarks)


@pytest.mark.parametrize(
    ("its", "why"),
    [
        (
            {"second_octets": 320 * MB},
            "on-demand: 32.0 % by the second path, at most 31 % expected",
        ),
        (
            {"stalled_ns": 2 * S},
            (
                "on-demand: stalled for 2 s, at most 1 s more than the 500 ms with both "
                "paths expected"
            ),
        ),
        ({"subflow_ns": 1100 * S}, "on-demand: a second subflow for no less time than always"),
    ],
    ids=["share", "stalls", "subflow"],
)
def test_a_path_on_demand_that_saves_too_little_is_no_success(
    tmp_path: Path, its: dict[str, int], why: str
):
    assert played(tmp_path, **its).disagreements == [why]


# --- a path that fails --------------------------------------------------------------------------


def transferred(directory: Path, silent_s: dict[str, tuple[int, int]]) -> Report:
    """A transfer of 8 Mb/s in each mode, of which nothing comes from one second to another."""
    rows = [
        (mode, second * S, 0 if begins < second <= ends else MB, "")
        for mode, (begins, ends) in silent_s.items()
        for second in range(1, 31)
    ]
    return reported("reliability", reliability.COLUMNS, rows, directory)


def test_a_transfer_is_reported_with_its_longest_time_without_progress(tmp_path: Path):
    silent_s = {"single-path": (5, 18), "reliability": (5, 5), "hassle-free": (5, 6)}
    report = transferred(tmp_path, silent_s)
    single, reliable, _ = report.summary["points"]
    assert (single["stalled_ns"], single["again_ns"]) == (14 * S, 3 * S)
    assert (reliable["stalled_ns"], reliable["again_ns"]) == (S, 0)
    assert (single["before_bps"], single["outage_bps"], reliable["outage_bps"]) == (
        8 * MB,
        0,
        8 * MB,
    )
    assert report.sheets[0].rows[0] == ["single-path", "14.00", "8.0", "0.0", "3.0"]
    assert report.disagreements == [
        "hassle-free: 2 s without progress, at most 1 s expected",
    ]


def test_a_transfer_by_one_path_cannot_go_on_without_it(tmp_path: Path):
    report = transferred(tmp_path, {"single-path": (5, 7), "reliability": (5, 30)})
    assert report.summary["points"][1]["again_ns"] is None
    assert report.disagreements == [
        ("single-path: 3 s without progress, at least the 10 s expected for which its path fails"),
        "reliability: 25 s without progress, at most 1 s expected",
    ]
