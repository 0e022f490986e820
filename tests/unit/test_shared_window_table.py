"""`scripts/bench-planner --windows`: what is asked of the planner, and how a plan is measured."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import Intent, Plan, PortRef
from cnc.planner import plan
from tests.shared_windows import networks, suite, table
from tests.unit.planner_networks import BEST_EFFORT, CYCLIC, LINE, MS, US, intent, stream

EXACT = {"gates": "full-offload", "gate-margin": "0us", "recovery": "none"}
LAST = PortRef("s2", "l")


def read(document: networks.Document) -> Intent:
    return intents.from_document(document, "asked")


def test_every_row_asks_for_a_valid_network_under_a_name_of_its_own():
    rows = list(table.rows())
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert read(row.document).streams


def test_streams_are_added_until_the_fullest_link_has_its_load():
    asked = read(networks.loaded(networks.line(3), load_percent=5, **EXACT))
    computed = plan(asked)
    assert len(computed.streams) == len(asked.streams)
    assert 4.5 < table.fullest_percent(computed) <= 5
    assert {its.period_ns // MS for its in asked.streams.values()} == {1, 2, 4, 8}


def test_every_port_of_a_loaded_network_may_have_short_lists():
    asked = read(networks.loaded(networks.ring(3), load_percent=1, gate_entries_max=8, **EXACT))
    network = asked.network
    assert {
        link.gate_entries_max
        for port, link in network.links.items()
        if port.node in network.bridges
    } == {8}


def test_the_switches_of_a_grid_have_neighbours_in_rows_and_columns():
    assert set(networks.grid(2)) == {("s0", "s1"), ("s2", "s3"), ("s0", "s2"), ("s1", "s3")}
    assert len(networks.grid(3)) == 12


@pytest.mark.parametrize(("rate", "frames"), [("1Gbps", 792), ("100Mbps", 79)])
def test_the_wire_carries_what_control_leaves(rate, frames):
    asked = read(networks.two_switches(1, rate=rate, gate_margin="50us"))
    assert table.wire_frames(asked, LAST) == frames


def test_one_window_holds_as_many_frames_as_a_stream_of_so_many_has_a_place():
    document = networks.two_switches(1, rate="100Mbps", gate_margin="50us", recovery="none")
    document["streams"]["f0"]["max-latency"] = "10ms"
    holds = table.window_frames(read(document), LAST)
    assert holds > 1
    for frames, is_placed in ((holds, True), (holds + 1, False)):
        document["streams"]["f0"]["frames"] = frames
        assert bool(plan(read(document), best_effort=True).streams) is is_placed


def test_a_device_of_a_cell_counts_with_both_its_streams():
    computed = plan(read(networks.cell(2, 2, **EXACT)))
    (row,) = (
        row for row in table.rows() if row.name.startswith("cell of 2") and "none" in row.name
    )
    assert row.measured(computed) == 2
    streams = {name: its for name, its in computed.streams.items() if name != "position-1"}
    assert row.measured(replace(computed, streams=streams)) == 1


def test_best_effort_keeps_what_the_port_that_leaves_it_least_has():
    one, many = (
        plan(read(networks.synchronous(1, **EXACT, rate=rate))) for rate in ("1Gbps", "100Mbps")
    )
    assert 0 < table.best_effort_percent(many) < table.best_effort_percent(one) < 100
    assert table.best_effort_percent(replace(one, gates={})) is None


@pytest.fixture
def two_rows(monkeypatch):
    document = networks.synchronous(1, **EXACT)

    def of(**bars):
        asked = table.Row("asked", document, 1, narrowest=PortRef("s1", "plc"), **bars)
        monkeypatch.setattr(table, "rows", lambda: iter([asked, replace(asked, name="other")]))

    return of


@pytest.mark.parametrize(
    ("bars", "told"),
    [
        ({"bar": 1, "best_effort_bar": 50}, "met"),
        ({"bar": None}, ""),
        ({"bar": 2}, "NOT MET"),
        ({"bar": 1, "best_effort_bar": 100}, "NOT MET"),
    ],
)
def test_a_row_tells_whether_its_bars_are_met(two_rows, capsys, bars, told):
    two_rows(**bars)
    assert table.show("as*") is (told != "NOT MET")
    _, line, *_, last = capsys.readouterr().out.splitlines()
    assert line.startswith("asked ")
    assert line.endswith(told)
    assert ("MET" in line) is (told == "NOT MET")
    assert last == f"{int(told != 'NOT MET')} of 1 row as they must be, by sound plans"


def test_where_nothing_is_asked_no_bar_is_met(two_rows):
    two_rows(bar=1)
    assert not table.show("no such row")
    assert not suite.show([], 0, 1)


def test_a_plan_that_the_judge_refuses_meets_no_bar(two_rows, capsys, monkeypatch):
    two_rows(bar=1)
    monkeypatch.setattr(table, "judge", lambda _: ["late"])
    assert not table.show("asked")
    assert "1 FAULTS: late" in capsys.readouterr().out


@pytest.fixture
def lines():
    """One stream that has the time, and one that has not even by itself."""
    classes = (CYCLIC, BEST_EFFORT)
    network = replace(LINE, disturbance_ns=None)
    slow, quick = stream("slow", "t", "l"), stream("quick", "t", "l", max_latency_ns=60 * US)
    return [intent(network, slow, quick, classes=classes)]


def test_of_a_suite_only_streams_count_that_could_be_in_time(lines, capsys):
    assert suite.show(lines, 50 * US, 1)
    told = capsys.readouterr().out
    assert told.splitlines()[1].split()[1:7] == ["2", "1", "1", "100.0%", "1", "100.0%"]
    assert "the network with the least: 100.00%, bar 80%: met" in told


def test_a_suite_of_which_too_little_is_placed_misses_its_bars(lines, capsys, monkeypatch):
    monkeypatch.setattr(suite, "plan", lambda wanted, **_: Plan(wanted, {}, {}, "none"))
    assert not suite.show(lines, 50 * US, 1)
    assert capsys.readouterr().out.count("NOT MET") == 3


def test_a_fault_in_a_network_of_a_suite_fails_it(lines, capsys, monkeypatch):
    monkeypatch.setattr(suite, "judge", lambda _: ["late"])
    assert not suite.show(lines, 0, 1)
    assert "2 FAULTS: late" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["--windows", "--only", "none such"], "cell of 1, 64 B both ways, 1 ms"),
        (["--suite", "{suite}", "--out", "{suite}", "--only", "none such"], "\n  N_one.json"),
        (["--only", "N_one.json"], "state one of these"),
    ],
)
def test_a_pattern_that_selects_nothing_is_an_error_that_names_what_there_is(
    tmp_path: Path, asked: list[str], why: str
) -> None:
    (tmp_path / "N_one.json").touch()
    program = Path(__file__).parents[2] / "scripts" / "bench-planner"
    arguments = [each.format(suite=tmp_path) for each in asked]
    ended = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert why in ended.stderr
