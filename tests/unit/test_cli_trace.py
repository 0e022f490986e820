"""What `cnc lab trace` prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import planfile
from cnc.cli.json_output.trace import Trace
from cnc.cli.render import trace as render
from cnc.cli.trace import trace
from cnc.lab.platform import Platform
from cnc.model import Plan
from cnc.traffic.trace.account import Account
from cnc.traffic.trace.margins import margins
from cnc.traffic.trace.outliers import outliers
from cnc.traffic.trace.summary import summarise
from tests.unit.traced_frames import T0, Record, torque


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


def found_in(accounts: list[Account], line3: Plan, frames: list[Account] | None) -> render.Found:
    return render.Found(
        platform=Platform("Linux", "virtual time", exact=True),
        start_ns=T0,
        flows=summarise(accounts),
        margins=margins(line3, [each.row for each in accounts]),
        outliers=outliers(accounts),
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
    assert gate[:3] == ["2.64", "5.684", "s1/s2"]


def test_a_trace_is_a_document(line3: Plan):
    record = Record(line3)
    torque(record)
    found = record.accounts()
    document = json.loads(Trace.model_validate(found_in(found, line3, found)).model_dump_json())
    (frame,) = document["frames"]
    assert (frame["flow"], frame["seq"], frame["total_ns"]) == ("torque", 0, 26_412)
    assert document["flows"][0]["layers"]["gate closed"]["max_ns"] == 18_052


@pytest.mark.parametrize("text", ["motion", "motion/", "/17", "motion/x", "motion/-1"])
def test_a_frame_that_cannot_be_read_is_refused_before_anything_is_sent(text: str):
    line3_file = Path(__file__).parents[2] / "schedules" / "line3.yaml"
    done = CliRunner().invoke(trace, [str(line3_file), "--frame", text])
    assert done.exit_code == 2
    assert "expected FLOW/SEQ, such as motion/17" in done.output
