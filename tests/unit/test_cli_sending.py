"""By which plan the commands send that send through a lab."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnc import app
from cnc import intent as intents
from cnc.model import Intent, Plan
from cnc.planner import plan as compute
from cnc.testbed.cli import sending

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


class Network:
    """A lab whose switches may be asked, as a push does that plans."""

    connect = "how"


@pytest.fixture(scope="module")
def intent() -> Intent:
    document = intents.load(LINE3).document
    unhurried = {**document["streams"]["torque"], "max-latency": "50us"}
    streams = {**document["streams"], "torque": unhurried}
    return intents.from_document({**document, "streams": streams}, "line3")


@pytest.fixture(scope="module")
def running(intent: Intent) -> Plan:
    """What was pushed: with a margin that a switch measured then."""
    return compute(intent.with_gate_margin(2_000))


def sent_by(
    monkeypatch: pytest.MonkeyPatch, directory: Path, document: Plan | Intent, running: Plan | None
) -> Plan | str:
    """The plan; `planned` where it would be made as by a push."""
    monkeypatch.setattr(app, "running_plan", lambda *_: running)
    monkeypatch.setattr(app, "plan_to_push", lambda *_, **__: "planned")
    lab: Any = Network()
    return sending.plan_to_send(lab, document, directory)


def test_of_an_intent_that_was_pushed_what_runs_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, intent: Intent, running: Plan
):
    assert sent_by(monkeypatch, tmp_path, intent, running) is running


def test_an_intent_that_was_not_pushed_or_has_changed_since_is_planned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, intent: Intent, running: Plan
):
    assert sent_by(monkeypatch, tmp_path, intent, None) == "planned"
    document = {**intent.document, "name": "line3"}
    document["streams"] = {**document["streams"]}
    del document["streams"]["valves"]
    changed = replace(intent, document=document)
    assert sent_by(monkeypatch, tmp_path, changed, running) == "planned"
