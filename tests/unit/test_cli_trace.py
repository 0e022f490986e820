"""What `cnc lab trace` prints, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc.model import Plan
from cnc.plans import file as planfile
from cnc.testbed.cli.render import trace as render
from cnc.testbed.cli.trace import trace
from cnc.testbed.json_output.trace import Trace
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.trace.account import Account
from cnc.testbed.traffic.trace.clocks import ClockSpan, OneClock, TrueTime
from cnc.testbed.traffic.trace.columns import gather
from cnc.testbed.traffic.trace.correlation import correlations
from cnc.testbed.traffic.trace.drift import drifts
from cnc.testbed.traffic.trace.margins import Margins
from cnc.testbed.traffic.trace.outliers import outliers
from cnc.testbed.traffic.trace.summary import summarise
from tests.unit.traced_frames import T0, Record, torque


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


def found_in(accounts: list[Account], line3: Plan, frames: list[Account] | None) -> render.Found:
    paths, margins = gather(accounts), Margins(line3, OneClock())
    for each in accounts:
        margins.add(each.row)
    return render.Found(
        platform=Platform("Linux", "virtual time", exact=True),
        start_ns=T0,
        flows=summarise(paths),
        margins=margins.hops(),
        outliers=outliers(paths),
        correlations=correlations(paths),
        drifts=drifts(paths),
        frames=frames,
    )


def test_one_frame_is_shown_part_after_part(line3: Plan, capsys: pytest.CaptureFixture[str]):
    record = Record(line3)
    torque(record)
    found = record.accounts()
    render.trace(found_in(found, line3, found), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "torque/0, t1 to l1 by path 1 (single), planned 0 µs after the start"
    )
    (gate,) = (line.split() for line in lines if "s1/s2" in line and "gate closed" in line)
    assert gate[:3] == ["2.64", "7.189", "s1/s2"]


def shown(
    accounts: list[Account], line3: Plan, capsys: pytest.CaptureFixture[str], *kept: str
) -> list[list[str]]:
    """The words of each line, with no more of what was asked for than these."""
    found = found_in(accounts, line3, None)
    asked_for = {"outliers", "correlations", "drifts"}
    render.trace(replace(found, **dict.fromkeys(asked_for - set(kept))), as_json=False)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_the_stages_stand_beside_the_layers(line3: Plan, capsys: pytest.CaptureFixture[str]):
    record = Record(line3)
    for seq in (0, 1):
        torque(record, seq, late_ns=seq)
    lines = shown(record.accounts(), line3, capsys)
    # The receiver takes 300 and 301 ns, all 30927 and 30928: halves go to the even one.
    assert ["torque", "1", "0.5", "30.127", "0.3", "0.8", "30.928"] in lines


def test_a_correlation_is_shown_with_what_is_constant(
    line3: Plan, capsys: pytest.CaptureFixture[str]
):
    record = Record(line3)
    for seq in range(10):
        torque(record, seq, late_ns=10 * seq)
    lines = shown(record.accounts(), line3, capsys, "correlations")
    assert ["torque", "10", "listener", "1.000", "1.000"] in lines
    (constant,) = (line for line in lines if line[-1:] == ["constant"])
    assert constant[:4] == ["torque", "10", "wake-up,", "socket,"]
    assert not any("NaN" in line or "nan" in line for line in lines)
    too_few = shown(record.accounts()[:9], line3, capsys, "correlations")
    assert ["torque", "9", "fewer", "than", "10", "frames"] in too_few
    same = Record(line3)
    for seq in range(10):
        torque(same, seq)
    assert ["torque", "10", "total", "constant"] in shown(
        same.accounts(), line3, capsys, "correlations"
    )


def test_frames_that_no_correlation_is_of_are_counted(
    line3: Plan, capsys: pytest.CaptureFixture[str]
):
    record = Record(line3)
    for seq in range(12):
        torque(record, seq, late_ns=seq, up_to=4 if seq == 3 else 8)
    lines = shown(record.accounts(), line3, capsys, "correlations")
    assert ["torque", "11", "1", "listener", "1.000", "1.000"] in lines


def test_a_drift_is_shown_with_its_confidence(line3: Plan, capsys: pytest.CaptureFixture[str]):
    record = Record(line3)
    for seq in range(40):
        torque(record, seq, late_ns=10 * seq)  # each 500 µs
    lines = shown(record.accounts(), line3, capsys, "drifts")
    first, last = "30.942", "31.302"  # of four frames each: 30.927 and 0 to 30, 360 to 390 ns
    assert ["torque", "1", "40", "20000.0", "0.0", "rising", first, last] in lines
    too_few = shown(record.accounts()[:19], line3, capsys, "drifts")
    assert ["torque", "1", "19", "fewer", "than", "20", "frames"] in too_few


def test_a_trace_is_a_document(line3: Plan):
    record = Record(line3)
    torque(record)
    found = record.accounts()
    document = json.loads(Trace.model_validate(found_in(found, line3, found)).model_dump_json())
    (frame,) = document["frames"]
    assert (frame["flow"], frame["seq"], frame["total_ns"]) == ("torque", 0, 30_927)
    (flow,) = document["flows"]
    assert flow["layers"]["gate closed"]["max_ns"] == 22_567
    sums_ns = {stage: time["sum_ns"] for stage, time in flow["stages"].items()}
    assert sums_ns == {"sender": 500, "channel": 30_127, "receiver": 300}
    assert sum(sums_ns.values()) == flow["total_sum_ns"] == 30_927
    assert document["correlations"][0]["layers"] == document["drifts"][0]["blocks"] == []


def test_where_clocks_differ_it_says_so_and_by_which_time_the_figures_are(
    line3: Plan, capsys: pytest.CaptureFixture[str]
):
    record = Record(line3)
    torque(record)
    spans = [ClockSpan("s1", 300_000_000, 300_000_071), ClockSpan("l1", -7, 9)]
    found = replace(
        found_in(record.accounts(), line3, None), true_time=TrueTime(300_000_078, spans)
    )
    render.trace(found, as_json=False)
    assert "from which clocks were up to 300 ms away" in capsys.readouterr().out
    document = json.loads(Trace.model_validate(found).model_dump_json())
    assert document["true_time"]["clocks"][1] == {"node": "l1", "least_ns": -7, "greatest_ns": 9}
    assert "true_time" not in json.loads(
        Trace.model_validate(replace(found, true_time=None)).model_dump_json()
    )


@pytest.mark.parametrize("text", ["motion", "motion/", "/17", "motion/x", "motion/-1"])
def test_a_frame_that_cannot_be_read_is_refused_before_anything_is_sent(text: str):
    line3_file = Path(__file__).parents[2] / "schedules" / "line3.yaml"
    done = CliRunner().invoke(trace, [str(line3_file), "--frame", text])
    assert done.exit_code == 2
    assert "expected FLOW/SEQ, such as motion/17" in done.output
