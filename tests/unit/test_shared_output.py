"""What is shown of plans in which frames share windows: the window, and how many share it."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from cnc import chart, cli
from cnc.check import judge
from cnc.cli import render
from cnc.model import Plan, PortRef
from cnc.model.transmissions import transmissions
from cnc.page.data import page_data
from cnc.plans import file as planfile
from cnc.plans.difference import difference
from cnc.plans.shared_windows import SharedWindow, shared_windows
from tests.unit.planner_networks import US
from tests.unit.shared_windows import example

EXACT = Path(__file__).parent / "data" / "line3-plan.json"
SCHEMAS = Path(__file__).parents[2] / "docs/reference/json"
SVG = "{http://www.w3.org/2000/svg}"
S1_S2 = PortRef("s1", "s2")


@pytest.fixture(scope="module")
def line3() -> Plan:
    """Four streams in a window of 60 µs on s1/s2, of which one comes four times in 2 ms."""
    return example("line3", window_ns=60 * US, slot_ns=100 * US)


@pytest.fixture(scope="module")
def mixed(line3: Plan) -> Plan:
    """The same with instants for the camera, which has the rest of a period for itself."""
    (way,) = line3.streams["camera"].paths
    exact = tuple(replace(hop, offset_ns=hop.offset_ns + 400 * US, window_ns=0) for hop in way)
    return replace(
        line3,
        streams={**line3.streams, "camera": replace(line3.streams["camera"], paths=(exact,))},
    )


@pytest.fixture
def run(line3: Plan, tmp_path: Path) -> Callable[..., str]:
    """What a command prints of the plan in a file."""
    file = tmp_path / "plan.json"
    file.write_text(planfile.dump(line3))

    def runs(command: str, *options: str) -> str:
        done = CliRunner().invoke(cli.cnc, [command, str(file), *options])
        assert done.exit_code == 0, done.output
        return done.stdout

    return runs


def test_streams_are_counted_in_each_window_of_a_port(line3: Plan) -> None:
    assert judge(line3) == []
    all_four, three = ("camera", "motion", "torque", "valves"), ("motion", "torque", "valves")
    assert shared_windows(line3)[S1_S2] == (
        SharedWindow(6, 100 * US, 160 * US, 2000 * US, all_four),
        SharedWindow(6, 600 * US, 660 * US, 2000 * US, ("torque",)),
        SharedWindow(6, 1100 * US, 1160 * US, 2000 * US, three),
        SharedWindow(6, 1600 * US, 1660 * US, 2000 * US, ("torque",)),
    )


def test_a_window_repeats_as_often_as_those_do_that_share_it(mixed: Plan) -> None:
    # The camera has none, so that windows repeat each millisecond.
    assert shared_windows(mixed)[S1_S2] == (
        SharedWindow(6, 100 * US, 160 * US, 1000 * US, ("motion", "torque", "valves")),
        SharedWindow(6, 600 * US, 660 * US, 1000 * US, ("torque",)),
    )


def test_a_window_that_opens_late_in_its_period_belongs_to_the_cycle_it_opens_in(
    line3: Plan,
) -> None:
    (way,) = line3.streams["torque"].paths
    late = tuple(replace(hop, offset_ns=hop.offset_ns + 480 * US) for hop in way)
    only = {"torque": replace(line3.streams["torque"], paths=(late,))}
    found = shared_windows(replace(line3, streams=only))
    assert found[PortRef("t1", "eth0")] == (
        SharedWindow(6, 480 * US, 540 * US, 500 * US, ("torque",)),
    )
    assert found[S1_S2] == (SharedWindow(6, 80 * US, 140 * US, 500 * US, ("torque",)),)


def test_exact_plans_have_no_shared_windows_and_are_shown_as_before() -> None:
    exact = planfile.load(EXACT)
    assert shared_windows(exact) == {}
    assert "window" not in chart.text(exact)
    data = page_data(exact)
    assert not any("windows" in port for port in data["ports"])
    assert not any("shares" in stream for stream in data["streams"])


# --- terminal ------------------------------------------------------------------------------------


def test_the_terminal_tells_each_window_of_a_port_and_how_many_streams_share_it(
    line3: Plan,
) -> None:
    lines = chart.text(line3, 120).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("s1/s2 → "))
    assert [line.strip() for line in lines[start + 6 : start + 10]] == [
        "window 100 to 160 of 2000 µs, class 6: 4 streams",
        "window 600 to 660 of 2000 µs, class 6: 1 stream",
        "window 1100 to 1160 of 2000 µs, class 6: 3 streams",
        "window 1600 to 1660 of 2000 µs, class 6: 1 stream",
    ]


def test_the_terminal_tells_from_when_to_when_a_stream_leaves(mixed: Plan) -> None:
    shown = chart.text(mixed, 120)
    assert "at  t1/eth0 0 to 60  s1/s2 100 to 160  s2/s3 200 to 260  s3/l1 300 to 360 µs" in shown
    assert "at  t2/eth0 400  s1/s2 500  s2/s3 600  s3/l2 700 µs" in shown


@pytest.mark.parametrize("width", [72, 100])
def test_no_line_is_wider_than_the_terminal(line3: Plan, width: int) -> None:
    assert max(map(len, chart.text(line3, width).splitlines())) <= width


def test_a_port_with_many_windows_tells_the_first_and_counts_the_rest() -> None:
    shown = chart.text(example("bridged5", window_ns=45 * US, slot_ns=120 * US), 120)
    (port,) = [its for its in shown.split("\n\n") if its.startswith("s2/drive1 → ")]
    *_, last_but_one, last = port.splitlines()
    assert last_but_one.strip() == "window 1300 to 1345 of 2000 µs, class 5: 1 stream"
    assert last.strip() == "and 1 more window"


def words(text: str) -> list[str]:
    """The lines of a table, with one blank between words."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_planning_prints_the_windows_of_switches(
    mixed: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    render.plan(mixed, None)
    lines = words(capsys.readouterr().out)
    assert any(
        "t1 → l1 (4 hops) 1 ms shared window 0 ns to 60 µs 361.1 µs ≥ " in line for line in lines
    )
    assert any("t2 → l2 (4 hops) 2 ms scheduled 400 µs 361.1 µs" in line for line in lines)
    begin = lines.index("windows that frames share, in any order")
    assert lines[begin + 2] == "port class opens all sent by every streams"
    assert lines[begin + 4 : begin + 11] == [
        "s1/s2 cyclic 100 µs 160 µs 1 ms 3",
        "s1/s2 cyclic 600 µs 660 µs 1 ms 1",
        "s2/s3 cyclic 200 µs 260 µs 1 ms 3",
        "s2/s3 cyclic 700 µs 760 µs 1 ms 1",
        "s3/l1 cyclic 300 µs 360 µs 1 ms 3",
        "s3/l1 cyclic 800 µs 860 µs 1 ms 1",
        "",
    ]


def test_a_talker_is_told_when_it_starts_and_by_when_it_has_sent(
    line3: Plan, run: Callable[..., str]
) -> None:
    assert {(each.offset_ns, each.window_ns) for each in transmissions(line3)} == {(0, 60 * US)}
    lines = words(run("talkers"))
    assert any("stream period sends at has sent by octets" in line for line in lines)
    assert "t1/eth0 motion 1 ms 0 ns 60 µs 200 6, priority 6 46 l1" in lines
    rows = list(csv.DictReader(run("talkers", "--csv").splitlines()))
    assert {row["window_ns"] for row in rows} == {"60000"}
    assert {each["window_ns"] for each in json.loads(run("talkers", "--json"))} == {60_000}


def test_talkers_of_exact_plans_are_told_of_no_window() -> None:
    done = CliRunner().invoke(cli.cnc, ["talkers", str(EXACT), "--json"])
    assert not any("window_ns" in each for each in json.loads(done.stdout))
    assert "has sent by" not in CliRunner().invoke(cli.cnc, ["talkers", str(EXACT)]).stdout


def test_a_window_that_changes_is_a_difference(
    line3: Plan, mixed: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    (way,) = line3.streams["motion"].paths
    longer = tuple(replace(hop, window_ns=hop.window_ns + 5 * US) for hop in way[1:])
    motion = replace(line3.streams["motion"], paths=((way[0], *longer),))
    found = difference(line3, replace(line3, streams={**line3.streams, "motion": motion}))
    assert (found.kept, [*found.placed]) == (3, ["motion"])
    render.plan_difference(found, as_json=False)
    render.plan_difference(difference(line3, mixed), as_json=False)
    lines = words(capsys.readouterr().out)
    moved = "motion leaves s1/s2 and 2 ports more from 100 µs to 160 µs from 100 µs to 165 µs"
    assert moved in lines
    assert "camera leaves t2/eth0 and 3 ports more from 0 ns to 60 µs at 400 µs" in lines


# --- JSON ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plan", "show", "talkers"])
def test_what_is_printed_as_json_keeps_to_its_schema(name: str, run: Callable[..., str]) -> None:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    printed = json.loads(run("talkers" if name == "talkers" else "show", "--json"))
    jsonschema.validate(printed, schema)
    if name != "talkers":
        assert printed["format"] == "cnc-plan/5"
        assert printed["streams"]["motion"]["paths"][0][1] == ["s1", "s2", 100_000, 6, 60_000]


# --- pictures ------------------------------------------------------------------------------------


def titles(of: Plan) -> list[str]:
    root = ET.fromstring(chart.svg(of))  # noqa: S314 - our own text
    return [title.text or "" for title in root.iter(f"{SVG}title")]


def test_the_picture_has_a_block_for_each_window_and_none_for_frames_in_it(mixed: Plan) -> None:
    on_s1 = [title for title in titles(mixed) if " on s1/s2: " in title]
    assert [title for title in on_s1 if "planned at" in title] == [
        "camera on s1/s2: planned at 500 µs, 11.536 µs long"
    ]
    assert [title for title in on_s1 if "window" in title] == [
        "motion, torque, valves on s1/s2: window 100 to 160 µs",
        "torque on s1/s2: window 600 to 660 µs",
        "motion, torque, valves on s1/s2: window 1100 to 1160 µs",
        "torque on s1/s2: window 1600 to 1660 µs",
    ]
    assert re.search(r">3 streams</text>", chart.svg(mixed))


def test_the_page_has_the_windows_of_a_port_with_their_streams(mixed: Plan) -> None:
    data = page_data(mixed)
    names = [stream["name"] for stream in data["streams"]]
    (port,) = [each for each in data["ports"] if each["name"] == "s1/s2"]
    shown = [
        (data["classes"][which]["name"], *times, [names[number] for number in members])
        for which, *times, members in port["windows"]
    ]
    assert shown == [
        ("cyclic", 100_000, 160_000, 1_000_000, ["motion", "torque", "valves"]),
        ("cyclic", 600_000, 660_000, 1_000_000, ["torque"]),
    ]
    assert {each["name"]: each.get("shares") for each in data["streams"]} == {
        "camera": None,
        "motion": True,
        "torque": True,
        "valves": True,
    }


def test_the_page_has_a_window_where_an_exact_hop_has_a_frame(mixed: Plan) -> None:
    data = page_data(mixed)
    for stream in data["streams"]:
        for _, offset, planned_end, latest_end, *_ in stream["hops"][1:]:
            if stream["name"] == "camera":
                assert planned_end - offset == (1400 + 22 + 20) * 8  # at 1 Gb/s
            else:
                assert planned_end == latest_end == offset + 60 * US
