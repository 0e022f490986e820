"""How late gates open: what a plan allows for, where that comes from, and when it is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cnc import intent as intents
from cnc.cli.render import planning as render_planning
from cnc.errors import InputError
from cnc.finding import FORCE_HINT
from cnc.mechanisms.gates import margin
from cnc.mechanisms.measurements import ENOUGH, EXACT_MAX_NS, figures, rounded_up
from cnc.model import (
    DEFAULT_GATE_MARGIN_NS,
    Intent,
    MeasuredMargin,
    Plan,
    PortRef,
    WakeUps,
)
from cnc.planner import plan as compute
from cnc.planner.margin_cost import best_effort_shares, cost_ns
from cnc.plans import file as planfile
from cnc.rollout import doctor
from cnc.rollout.doctor import Visit
from cnc.rollout.preflight import Check, Finding, Verdict
from tests.unit.places import changed
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
        pytest.param(("gate-margin: 0ns", "gate-margin: 1us"), id="a margin"),
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


WORST = PortRef("s1", "s2")


def intent_with(margin_of_intent: str | None = None) -> Intent:
    """line3 with room in its bounds; without a stated margin unless one is given."""
    text = re.sub(r"max-latency: \S+us", "max-latency: 900us", LINE3.read_text())
    stated = f"gate-margin: {margin_of_intent}" if margin_of_intent else ""
    text = text.replace("gate-margin: 0ns", stated)
    return intents.from_document(yaml.safe_load(text), "line3")


def measured(maximum_ns: int, count: int = ENOUGH) -> dict[PortRef, WakeUps]:
    """What three ports state, of which one was latest."""
    others = WakeUps(count, maximum_ns // 2)
    return {WORST: WakeUps(count, maximum_ns), PortRef("s2", "s3"): others}


@pytest.mark.parametrize(
    ("gates", "margin_ns"),
    [("software", 1_000_000), ("txtime-assist", 0), ("full-offload", 0)],
)
def test_without_a_stated_margin_the_default_holds_where_timers_open_gates(
    gates: str, margin_ns: int
) -> None:
    document = {**intent_with().document}
    document["defaults"] = {**document["defaults"], "gates": gates}
    assert intents.from_document(document, "line3").network.gate_margin_ns == margin_ns


def test_one_switch_with_software_gates_is_enough_for_the_default() -> None:
    document = {**intent_with().document}
    document["defaults"] = {**document["defaults"], "gates": "full-offload"}
    switches = {**document["switches"]}
    switches["s2"] = {**switches["s2"], "gates": "software"}
    network = intents.from_document({**document, "switches": switches}, "line3").network
    assert network.gate_margin_ns == DEFAULT_GATE_MARGIN_NS


@pytest.mark.parametrize(
    ("measured_ns", "rounded_ns"),
    [(1, 1), (2, 2), (3, 5), (11, 20), (43_000, 50_000), (50_000, 50_000), (50_001, 100_000)],
)
def test_what_is_measured_is_rounded_up_to_1_2_5(measured_ns: int, rounded_ns: int) -> None:
    assert rounded_up(measured_ns) == rounded_ns


def test_the_latest_gate_of_all_ports_makes_the_margin() -> None:
    asked = margin.with_measured(intent_with(), measured(43_210))
    assert asked.network.gate_margin_ns == 50_000
    assert asked.measured_margin == MeasuredMargin(50_000, WORST, 43_210, ENOUGH)
    assert margin.source(asked) == "measured on s1/s2: max 43.21 µs of 100,000 wake-ups"


def test_ports_whose_hardware_opens_the_gates_do_not_count() -> None:
    document = {**intent_with().document}
    switches = {**document["switches"]}
    switches["s1"] = {**switches["s1"], "gates": "full-offload"}
    mixed = intents.from_document({**document, "switches": switches}, "line3")
    asked = margin.with_measured(mixed, measured(43_210))
    assert asked.measured_margin is not None
    assert asked.measured_margin.port == PortRef("s2", "s3")


def test_too_few_wake_ups_do_not_make_the_margin_smaller_than_the_default() -> None:
    asked = margin.with_measured(intent_with(), measured(43_210, count=ENOUGH - 1))
    assert asked == intent_with()
    later = margin.with_measured(intent_with(), measured(7_000_000, count=30))
    assert later.network.gate_margin_ns == 10_000_000
    assert "30 wake-ups, not enough before 100,000" in margin.source(later)


def test_gates_that_are_never_late_need_no_margin() -> None:
    asked = margin.with_measured(intent_with(), measured(EXACT_MAX_NS))
    assert asked.network.gate_margin_ns == 0


def test_a_stated_margin_stays_what_the_operator_stated() -> None:
    asked = margin.with_measured(intent_with("30us"), measured(43_210))
    assert asked.network.gate_margin_ns == 30_000
    assert asked.measured_margin is None


def test_the_margin_of_the_running_plan_stays_until_a_gate_is_later() -> None:
    running = compute(margin.with_measured(intent_with(), measured(43_210)))
    for maximum_ns in (12, 30_000, 50_000):
        again = margin.with_measured(intent_with(), measured(maximum_ns), running)
        assert again == running.intent
    later = margin.with_measured(intent_with(), measured(50_001), running)
    assert later.network.gate_margin_ns == 100_000


def test_ten_plans_in_a_row_are_equal_whatever_is_measured_below_the_margin() -> None:
    running = compute(margin.with_measured(intent_with(), measured(43_210)))
    written = planfile.dump(running)
    for step in range(10):
        wake_ups = measured(49_000 + 100 * step, count=ENOUGH * (step + 1))
        asked = margin.with_measured(intent_with(), wake_ups, running)
        running = compute(asked, keep=running)
        assert planfile.dump(running) == written


@pytest.mark.parametrize(
    ("stated", "wake_ups"),
    [
        pytest.param("0ns", measured(64_000, count=3), id="none, and three late gates"),
        pytest.param("50us", measured(50_001), id="one that is too small"),
        pytest.param("9us", measured(90_000, count=101), id="one that is too small by far"),
    ],
)
def test_a_stated_margin_that_measurements_refute_is_refused_with_them(
    stated: str, wake_ups: dict[PortRef, WakeUps]
) -> None:
    with pytest.raises(InputError, match=f"gate-margin: found {stated}, but s1/s2 opens") as error:
        margin.refuse_refuted(intent_with(stated), wake_ups)
    assert figures(wake_ups[WORST]) in str(error.value)
    assert "--ask-switches" in str(error.value.hint)
    assert str(error.value.hint).endswith("; " + FORCE_HINT)


def test_where_gates_are_too_late_for_the_periods_no_larger_margin_is_proposed() -> None:
    intent = intent_with("50us")
    assert margin.keepable_ns(intent) == 500_000 // 4  # t1, s1, s2 and s3 send
    with pytest.raises(InputError) as error:
        margin.refuse_refuted(intent, measured(17_000_000))
    assert error.value.hint == (
        "gates that are so late are too late for these streams: within the shortest period each "
        "sender on the way may be late by 125 µs. Use a real-time kernel (PREEMPT_RT) or "
        "`gates: full-offload`; in a lab virtual time, or "
        f"`cnc lab up --slower 200`; {FORCE_HINT}"
    )


def test_of_a_stream_with_several_listeners_the_farthest_counts() -> None:
    document = json.loads(json.dumps(intent_with("10us").document))
    document["streams"] = {"motion": {**document["streams"]["motion"], "period": "1ms"}}
    document["end-stations"].append("l0")
    document["switches"]["s1"]["ports"].append("l0")
    document["links"].append(["s1/l0", "l0/eth0"])
    document["streams"]["motion"]["listeners"] = ["l0"]
    assert margin.keepable_ns(intents.from_document(document, "line3")) == 1_000_000 // 2
    document["streams"]["motion"]["listeners"] = ["l0", "l1"]
    assert margin.keepable_ns(intents.from_document(document, "line3")) == 1_000_000 // 4


@pytest.mark.parametrize(
    ("stated", "wake_ups"),
    [
        pytest.param("0ns", measured(EXACT_MAX_NS), id="exact gates"),
        pytest.param("50us", measured(50_000), id="enough"),
        pytest.param("50us", measured(499_999, count=99_999), id="not enough to tell"),
        pytest.param("50us", measured(90_000_000, count=100), id="a machine that starts"),
        pytest.param(None, measured(90_000_000), id="not stated"),
    ],
)
def test_other_margins_are_not_refused(
    stated: str | None, wake_ups: dict[PortRef, WakeUps]
) -> None:
    margin.refuse_refuted(intent_with(stated), wake_ups)


def test_plan_says_what_the_margin_is_where_it_comes_from_and_what_it_costs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    planned = compute(margin.with_measured(intent_with(), measured(43_210)))
    render_planning.figures(planned)
    bound_ns = planned.streams["motion"].latency_bound_ns
    assert capsys.readouterr().out == (
        "gate margin 50 µs (measured on s1/s2: max 43.21 µs of 100,000 wake-ups): part of each "
        f"latency bound, of motion 200 µs ({(bound_ns - 200_000) / 1000:g} µs without it); "
        "best effort keeps 47.7% of s2/s3, the worst port (92.1% without it)\n"
    )


def test_the_cost_is_counted_on_the_way_to_the_farthest_listener() -> None:
    document = json.loads(json.dumps(intent_with("10us").document))
    document["end-stations"].append("l0")
    document["switches"]["s1"]["ports"].append("l0")
    document["links"].append(["s1/l0", "l0/eth0"])
    document["streams"]["motion"]["listeners"].append("l0")
    planned = compute(intents.from_document(document, "line3"))
    assert cost_ns(planned, planned.streams["motion"]) == 4 * 10_000


def test_best_effort_pays_for_a_margin_once_before_and_once_within_each_window() -> None:
    intent = intent_with("10us")
    camera = replace(intent, streams={"camera": intent.streams["camera"]})
    planned = compute(camera)
    paid = best_effort_shares(planned)
    assert paid is not None
    port, share, without = paid
    assert round((without - share) * planned.gates[port].cycle_ns) == 2 * 10_000


def test_a_plan_without_margin_says_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    render_planning.figures(compute(intent_with("0ns")))
    assert capsys.readouterr().out == ""


def found_by_doctor(stated: str, wake_ups: WakeUps | None) -> list[Finding]:
    plan = compute(intent_with(stated))
    state = poll("s1").state
    assert state is not None
    ports = {name: changed(report, wake_ups=wake_ups) for name, report in state.ports.items()}
    visits = {"s1": Visit((), replace(state, ports=ports)), "s2": Visit((), None)}
    return [f for f in doctor.diagnose(plan, visits) if f.check is Check.MARGIN]


@pytest.mark.parametrize(
    ("stated", "wake_ups", "verdict"),
    [
        ("0ns", WakeUps(1_000, 1), Verdict.OK),
        ("0ns", WakeUps(1_000, 43_000), Verdict.FAILED),
        ("50us", WakeUps(1_000_000, 43_000, 21_000), Verdict.OK),
        ("50us", WakeUps(1_000_000, 51_000, 21_000), Verdict.FAILED),
        ("50us", WakeUps(1_000, 51_000), Verdict.WARNING),
        ("50us", WakeUps(1_000, 500_000), Verdict.FAILED),
        ("50us", WakeUps(100, 500_000), Verdict.WARNING),
    ],
)
def test_doctor_and_push_hold_the_margin_to_what_is_measured(
    stated: str, wake_ups: WakeUps, verdict: Verdict
) -> None:
    (found,) = found_by_doctor(stated, wake_ups)
    assert (found.where, found.verdict) == ("s1/s2", verdict)
    assert figures(wake_ups) in found.text
    assert (found.hint is None) == (verdict is Verdict.OK)


def test_doctor_warns_without_a_margin_where_nothing_is_measured() -> None:
    (found,) = found_by_doctor("0ns", None)
    assert (found.where, found.verdict) == ("s1", Verdict.WARNING)
