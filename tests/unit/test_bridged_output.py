"""What commands print of bridged networks: destination, VLAN and PCP of every stream."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import cli, intent
from cnc.model.transmissions import transmissions
from cnc.planner import plan
from cnc.plans import file as planfile

SCHEDULES = Path(__file__).parents[2] / "schedules"
BRIDGED = SCHEDULES / "bridged5.yaml"
PLANNED = plan(intent.load(BRIDGED))


def cnc(*words: object) -> str:
    done = CliRunner().invoke(cli.cnc, [*map(str, words)], env={"COLUMNS": "220"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "plan.json"
    planfile.dump(PLANNED, written)
    return written


def row(table: str, name: str) -> list[str]:
    """The cells of the line of a table that names `name`."""
    return next(line for line in table.splitlines() if f" {name} " in line).split()


def test_the_table_of_a_plan_has_the_address_of_each_stream() -> None:
    printed = cnc("plan", BRIDGED)
    assert row(printed, "orders")[:5] == ["orders", "cyclic", "02:00:00:00:01:01", "20", "5"]
    assert " 03:54:53:4e:05:00     10     6 " in printed


def test_the_table_of_a_plan_shows_one_start_where_a_switch_copies_the_frame() -> None:
    (path, other) = PLANNED.streams["set-point-1"].paths
    assert path[0] == other[0]
    start = f"{path[0].offset_ns / 1000:g} µs"
    line = next(each for each in cnc("plan", BRIDGED).splitlines() if " set-point-1 " in each)
    assert line.count(start) == 1


def test_a_plan_says_which_switches_hold_too_few_filters_to_count(tmp_path: Path) -> None:
    text = BRIDGED.read_text()
    small = text.replace("s1: {", "s1: {stream-filters-max: 5, ")
    assert small != text
    (few := tmp_path / "few.yaml").write_text(small)
    told = (
        "too few stream filters to count frames that are out of profile: s1 holds 5 of 9 "
        "(stream-filters-max)"
    )
    assert told in cnc("plan", few)
    assert "too few" not in cnc("plan", BRIDGED)


def test_the_table_of_a_routed_plan_has_no_such_columns() -> None:
    assert "VLAN" not in cnc("plan", SCHEDULES / "line3.yaml")


def test_talkers_are_told_destination_vlan_and_pcp(file: Path) -> None:
    assert row(cnc("talkers", file), "log")[-4:] == ["03:54:53:4e:05:08", "10", "5", "panel"]
    told = {each["stream"]: each for each in json.loads(cnc("talkers", "--json", file))}
    assert [told["orders"][key] for key in ("destination_mac", "vlan_id", "pcp")] == [
        "02:00:00:00:01:01",
        20,
        5,
    ]
    rows = {
        each["stream"]: each for each in csv.DictReader(io.StringIO(cnc("talkers", "--csv", file)))
    }
    assert rows["orders"]["vlan_id"] == "20"


def test_talkers_of_a_routed_network_are_told_what_they_were_told_before(tmp_path: Path) -> None:
    planfile.dump(plan(intent.load(SCHEDULES / "line3.yaml")), tmp_path / "plan.json")
    (first, *_) = json.loads(cnc("talkers", "--json", tmp_path / "plan.json"))
    assert list(first)[-1] == "dscps"
    assert cnc("talkers", "--csv", tmp_path / "plan.json").splitlines()[0].endswith(",dscps")


def test_a_talker_sends_a_frame_once_that_its_switch_copies() -> None:
    sent = [each.path for each in transmissions(PLANNED) if each.stream == "stop"]
    assert sent == [1]


def test_diff_tells_of_another_address(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    text = BRIDGED.read_text().replace("91:e0:f0:00:fe:07", "91:e0:f0:00:fe:08")
    (tmp_path / "other.yaml").write_text(text)
    planfile.dump(plan(intent.load(tmp_path / "other.yaml")), other)
    assert "91:e0:f0:00:fe:07 in VLAN 10" in cnc("diff", file, other)
    found = json.loads(cnc("diff", "--json", file, other))
    assert found["same"] is False
    assert found["addresses"]["picture"]["after"] == {
        "destination_mac": "91:e0:f0:00:fe:08",
        "vlan_id": 10,
    }
    assert "addresses" not in json.loads(cnc("diff", "--json", file, file))
