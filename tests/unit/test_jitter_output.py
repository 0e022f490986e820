"""Bounds of jitter in plan files, in what commands print, on the page and beside measurements."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cnc import chart, cli, intent, page
from cnc.errors import InputError
from cnc.planner import plan
from cnc.plans import file as planfile
from cnc.testbed.cli.render import traffic
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.measure import RESOLUTION_NS, Spread, Summary, summarise
from cnc.testbed.traffic.recording import Frame
from cnc.testbed.traffic.report import TrafficReport
from tests.unit.planner_networks import BLOCKING_NS

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
# Control, twice the clock error, and a frame that takes 1839 to 1841 ns to be received.
MOTION_NS = BLOCKING_NS + 2_000 + 2
LIMITED_TEXT = LINE3.read_text().replace(
    "    max-latency: 50us\n    window", "    max-latency: 50us\n    max-jitter: 10us\n    window"
)


@pytest.fixture
def limited(tmp_path: Path) -> Path:
    """line3 with a limit of the jitter of `motion`."""
    file = tmp_path / "line3.yaml"
    file.write_text(LIMITED_TEXT)
    return file


@pytest.fixture
def document(limited: Path) -> dict[str, Any]:
    read = json.loads(planfile.dump(plan(intent.load(limited))))
    assert isinstance(read, dict)
    return read


def printed(*words: object) -> str:
    done = CliRunner().invoke(cli.cnc, [*map(str, words)], env={"COLUMNS": "220"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_plan_file_has_the_bounds_of_limited_streams(limited: Path) -> None:
    planned = plan(intent.load(limited))
    text = planfile.dump(planned)
    assert json.loads(text)["jitter_ns"] == {"motion": {"l1": MOTION_NS}}
    assert planfile.parse(text, "plan.json").jitter_ns == planned.jitter_ns


def test_a_plan_file_without_limits_has_no_such_section() -> None:
    text = planfile.dump(plan(intent.load(LINE3)))
    assert "jitter" not in text
    assert planfile.parse(text, "plan.json").jitter_ns == {}


def of_no_stream(document: dict[str, Any]) -> None:
    document["jitter_ns"]["lost"] = {"l1": 1}


def of_no_listener(document: dict[str, Any]) -> None:
    document["jitter_ns"]["motion"] = {"t1": 1}


def of_no_time(document: dict[str, Any]) -> None:
    document["jitter_ns"]["motion"]["l1"] = -1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (of_no_stream, "lost: found 'lost', expected a stream of the intent in this file"),
        (of_no_listener, "expected a listener of a stream of the intent in this file"),
        (of_no_time, "motion.l1: found -1, expected an integer from 0 to"),
    ],
)
def test_a_plan_file_with_other_bounds_is_refused(
    document: dict[str, Any], change: Callable[[dict[str, Any]], None], says: str
) -> None:
    change(document)
    with pytest.raises(InputError) as refused:
        planfile.parse(json.dumps(document), "plan.json")
    assert "plan.json: jitter_ns" in str(refused.value)
    assert says in str(refused.value)


def test_the_table_has_bound_and_limit_of_streams_that_have_one(limited: Path) -> None:
    table = printed("plan", limited)
    header = next(line for line in table.splitlines() if "latency bound" in line)
    assert "jitter bound   allowed" in header
    row = next(line for line in table.splitlines() if " motion " in line)
    assert f"{MOTION_NS / 1000:g} µs     10 µs" in row
    assert "jitter" not in printed("plan", LINE3)


def test_the_chart_and_the_page_show_bound_and_limit(limited: Path) -> None:
    planned = plan(intent.load(limited))
    assert f", jitter ≤ {MOTION_NS / 1000:g} of 10 µs" in chart.text(planned)
    assert f'"jitter_ns":{MOTION_NS},"jitter_limit_ns":10000' in page.html(planned)
    assert '"jitter_ns":' not in page.html(plan(intent.load(LINE3)))


SPREAD = Spread(10_000, 11_000, 11_000, 12_000, 13_000, 13_000)
SENT = Flow("motion", "t1", "l1", 6, 6, 46, 200, 1_000_000, 0, latency_bound_ns=50_000)


def bounded(bound_ns: int) -> dict[str, int]:
    return {"jitter_bound_ns": bound_ns, "arrivals_within_ns": 3_000}


def test_the_spread_of_arrivals_is_measured_beside_its_bound(limited: Path) -> None:
    planned = plan(intent.load(limited))
    frames = [
        Frame("motion", seq, seq * 1_000_000, 0, seq * 1_000_000 + latency)
        for seq, latency in enumerate((30_000, 33_000, 31_000))
    ]
    (found,) = summarise(planned, [SENT], frames)
    assert (found.arrivals_within_ns, found.jitter_bound_ns) == (3_000, MOTION_NS)
    (free,) = summarise(plan(intent.load(LINE3)), [SENT], frames)
    assert (free.arrivals_within_ns, free.jitter_bound_ns) == (None, None)


@pytest.mark.parametrize(("beyond_ns", "said"), [(0, False), (1, True)])
def test_arrivals_that_vary_more_than_time_stamps_can_err_break_the_plan(
    beyond_ns: int, said: bool
) -> None:
    bound_ns = 3_000 - RESOLUTION_NS - beyond_ns
    found = Summary(SENT, 3, 3, 0, 0, 0, 0, 0, SPREAD, SPREAD, **bounded(bound_ns))
    line = f"motion: arrivals vary by 3 µs of {bound_ns / 1000:g} µs"
    assert (line in found.violations()) == said


def test_the_measurement_is_printed_where_jitter_is_limited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exact = Platform("Linux 6.12", "a clock", exact=True)
    found = Summary(SENT, 3, 3, 0, 0, 0, 0, 0, SPREAD, SPREAD, **bounded(4_000))
    traffic.flows(TrafficReport([found], SPREAD, exact), as_json=True)
    (figures,) = json.loads(capsys.readouterr().out)["flows"]
    assert (figures["arrivals_within_ns"], figures["jitter_bound_ns"]) == (3_000, 4_000)
    unlimited = replace(found, jitter_bound_ns=None, arrivals_within_ns=None)
    traffic.flows(TrafficReport([unlimited], SPREAD, exact), as_json=True)
    (figures,) = json.loads(capsys.readouterr().out)["flows"]
    assert "jitter_bound_ns" not in figures
    assert "arrivals_within_ns" not in figures
