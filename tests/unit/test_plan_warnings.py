"""What a sound plan warns of: talkers that are taken to be exact, and lists of any length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.mechanisms.gates import long_lists
from cnc.mechanisms.talker_offsets import lateness
from cnc.model import Intent, MeasuredMargin, PortRef
from cnc.planner import plan

DOCUMENT = """
name: cell
defaults:
  rate: 1Gbps
  propagation: 50ns
  processing: {min: 1us, max: 2us}
  clock-error: 500ns
  gates: full-offload
  recovery: none
classes:
  control: {traffic-class: 7, priority: 7, dscp: 48, role: control, max-frame: 128B, burst: 1}
  cyclic: {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  other: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort, max-frame: 256B}
switches:
  s1: {ports: {a: {}, b: {}}}
end-stations: {a: {}, b: {}}
links:
- [a/eth0, s1/a]
- [b/eth0, s1/b]
streams:
  fast: {talker: a, listeners: [b], period: 31250ns, payload: 48B, max-latency: 31250ns}
"""
SLOW = "  slow: {talker: a, listeners: [b], period: 1s, payload: 500B, max-latency: 1s}\n"


@pytest.fixture(autouse=True)
def real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TSN_VIRTUAL_TIME", raising=False)


def document(*changes: tuple[str, str], more: str = "") -> str:
    text = DOCUMENT + more
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def read(tmp_path: Path, text: str) -> Intent:
    file = tmp_path / "intent.yaml"
    file.write_text(text)
    return intents.load(file)


def told(*argv: object) -> str:
    command = [sys.executable, "-m", "cnc", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def test_a_talker_of_which_no_lateness_is_stated_is_said_to_be_taken_as_exact(
    tmp_path: Path,
) -> None:
    said = lateness.warning(read(tmp_path, document())) or ""
    assert said.startswith("no talker-lateness is stated of a: the plan takes each frame to leave")
    assert "to the nanosecond" in said
    assert "talker-lateness" in lateness.HINT


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("end-stations: {a: {}", "end-stations: {a: {talker-lateness: 0ns}"), id="0"),
        pytest.param(("  recovery", "  talker-lateness: 5us\n  recovery"), id="for all"),
        pytest.param(("  recovery", "  gate-margin: 1us\n  recovery"), id="the margin counts"),
        pytest.param(("gates: full-offload", "gates: software"), id="so does its default"),
        pytest.param(
            ("gates: full-offload", "gates: software\n  gate-margin: 0ns"), id="told of the margin"
        ),
    ],
)
def test_a_talker_that_may_be_late_or_is_stated_to_be_exact_is_not_meant(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    assert lateness.warning(read(tmp_path, document(change))) is None


def test_a_talker_that_was_measured_to_be_exact_is_not_meant(tmp_path: Path) -> None:
    measured = MeasuredMargin(0, PortRef("a", "eth0"), 5, 200_000)
    wanted = read(tmp_path, document()).with_lateness({"a": measured})
    assert lateness.warning(wanted) is None


def test_in_virtual_time_no_talker_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSN_VIRTUAL_TIME", "1")
    monkeypatch.setenv("TSN_VM", "uml")
    assert lateness.warning(read(tmp_path, document())) is None


def test_a_list_of_any_length_is_named_with_its_entries_and_what_its_edit_takes(
    tmp_path: Path,
) -> None:
    said = long_lists.warning(plan(read(tmp_path, document(more=SLOW)))) or ""
    assert said.startswith("port s1/b has a gate control list of 96,004 entries, and no limit")
    assert "above 430 the kernel shows nothing" in said
    assert "has 19.6 MB, more than tsn-netconfd takes in a message" in said
    assert "gate-entries-max" in long_lists.HINT


def test_a_short_list_or_one_that_keeps_to_a_limit_is_not_meant(tmp_path: Path) -> None:
    assert long_lists.warning(plan(read(tmp_path, document()))) is None
    changes = ("b: {}}}", "b: {gate-entries-max: 10000}}}"), ("1s", "100ms")
    limited = plan(read(tmp_path, document(*changes, more=SLOW)))
    assert len(limited.gates[PortRef("s1", "b")].entries) == 9_604
    assert long_lists.warning(limited) is None


def test_plan_and_check_warn_on_the_error_stream_and_not_where_a_program_reads(
    tmp_path: Path,
) -> None:
    file, planned = tmp_path / "intent.yaml", tmp_path / "plan.json"
    file.write_text(document(("1s", "100ms"), more=SLOW))
    both = ["port s1/b has a gate control list of 9,604", "no talker-lateness is stated of a"]
    for argv, expected in (
        (("plan", file, "-o", planned), both),
        (("check", planned), both),
        (("check", file), both[1:]),
    ):
        shown = told(*argv)
        starts = [line for line in shown.splitlines() if line.startswith("cnc: warning: ")]
        assert [
            line.startswith(f"cnc: warning: {each}")
            for line, each in zip(starts, expected, strict=True)
        ] == [True] * len(expected)
        assert told(*argv, "--json") == ""


def test_cycles_that_hardly_ever_begin_together_are_warned_of(tmp_path: Path) -> None:
    """A camera of 60 Hz and a loop of 1 ms meet at no port, and no push can start both lists."""
    camera = "talker: b, listeners: [a], period: 16666667ns, payload: 500B, max-latency: 10ms"
    more = f"  camera: {{{camera}}}\n"
    wanted = read(tmp_path, document(("period: 31250ns", "period: 1ms"), more=more))
    text = long_lists.phase_warning(plan(wanted))
    assert text is not None
    assert "share one only every 16666.7 s" in text
    assert long_lists.phase_warning(plan(read(tmp_path, document()))) is None
