"""What mechanisms decide of a plan, in its file."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.errors import InputError
from cnc.mechanism import Decided, Kept
from cnc.mechanisms import terms
from cnc.model import Plan
from cnc.planner import plan as compute
from cnc.plans import file as planfile

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


@dataclass(frozen=True, slots=True)
class Slots:
    """A decision: a slot for each stream."""

    streams: tuple[str, ...] = ()


def _decide(plan: Plan) -> Slots:
    return Slots(tuple(sorted(plan.streams)))


KEPT = Kept("slots", str, lambda its: iter(its.streams), Slots)


def install(monkeypatch: pytest.MonkeyPatch, *decisions: Decided[Slots]) -> None:
    monkeypatch.setattr(terms, "deciding", lambda: decisions)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> str:
    install(monkeypatch, Decided(_decide, Slots, KEPT))
    return planfile.dump(compute(intents.load(LINE3)))


def test_what_a_mechanism_decides_of_a_plan_is_in_its_file(written: str) -> None:
    document = json.loads(written)
    assert document["format"] == "cnc-plan/4"
    assert document["decisions"]["slots"] == {"version": 1, "rows": sorted(document["streams"])}
    read = planfile.parse(written, "plan.json")
    assert read[Slots].streams == tuple(sorted(read.streams))
    assert planfile.dump(read) == written


def test_a_plan_of_which_nothing_else_is_decided_is_written_as_ever() -> None:
    document = json.loads(planfile.dump(compute(intents.load(LINE3))))
    assert document["format"] == "cnc-plan/3"
    assert "decisions" not in document


def test_a_decision_of_a_mechanism_that_is_not_installed_is_refused_by_name(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    with pytest.raises(InputError, match=r"plan.json: decisions: it has 'slots' of a mechanism"):
        planfile.parse(written, "plan.json")


def test_a_decision_of_an_older_version_is_read_and_of_another_one_is_refused(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = replace(KEPT, version=2, former={1: lambda rows: Slots(tuple(rows[:1]))})
    install(monkeypatch, Decided(_decide, Slots, second))
    assert len(planfile.parse(written, "plan.json")[Slots].streams) == 1
    install(monkeypatch, Decided(_decide, Slots, replace(second, former={})))
    with pytest.raises(InputError, match="'slots' in version 1, and version 2 is installed here"):
        planfile.parse(written, "plan.json")


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ({"version": 1, "rows": [5]}, r"decisions.slots.rows: found what slots does not write"),
        ({"version": 0, "rows": []}, r"decisions.slots.version: found 0, expected an integer"),
        ({"version": 1}, r"decisions.slots: found no rows, expected the keys version, rows"),
    ],
)
def test_a_decision_that_nobody_writes_so_is_refused_with_its_place(
    written: str, decision: object, words: str
) -> None:
    document = json.loads(written)
    document["decisions"]["slots"] = decision
    with pytest.raises(InputError, match=words):
        planfile.parse(json.dumps(document), "plan.json")
