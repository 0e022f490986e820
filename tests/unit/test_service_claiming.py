"""The term of a controller that leads, named to switches that its watch meets without it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cnc import app, rollout
from cnc.data_tree.tree import AgentReport, KeptTerm
from cnc.errors import RolloutError
from cnc.model import Plan
from cnc.service.claiming import Claiming
from cnc.service.roller import Rolled
from cnc.switch import ConnectOptions
from cnc.switch.device import DeviceError
from cnc.switch.rollout_id import Term
from tests.unit.service_network import FILE

CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))
OWN = Term("line3", 7)
WITHIN_S = 20


@pytest.fixture(scope="module")
def plan() -> Plan:
    return app.plan(app.load_intent(FILE))


class Told:
    """The names of the switches that were told at a time, and what they answer."""

    def __init__(self) -> None:
        self.times: list[list[str]] = []
        self.answer: Any = None

    def claim(self, nodes: Any, term: Term, **_: Any) -> dict[str, Any]:
        names = [node.name for node in nodes]
        self.times.append(names)
        kept = KeptTerm(term.network, term.number, "cnc@server", "now")
        return dict.fromkeys(names, self.answer or kept)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    its = Told()
    monkeypatch.setattr(rollout, "claim", its.claim)
    return its


def agent(term: int | None, network: str = "line3", *, keeps_terms: bool = True) -> AgentReport:
    kept = None if term is None else KeptTerm(network, term, "cnc@server", "now")
    return AgentReport(37, 100, keeps_terms=keeps_terms, kept_term=kept)


def leading(plan: Plan, **options: Any) -> Claiming:
    """With a first push behind it, which says what switches there are."""
    its = Claiming(CONNECT, OWN, **options)
    its.around(lambda _: Rolled(1))(plan)
    return its


def until_told(its: Claiming) -> None:
    if thread := its._thread:
        thread.join(WITHIN_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("term", [None, 6])
def test_a_switch_that_does_not_know_the_term_is_told(plan: Plan, told: Told, term: Any) -> None:
    its = leading(plan)
    its.met("s2", agent(term))
    until_told(its)
    assert told.times == [["s2"]]


@pytest.mark.parametrize(
    "known",
    [None, agent(7), agent(9), agent(3, "plant"), agent(None, keeps_terms=False)],
    ids=["no agent", "told", "another has taken over", "another network", "keeps none"],
)
def test_others_are_not_told(plan: Plan, told: Told, known: Any) -> None:
    its = leading(plan)
    its.met("s2", known)
    until_told(its)
    assert told.times == []


def test_no_switch_is_told_in_a_rollout(plan: Plan, told: Told) -> None:
    its = leading(plan)

    def push(_: Plan) -> Rolled:
        its.met("s1", agent(None))
        its.met("s3", agent(None))
        threading.Event().wait(0.2)  # in vain, unless they are told beside it
        assert told.times == []
        return Rolled(2)

    its.around(push)(plan)
    until_told(its)
    assert sorted(name for names in told.times for name in names) == ["s1", "s3"]


def test_whose_lease_is_over_tells_nothing(plan: Plan, told: Told) -> None:
    def over(_: int) -> int:
        raise RolloutError("the lease is over")

    its = leading(plan, within=over)
    its.met("s2", agent(None))
    until_told(its)
    assert told.times == []


def test_one_that_cannot_be_told_is_told_again_and_its_reason_is_logged_once(
    plan: Plan, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    told.answer = DeviceError("s2", "its configuration is locked")
    its = leading(plan)
    for _ in range(2):
        its.met("s2", agent(None))
        until_told(its)
    assert told.times == [["s2"], ["s2"]]
    assert caplog.text.count("its configuration is locked") == 1
