"""A plan that runs, and what was measured since the push beyond what it allows for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import app, rollout
from cnc import intent as intents
from cnc.model import (
    ClocksApart,
    Intent,
    MeasuredClockError,
    MeasuredMargin,
    Plan,
    PortRef,
    WakeUps,
)
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.rollout import StatedPorts

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
PORT = PortRef("s1", "s2")
STATION = PortRef("t1", "eth0")
CONNECT: Any = "how"


@pytest.fixture(autouse=True)
def real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TSN_VIRTUAL_TIME", raising=False)


def intent_with(**defaults: str) -> Intent:
    """line3 with room in its bounds, and without a stated gate margin unless one is given."""
    text = re.sub(r"max-latency: \S+us", "max-latency: 900us", LINE3.read_text())
    document = yaml.safe_load(text)
    del document["defaults"]["gate-margin"]
    document["defaults"] |= {key.replace("_", "-"): value for key, value in defaults.items()}
    return intents.from_document(document, "line3")


def measured_at_the_push(intent: Intent, margin_ns: int) -> Plan:
    """What runs, as the history keeps it: made with a margin that was measured then."""
    source = MeasuredMargin(margin_ns, PORT, margin_ns, 300)
    return planfile.parse(
        planfile.dump(compute(intent.with_gate_margin(margin_ns, source))), "history"
    )


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What nodes are to state when they are asked."""

    def say(**what: Any) -> None:
        stated = StatedPorts(**({"limits": {}, "wake_ups": {}, "lateness": {}} | what))
        monkeypatch.setattr(rollout, "read_ports", lambda *_, **__: stated)

    return say


def late(by_ns: int, count: int = 200_000) -> dict[PortRef, WakeUps]:
    return {PORT: WakeUps(count, by_ns)}


def test_a_pushed_intent_is_compared_with_what_runs_though_a_gate_was_later_since(
    states: Callable[..., None],
) -> None:
    intent = intent_with()
    running = measured_at_the_push(intent, 20_000)
    states(wake_ups=late(43_210))
    assert app.plan_to_compare(intent, connect=CONNECT, running=running) is running


def test_an_intent_that_differs_in_more_than_measured_figures_is_planned(
    states: Callable[..., None],
) -> None:
    intent = intent_with()
    running = measured_at_the_push(intent, 20_000)
    states(wake_ups=late(10_000))
    document = json.loads(json.dumps(intent.document))
    del document["streams"]["valves"]
    changed = intents.from_document(document, "line3")
    compared = app.plan_to_compare(changed, connect=CONNECT, running=running)
    assert compared is not running
    assert compared.streams.keys() == changed.streams.keys()
    assert app.exceeded_figures(changed, running, connect=CONNECT) == []


def test_a_gate_that_was_later_is_told_with_what_a_push_would_do(
    states: Callable[..., None],
) -> None:
    intent = intent_with()
    running = measured_at_the_push(intent, 20_000)
    states(wake_ups=late(43_210))
    (found,) = app.exceeded_figures(intent, running, connect=CONNECT)
    assert found.text == (
        "gates of s1/s2 were measured up to 43.21 µs late (the latest of 200,000 wake-ups); the "
        "running plan allows for 20 µs"
    )
    moved = len(app.moves(running, compute(intent.with_gate_margin(50_000))))
    assert moved > 1
    assert found.hint == f"`cnc push` plans with 50 µs, which moves {moved} streams"


def test_of_gates_within_the_margin_nothing_is_told(states: Callable[..., None]) -> None:
    intent = intent_with()
    states(wake_ups=late(20_000))
    running = measured_at_the_push(intent, 20_000)
    assert app.exceeded_figures(intent, running, connect=CONNECT) == []


def test_where_no_plan_has_room_for_what_was_measured_a_push_is_said_to_be_refused(
    states: Callable[..., None],
) -> None:
    intent = intent_with()
    states(wake_ups=late(90_000_000))
    running = measured_at_the_push(intent, 20_000)
    (found,) = app.exceeded_figures(intent, running, connect=CONNECT)
    assert found.hint == ("`cnc push` would plan with 100 ms and is refused: `cnc doctor` says why")


def test_a_stated_margin_that_is_exceeded_is_for_the_operator_to_change(
    states: Callable[..., None],
) -> None:
    intent = intent_with(gate_margin="30us")
    states(wake_ups=late(43_210))
    (found,) = app.exceeded_figures(intent, compute(intent), connect=CONNECT)
    assert found.text.endswith("the running plan allows for 30 µs")
    assert "gate-margin: 50us" in found.hint


def test_a_talker_that_was_later_is_told(states: Callable[..., None]) -> None:
    intent = intent_with(gate_margin="30us")
    running = compute(intent)
    states(lateness={STATION: WakeUps(200_000, 70_000)})
    assert app.plan_to_compare(intent, connect=CONNECT, running=running) is running
    (found,) = app.exceeded_figures(intent, running, connect=CONNECT)
    assert found.text == (
        "talkers of t1/eth0 were measured up to 70 µs late (the latest of 200,000 periods); the "
        "running plan allows for 30 µs"
    )
    assert found.hint.startswith("`cnc push` plans with 100 µs, which moves ")


def test_clocks_that_are_further_apart_are_told_where_they_are_to_be_measured(
    states: Callable[..., None],
) -> None:
    intent = intent_with(gate_margin="30us", clock_error="measured")
    nodes = frozenset({*intent.network.bridges, *intent.network.end_stations})
    before = ClocksApart("s1", "s3", 700, 2)
    running = compute(intent.with_clock_error(MeasuredClockError(2_000, before)))
    now = ClocksApart("s1", "s3", 2_600, 2)
    states(clocks=now, compared=nodes)
    assert app.plan_to_compare(intent, connect=CONNECT, running=running) is running
    (found,) = app.exceeded_figures(intent, running, connect=CONNECT)
    assert found.text == (
        "the clocks of s1 and s3 were measured up to 2.6 µs apart; the running plan allows for 2 µs"
    )
    assert found.hint.startswith("`cnc push` plans with 10 µs, which moves ")


def test_a_plan_file_is_compared_as_it_is_and_asks_nobody() -> None:
    plan = compute(intent_with(gate_margin="30us"))
    assert app.exceeded_figures(plan, replace(plan), connect=CONNECT) == []
