"""Ports whose gates a late timer opens too late for the frame: told before they are pushed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc import margin
from cnc.model import Plan
from cnc.planner import plan as compute
from cnc.rollout import doctor
from cnc.rollout.doctor import Visit
from cnc.rollout.preflight import Check, Verdict
from tests.unit.watched_switches import poll

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


@pytest.fixture(autouse=True)
def real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TSN_VIRTUAL_TIME", raising=False)


def plan_of(file: Path, *changes: tuple[str, str]) -> Plan:
    text = LINE3.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    return compute(intents.load(file))


def test_software_ports_without_a_margin_are_counted(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "a.yaml")
    assert len(plan.gates) == 4
    said = margin.warning(plan) or ""
    assert said.startswith("4 ports with software gates and gate-margin 0ns")
    assert said.endswith("frames may never leave")
    assert (margin.warning(plan, "s1") or "").startswith("1 port with")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("clock-error: 1us", "clock-error: 1us\n  gate-margin: 1us"), id="a margin"),
        pytest.param(("gates: software", "gates: full-offload"), id="no timer"),
    ],
)
def test_a_port_with_a_margin_or_without_a_timer_is_not_meant(tmp_path: Path, change) -> None:
    assert margin.warning(plan_of(tmp_path / "a.yaml", change)) is None


@pytest.mark.parametrize(("machine", "is_warned_of"), [("uml", False), ("qemu", True)])
def test_a_timer_is_never_late_where_only_sleeping_takes_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: str, is_warned_of: bool
) -> None:
    monkeypatch.setenv("TSN_VIRTUAL_TIME", "1")
    monkeypatch.setenv("TSN_VM", machine)
    assert (margin.warning(plan_of(tmp_path / "a.yaml")) is not None) is is_warned_of


def told(*argv: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cnc", *map(str, argv)], capture_output=True, text=True, check=False
    )
    return done.stderr


def test_plan_and_push_warn_on_the_error_stream_before_anything_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for shown in (
        told("plan", LINE3, "-o", file),
        told("push", "--dry-run", "--known-hosts", "/nowhere", "--state-dir", tmp_path, file),
    ):
        first, second, *_ = shown.splitlines()
        assert first.startswith("cnc: warning: 4 ports with software gates and gate-margin 0ns")
        assert second.startswith("hint: gate-margin: ")


def test_programs_that_read_errors_as_json_get_no_text(tmp_path: Path) -> None:
    assert told("plan", "--json", LINE3) == ""


def test_doctor_warns_of_each_switch_that_answers(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "a.yaml")
    visits = {"s1": Visit((), poll("s1").state), "s2": Visit((), None)}
    (found,) = [f for f in doctor.diagnose(plan, visits) if f.check is Check.MARGIN]
    assert (found.where, found.verdict) == ("s1", Verdict.WARNING)
    assert "1 port" in found.text
    assert found.hint == margin.HINT
