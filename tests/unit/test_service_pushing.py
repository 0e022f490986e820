"""How what was decided reaches the switches, and what is judged on its way."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnc import app
from cnc.check import whole
from cnc.planner.live import with_room
from cnc.rollout import History
from cnc.rollout.rollout import Report
from cnc.service import owner, pushing
from cnc.service.admission import Admission, Keys, recovery_step_ns
from cnc.service.core import ITSELF
from cnc.service.names import plan_name
from cnc.service.pushing import Pushing
from cnc.service.store import FILE_NAME, Store
from cnc.switch import ConnectOptions
from cnc.switch.rollout_id import Term
from tests.unit.service_network import CUC, FILE, ONE, planned
from tests.unit.test_service_core import KEYS


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


class Decided:
    """A network of which each plan that is decided is pushed, as a service does."""

    def __init__(self, directory: Path, text: str, history: History) -> None:
        file = directory / "line3.yaml"
        file.write_text(text)
        plan = planned(app.load_intent(file))
        self._admission = Admission(with_room(plan, recovery_step_ns(plan)))
        connect = ConnectOptions(directory / "none", directory / "none", 1.0)
        self._push = Pushing(connect, history, Term("line3", 1), take_over=False)
        self._push(self._admission.plan)

    def change(self, wanted: Keys, gone: Collection[str] = ()) -> None:
        with self._admission.changing(wanted, gone, "test") as change:
            pass
        self._push(change.plan)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long a push has waited before it, in seconds."""
    made: list[float] = []
    monkeypatch.setattr(pushing, "time", SimpleNamespace(sleep=made.append))
    return made


OF_CUC = plan_name(CUC, ONE)
OF_FILE = "motion"
MANAGED = "{t1: {management: 10.99.0.11}, t2, l1, l2}"


def test_a_stream_that_its_cuc_has_ended_goes_at_once_when_its_last_frame_has_arrived(
    tmp_path: Path, pushes: list[Any], waits: list[float]
) -> None:
    with app.open_history(tmp_path) as history:
        its = Decided(tmp_path, FILE.read_text(), history)
        its.change({OF_CUC: KEYS})
        latency_ns = pushes[-1].plan.streams[OF_CUC].latency_bound_ns
        its.change({}, [OF_CUC])
    assert [goal.at_once for goal in pushes] == [False, True, True]
    assert waits == [0, latency_ns / 1e9]


def test_a_stream_of_which_nobody_says_that_it_has_ended_goes_with_a_lead(
    tmp_path: Path, pushes: list[Any], waits: list[float]
) -> None:
    """Nor does one of a talker that an agent tells to send, until its node has the next plan."""
    managed = FILE.read_text().replace("[t1, t2, l1, l2] ", MANAGED)
    with app.open_history(tmp_path) as history:
        Decided(tmp_path, FILE.read_text(), history).change({}, [OF_FILE])
        its = Decided(tmp_path, managed, history)
        its.change({OF_CUC: KEYS})
        its.change({}, [OF_CUC])
    assert [goal.at_once for goal in pushes] == [False, False, False, True, False]
    assert waits == [0]
