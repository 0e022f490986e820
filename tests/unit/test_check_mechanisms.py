"""The judge asks those of all mechanisms, which compute by themselves what a plan allows for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cnc.account.judge import Judge, Table
from cnc.account.violation import Violation
from cnc.check import judge, mechanisms
from cnc.mechanisms import terms
from cnc.mechanisms.loading import loaded
from cnc.mechanisms.stream_filters.model import Policing, PolicingRules
from cnc.model import Elimination, Plan
from cnc.planner import plan
from tests.python_imports import Package
from tests.unit.bridged_networks import bridged
from tests.unit.planner_networks import RING, stream

CHECKOUT = Path(__file__).parents[2]
TWICE = stream("twice", "t", "l", paths=2, elimination=Elimination.SWITCH)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Has the judge ask this judge alone."""

    def ask(its: Judge) -> None:
        monkeypatch.setattr(mechanisms, "_judges", lambda: (its,))
        mechanisms._adding.cache_clear()
        mechanisms._dropping.cache_clear()

    yield ask
    mechanisms._adding.cache_clear()
    mechanisms._dropping.cache_clear()


def test_no_judge_of_a_mechanism_is_left_out() -> None:
    cnc = Package(CHECKOUT, "cnc")
    judges = {each for each in cnc.files if cnc.mechanism_of(each) and each.endswith(".judge")}
    by_registry = {f"cnc.mechanisms.{each.name}.judge" for each in loaded() if each.judge}
    by_name = {b.module for each in cnc.files if ".check" in each for b in cnc.imports(each)}
    assert judges
    assert judges <= by_registry | by_name


def test_what_a_judge_finds_refuses_a_plan(only) -> None:
    planned = plan(bridged(RING, TWICE))
    found = Violation("window", "twice", "is given to no class")
    only(Judge(ways=lambda _plan, _told: iter([found])))
    assert found in judge(planned)
    only(Judge(times=lambda _plan, _told, _transmissions, _added: iter([found])))
    assert found in judge(planned)


def test_octets_that_a_mechanism_adds_make_frames_late_that_were_not_planned_so(only) -> None:
    planned = plan(bridged(RING, TWICE))
    only(Judge(added_octets=lambda _stream: 400))
    assert "bound" in {each.code for each in judge(planned) if each.where == "twice"}


@pytest.mark.parametrize("elimination", Elimination)
def test_the_judge_knows_by_itself_what_is_added_to_frames(elimination: Elimination) -> None:
    its = replace(TWICE, elimination=elimination)
    assert mechanisms.added_octets(its) == terms.added_octets(its)
    assert bool(terms.added_octets(its)) == (elimination is Elimination.SWITCH)


@pytest.mark.parametrize("asked", Policing)
def test_the_judge_knows_by_itself_which_frames_may_be_dropped(asked: Policing) -> None:
    planned: Plan = plan(bridged(RING, TWICE).having(PolicingRules(asked)))
    its_class = planned.class_of("twice")
    by_plan = terms.may_be_dropped(planned.intent, "twice", its_class.name)
    assert mechanisms.drops_misfits(planned.intent, "twice", its_class.number) == by_plan
    assert by_plan == (asked is Policing.DROP)


def test_a_table_holds_as_many_entries_as_it_says() -> None:
    assert not Table("full", "rows", 3, 3).is_too_small
    assert Table("full", "rows", 4, 3).is_too_small
