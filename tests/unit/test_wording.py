"""One of a thing is not called by its plural, in no message of either side."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from agent import wording
from agent.mechanisms.gates.diff import diff
from agent.mechanisms.gates.model import GateEntry, GateSchedule, Taprio, TaprioMode
from agent.model import Clock
from agent.traffic_classes import QueueRange
from cnc import chart
from cnc.cli import render
from cnc.model import GateControlList, GateLimits, Plan, PortRef
from cnc.model import GateEntry as Entry
from cnc.plans import file as planfile
from cnc.rollout.preflight import Check, Finding, Verdict
from cnc.support import format as words
from tests.stack.recording_kernel import configured, port

PLAN = Path(__file__).parent / "data" / "line3-plan.json"
GATES = GateControlList(1_000_000, (Entry(0x81, 1_000_000),))
SCHEDULE = GateSchedule(0, 1_000_000, (GateEntry(0x81, 1_000_000),))


@pytest.mark.parametrize("counted", [words.counted, wording.counted], ids=["cnc", "agent"])
@pytest.mark.parametrize(
    ("count", "one", "expected"),
    [
        (1, "frame", "1 frame"),
        (0, "frame", "0 frames"),
        (2, "frame", "2 frames"),
        (1, "entry", "1 entry"),
        (2, "entry", "2 entries"),
        (1, "switch", "1 switch"),
        (2, "switch", "2 switches"),
        (1, "traffic class", "1 traffic class"),
        (3, "traffic class", "3 traffic classes"),
        (1, "gate control list", "1 gate control list"),
    ],
)
def test_one_is_told_from_many(counted, count: int, one: str, expected: str) -> None:
    assert counted(count, one) == expected


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        (["a", "b", "c"], "a, b, c"),
        (["a", "b", "c", "d"], "a, b, c, and 1 more entry"),
        (["a", "b", "c", "d", "e"], "a, b, c, and 2 more entries"),
    ],
)
def test_of_many_things_the_first_few_are_named_and_the_rest_is_counted(
    things: list[str], expected: str
) -> None:
    assert wording.first_few(things, "more entry") == expected


@pytest.fixture(scope="module")
def small() -> Plan:
    """A plan of one stream, with one list of one entry."""
    plan = planfile.load(PLAN)
    name, placed = next(iter(plan.streams.items()))
    intent = dataclasses.replace(plan.intent, streams={name: plan.intent.streams[name]})
    port = next(iter(plan.gates))
    return dataclasses.replace(plan, intent=intent, streams={name: placed}, gates={port: GATES})


def test_one_entry_of_a_list() -> None:
    assert words.gate_summary(GATES) == "1 ms, 1 entry"
    assert words.gate_limits(GateLimits(entries_max=1)) == "1 entry"


def test_one_stream_and_one_list_of_a_plan(small: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    render.intent(small.intent, as_json=False)
    render.plan(small, None)
    render.verdict(small, [], as_json=False)
    shown = capsys.readouterr().out
    assert "3 switches, 4 end stations, 6 links, 3 classes, 1 stream\n" in shown
    assert "line3: 1 stream placed" in shown
    assert "valid (1 stream, 1 gate control list)" in shown


def test_one_stream_without_a_place(small: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    (name,) = small.streams
    render.refused(dataclasses.replace(small, streams={}, refused={name: "it does not fit"}))
    assert "NO place for 1 of 1 stream:" in capsys.readouterr().out


def test_one_stream_that_stays_and_one_that_changes(
    small: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    render.difference(small, small, anew=True)
    render.difference(small, small, anew=False)
    shown = capsys.readouterr().out
    assert "0 of 1 running stream would move" in shown
    assert "kept 1 running stream in place, placed 0 changed ones again" in shown


def test_one_entry_and_one_port_of_a_chart(small: Plan) -> None:
    assert "1 entry\n" in chart.text(small, width=100, color=False)
    drawn = chart.svg(small)
    assert "1 stream, 1 gated port, " in drawn
    assert "µs, 1 entry<" in drawn


def test_one_check_on_one_switch(capsys: pytest.CaptureFixture[str]) -> None:
    for verdict, expected in (
        (Verdict.OK, "1 check on 1 switch: a push can go ahead\n"),
        (Verdict.FAILED, "1 of 1 check failed: a push would be refused\n"),
    ):
        found = Finding("s1", None, Check.AGENT, verdict, "x")
        render.diagnosis("small", [found], no_plan=None, as_json=False)
        assert capsys.readouterr().out.endswith(expected)


def test_one_entry_that_the_agent_sets_or_finds() -> None:
    taprio = Taprio((0,) * 16, (QueueRange(1, 0),), TaprioMode.SOFTWARE, Clock.TAI, SCHEDULE)
    (change,) = diff(configured("p1", taprio), port("p1"))
    assert "set the schedule: 1 entry, cycle" in change.description


def test_a_port_is_named_by_its_entries_in_the_plural_where_it_has_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = planfile.load(PLAN)
    render.verdict(plan, [], as_json=False)
    assert "(4 streams, 4 gate control lists)" in capsys.readouterr().out
    assert words.gate_summary(plan.gates[PortRef("s1", "s2")]).endswith(" entries")
