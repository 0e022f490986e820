"""How what was decided reaches the switches, and what is judged on its way."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnc import app
from cnc.check import whole
from cnc.rollout.rollout import Report
from cnc.service import owner
from cnc.service.core import ITSELF
from cnc.service.pushing import Pushing
from cnc.service.store import FILE_NAME, Store
from cnc.switch import ConnectOptions
from cnc.switch.rollout_id import Term
from tests.unit.service_network import FILE, planned


class Counted:
    """How often a plan is judged whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        streams = whole.judge_streams

        def counted(*arguments: Any) -> Any:
            self.times += 1
            return streams(*arguments)

        monkeypatch.setattr(whole, "judge_streams", counted)


@pytest.fixture
def pushes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The goals of rollouts, each of which succeeds."""
    made: list[Any] = []

    def rolled_out(goal: Any, **_: Any) -> Report:
        made.append(goal)
        return Report((), len(made), None, None, {}, 0)

    monkeypatch.setattr(sys.modules["cnc.rollout.push"], "roll_out", rolled_out)
    return made


def test_a_plan_that_is_stored_is_judged_once_at_a_start_with_its_rollout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pushes: list[Any]
) -> None:
    connect = ConnectOptions(tmp_path / "none", tmp_path / "none", 1.0)
    store = Store(tmp_path / FILE_NAME)
    owner.begin(FILE, store, planned)
    counted = Counted(monkeypatch)
    with app.open_history(tmp_path) as history:
        admission = owner.begin(FILE, store, pytest.fail)
        term = Term(admission.plan.intent.name, 1)
        push = Pushing(connect, history, term, take_over=False, judged=admission.begun)
        push(admission.plan)
    store.close()
    assert (len(pushes), counted.times) == (1, 1)


def test_a_stored_plan_that_the_judge_refuses_is_said_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after an update whose judge knows more."""
    store = Store(tmp_path / FILE_NAME)
    plan = owner.begin(FILE, store, planned).plan
    name, its = next(iter(plan.streams.items()))
    late = replace(its, latency_bound_ns=its.latency_bound_ns - 1)
    with store.deciding(ITSELF, "test", "") as made:
        made.replace_plan(replace(plan, streams={**plan.streams, name: late}))
    owner.begin(FILE, store, pytest.fail)
    store.close()
    assert name in caplog.text
