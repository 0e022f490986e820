"""Experiment files, and what becomes of the rows that a run leaves."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed import experiments
from cnc.testbed.experiments import description, make_report
from cnc.testbed.experiments.experiment import write_rows
from cnc.testbed.lab.platform import Platform

FILES = sorted((Path(__file__).parents[2] / "schedules/experiments").glob("*.yaml"))
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_experiment_that_comes_along_is_understood(file: Path):
    assert experiments.experiment_of(description.load(file), file)
    assert description.load(file).name == file.stem


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("kind: gate-share", "kind: gate-shares"),
            r"kind: found 'gate-shares', expected .*did you mean",
        ),
        (("kind: gate-share\n", ""), r"\(document\): found no kind, expected .*control-loop"),
        (("cycle: 1ms", "cycle: 1"), r"e\.yaml:12: cycle: found 1, expected a duration"),
        (("frames: 2000 ", "frame: 2000 "), r"frame: found the unknown key 'frame'.*mean frames"),
        (("frames: 2000 ", "frames: 1234 "), r"frames: found 1234, .*every phase.*such as 2000"),
        (("frames: 2000 ", "frames: 1250 "), r"frames: found 1250, .*every phase"),
        (("[10, 20, ", "[0, 20, "), r"shares\[0\]: found 0, expected a percentage from 1 to 99"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_line_and_key(
    tmp_path: Path, change: tuple[str, str], why: str
):
    (sweep,) = (file for file in FILES if file.stem == "share-sweep")
    text = sweep.read_text()
    assert change[0] in text
    (tmp_path / "e.yaml").write_text(text.replace(*change))
    with pytest.raises(InputError, match=why):
        description.load(tmp_path / "e.yaml")


def test_nothing_is_run_for_a_file_that_is_wrong(tmp_path: Path):
    (tmp_path / "e.yaml").write_text("kind: nonsense")
    with pytest.raises(InputError):
        experiments.measure(tmp_path / "e.yaml", tmp_path / "out")
    assert not (tmp_path / "out").exists()


SHARES = """
kind: gate-share
name: little
title: A <little> experiment & its report
cycle: 1ms
shares: [30, 50]
packet: 1440B
frames: 1000
frames-per-cycle: 2
high-priority: 16
best-effort: 0
rate: 10Gbps
propagation: 0ns
processing: 0ns
"""
FRAME_NS = 1_183  # the gate starts none that would not end in time
CYCLE_NS = 1_000_000
PATH_NS = 5_000
COLUMNS = ("share", "class", "seq", "planned_ns", "sent_ns", "left_ns", "received_ns")


def an_outcome(directory: Path, *, later_ns: int = 0, lost: int = 0) -> Path:
    """The rows of an ideal gate that closes for best effort first; `later_ns` is added at it."""
    file = directory / "little.yaml"
    file.write_text(SHARES)

    def rows():
        for name in ("high-priority", "best-effort"):
            yield "", name, 0, 0, 0, 0, PATH_NS
            for share in (30, 50):
                open_ns = CYCLE_NS * share // 100
                for seq in range(1000):
                    left = seq * 501_000
                    phase = left % CYCLE_NS
                    if name == "high-priority":
                        wait = 0 if phase <= open_ns - FRAME_NS else CYCLE_NS - phase
                    elif phase <= CYCLE_NS - FRAME_NS:
                        wait = max(0, open_ns - phase)
                    else:
                        wait = CYCLE_NS - phase + open_ns
                    gone = name == "best-effort" and seq < lost
                    received = "" if gone else left + PATH_NS + wait + later_ns
                    yield share, name, seq, left, left, left, received

    write_rows(directory, COLUMNS, rows())
    (directory / experiments.PLATFORM).write_text(
        json.dumps({"kernel": EXACT.kernel, "clock": EXACT.clock, "exact": True})
    )
    return file


def test_an_ideal_gate_agrees_with_the_closed_form(tmp_path: Path):
    found = make_report(an_outcome(tmp_path), tmp_path)
    assert found.report.disagreements == []
    summary = experiments.summary_of(tmp_path)
    assert summary["seed"] == 1
    assert summary["platform"]["clock"] == "virtual time"
    points = {(point["share"], point["class"]): point for point in summary["points"]}
    assert len(points) == 4
    high = points[30, "high-priority"]
    assert high["expected_mean_ns"] == 245_828.8  # 701,183² / 2,000,000
    assert high["mean_ns"] == pytest.approx(245_829, rel=0.001)
    assert high["max_ns"] == 701_000
    assert high["path_ns"] == PATH_NS
    assert points[30, "best-effort"]["expected_mean_ns"] == 45_355.6
    assert points[50, "best-effort"]["p80_jitter_ns"] > 0


def test_a_gate_that_holds_frames_too_long_is_told(tmp_path: Path):
    found = make_report(an_outcome(tmp_path, later_ns=2_000), tmp_path)
    wrong = "high-priority at 50 %: 127.751 µs on average, the closed form says 125.592 µs"
    assert wrong in found.report.disagreements
    assert experiments.summary_of(tmp_path)["disagreements"] == found.report.disagreements


def test_frames_that_were_lost_are_told(tmp_path: Path):
    found = make_report(an_outcome(tmp_path, lost=3), tmp_path)
    assert "best-effort at 30 %: 3 of 1000 frames lost" in found.report.disagreements


def test_the_page_opens_by_itself_and_shows_everything(tmp_path: Path):
    file = an_outcome(tmp_path)
    found = make_report(file, tmp_path)
    page = (tmp_path / experiments.PAGE).read_text()
    assert "A &lt;little&gt; experiment &amp; its report" in page
    assert "virtual time" in page
    assert page.count("<svg") == len(found.report.pictures) == 2
    for remark in found.report.remarks:
        assert escape(remark) in page
    # Names of XML namespaces and vocabularies look like addresses, and are never opened.
    opened = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\'#)>\s]+)', page)
    assert opened == []


def test_the_same_rows_give_the_same_files(tmp_path: Path):
    outcomes = []
    for name in ("one", "other"):
        directory = tmp_path / name
        directory.mkdir()
        make_report(an_outcome(directory), directory)
        outcomes.append(
            {file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()}
        )
    assert {"summary.json", "report.html", "latency.svg", "latency.png"} <= outcomes[0].keys()
    assert outcomes[0] == outcomes[1]
