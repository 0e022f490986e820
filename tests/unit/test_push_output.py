"""What a push says of streams: first, by their names, and of ports no more than asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cnc.cli import render
from cnc.model import BridgeForwarding, Plan, PortRef
from cnc.planner import plan
from cnc.plans.difference import PlanDifference, difference
from cnc.rollout.goal import Goal
from cnc.rollout.rollout import PortChange, Report
from tests.unit.bridged_networks import RING5, bridged
from tests.unit.planner_networks import MS, stream

STREAMS = [stream(name, f"e{n}", "e4", period_ns=MS) for n, name in enumerate("abc", start=1)]


@pytest.fixture(scope="module")
def running() -> Plan:
    return plan(bridged(RING5, *STREAMS))


@pytest.fixture(scope="module")
def change(running: Plan) -> PlanDifference:
    """`a` stays, `b` sends half as often, `c` goes and `d` comes."""
    a, b, _ = STREAMS
    wanted = bridged(RING5, a, replace(b, period_ns=2 * MS), stream("d", "e5", "e4", period_ns=MS))
    return difference(running, plan(wanted, keep=running))


def report(*ports: str) -> Report:
    changes = tuple(
        PortChange(PortRef(*port.split("/")), None, None, "the list changes") for port in ports
    )
    return Report(changes, None, None, None, {}, 0)


def shown(capsys: pytest.CaptureFixture[str], change: PlanDifference | None, **how: Any) -> str:
    if change:
        render.streams(change)
    pushed = report("s1/s2", "s2/s1", "s2/e2")
    render.push(pushed, [], dry_run=True, as_json=False, change=change, **how)
    return capsys.readouterr().out


def test_streams_that_come_go_and_change_are_told_by_name(
    change: PlanDifference, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, change, all_ports=False)
    assert "streams added: d\n" in text
    assert "streams removed: c\n" in text
    assert [line.split() for line in text.splitlines() if line.startswith("  b")] == [
        ["b", "period", "1", "ms", "2", "ms"]
    ]
    assert "1 other stream keeps path and offsets\n" in text


def test_their_ports_are_a_total_unless_all_are_asked_for(
    change: PlanDifference, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, change, all_ports=False)
    assert "3 ports on 2 nodes would change; -v lists them\n" in text
    assert "the list changes" not in text
    assert "s2/e2   the list changes" in shown(capsys, change, all_ports=True)


@pytest.mark.parametrize("is_first", [True, False], ids=["first push", "repair"])
def test_ports_are_listed_where_no_stream_is_the_reason(
    is_first: bool, running: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = None if is_first else difference(running, running)
    text = shown(capsys, nothing, all_ports=False)
    assert "s2/e2   the list changes" in text
    assert "keep" not in text


def test_a_stream_that_goes_is_named_and_not_its_address_alone(running: Plan) -> None:
    a, b, _ = STREAMS
    goal = Goal.of(plan(bridged(RING5, a, b), keep=running), former=running)
    gone = running.addresses["c"]
    assert goal.ports["s3"]["br0"][BridgeForwarding].names[gone] == "c"
