"""A clock error that is measured: what becomes of the offsets that clocks state."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cnc import app
from cnc.clocks.synchronization_tree import UNSEEN_NS
from cnc.errors import InputError
from cnc.intent import from_document
from cnc.mechanisms.clock import error as clock_error
from cnc.model import ClocksApart, Intent, Plan
from cnc.plans import file as planfile
from cnc.rollout import stated
from tests.unit.test_clock_tree import line as switches_in_a_line

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
APART = ClocksApart("s1", "s2", 180, 1)


def wanted(clocks: str = "measured") -> Intent:
    return from_document(document(clocks), "test")


def document(clocks: str = "measured") -> dict[str, Any]:
    found: dict[str, Any] = deepcopy(dict(app.load_intent(LINE3).document))
    found["defaults"]["clock-error"] = clocks
    return found


def measured(apart_ns: int = 180, running: Plan | None = None) -> Intent:
    apart = ClocksApart("s1", "s2", apart_ns, 1)
    return clock_error.with_measured(wanted(), apart, running)


@pytest.mark.parametrize(("apart_ns", "value_ns"), [(180, 500), (0, 1), (251, 1_000)])
def test_a_plan_allows_for_twice_what_was_measured_rounded_up(apart_ns: int, value_ns: int) -> None:
    intent = measured(apart_ns)

    assert intent.network.clock_error_ns == value_ns
    assert intent.measured_clock_error is not None
    assert intent.measured_clock_error.apart.apart_ns == apart_ns


def test_the_value_of_the_running_plan_stays_while_clocks_are_no_further_apart() -> None:
    running = app.plan(measured(180))

    assert measured(500, running).network.clock_error_ns == 500
    assert measured(20, running).network.clock_error_ns == 500
    assert measured(501, running).network.clock_error_ns == 2_000


def test_what_the_operator_states_stays_whatever_clocks_measure() -> None:
    intent = clock_error.with_measured(wanted("2us"), APART)

    assert intent.network.clock_error_ns == 2_000
    assert intent.measured_clock_error is None


def test_no_plan_is_made_before_clocks_have_been_asked() -> None:
    with pytest.raises(
        InputError, match="no switch has reported how far clocks are apart"
    ) as refused:
        app.plan(wanted())

    assert "--ask-switches" in str(refused.value.hint)


def test_what_no_clock_sees_is_added_to_each_offset() -> None:
    clocks = stated(wanted().network, switches_in_a_line(100, 40)).clocks

    assert clocks == ClocksApart("s1", "s3", 100 + 40 + 2 * UNSEEN_NS, 2)


def test_clocks_that_follow_another_one_are_named() -> None:
    states = switches_in_a_line(100)

    assert stated(wanted().network, states).compared == {"s1", "s2"}
    with pytest.raises(
        InputError, match="found measured, but by what they say the clocks of s2, t1"
    ):
        clock_error.refuse_unmeasured(wanted(), ["s2", "t1"])


def test_switches_and_talkers_have_to_be_measured_and_listeners_need_not() -> None:
    intent = wanted()
    talkers = {stream.talker for stream in intent.streams.values()}

    assert clock_error.nodes(intent) == sorted({*intent.network.bridges, *talkers})


def test_a_plan_file_says_what_was_measured_and_where() -> None:
    plan = app.plan(measured())
    again = planfile.parse(app.dump_plan(plan), "again")

    assert again.intent.measured_clock_error == plan.intent.measured_clock_error
    assert again.intent.network.clock_error_ns == 500
    assert app.judge(again) == []


def test_a_plan_file_without_the_measurement_is_refused() -> None:
    lines = app.dump_plan(app.plan(measured())).splitlines(keepends=True)
    text = "".join(each for each in lines if not each.startswith('"clock_error"'))

    with pytest.raises(InputError, match="expected the one that was measured"):
        planfile.parse(text, "plan.json")


def test_a_plan_file_with_a_measurement_that_nobody_wanted_is_refused() -> None:
    text = app.dump_plan(app.plan(measured())).replace('"measured"', '"1us"', 1)

    with pytest.raises(InputError, match="found a clock error, expected none"):
        planfile.parse(text, "plan.json")


def test_the_summary_says_where_the_clock_error_comes_from() -> None:
    found = measured().measured_clock_error

    assert found is not None
    assert clock_error.source(found) == "measured: 2 x 180 ns between s1 and s2, rounded up"
