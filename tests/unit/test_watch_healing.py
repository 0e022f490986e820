"""When what drifted is put back, and when it is left alone."""

from __future__ import annotations

import pytest

from cnc.model import PortRef
from cnc.watch.condition import Condition, Kind
from cnc.watch.healing import FIRST_DELAY_S, LONGEST_DELAY_S, SETTLE_S, Backoff, hindrance
from tests.unit.watched_switches import START

ONE = frozenset({PortRef("s2", "s3")})
TWO = ONE | {PortRef("s2", "s1")}
NONE: frozenset[PortRef] = frozenset()


def test_nothing_is_healed_where_nothing_drifted():
    assert not Backoff().is_due(NONE, 1_000)


def test_a_drift_is_healed_when_it_has_settled():
    pace = Backoff()
    assert not pace.is_due(ONE, 100)
    assert not pace.is_due(ONE, 100 + SETTLE_S - 0.1)
    assert not pace.is_due(TWO, 100 + SETTLE_S)
    assert not pace.is_due(TWO, 100 + 2 * SETTLE_S - 0.1)
    assert pace.is_due(TWO, 100 + 2 * SETTLE_S)


def test_each_attempt_in_vain_waits_twice_as_long_up_to_a_limit():
    pace, now_s, waits = Backoff(), 100.0, []
    pace.is_due(ONE, now_s - SETTLE_S)
    for _ in range(10):
        assert pace.is_due(ONE, now_s)
        waits.append(pace.tried(now_s))
        assert not pace.is_due(ONE, now_s + waits[-1] - 0.1)
        now_s += waits[-1]
    assert waits[:3] == [FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S]
    assert waits[-1] == LONGEST_DELAY_S


def test_somebody_who_breaks_it_again_and_again_is_not_fought_at_his_own_pace():
    pace = Backoff()
    pace.is_due(ONE, 0)
    assert pace.is_due(ONE, SETTLE_S)
    pace.tried(SETTLE_S)
    assert not pace.is_due(NONE, SETTLE_S + 1)
    assert not pace.is_due(ONE, SETTLE_S + 2)
    assert not pace.is_due(ONE, SETTLE_S + FIRST_DELAY_S - 0.1)
    assert pace.is_due(ONE, SETTLE_S + FIRST_DELAY_S)
    assert pace.tried(SETTLE_S + FIRST_DELAY_S) == 2 * FIRST_DELAY_S


def test_after_a_long_peace_the_next_drift_is_healed_at_once():
    pace = Backoff()
    for now_s in (0.0, 100.0, 200.0):
        pace.is_due(ONE, now_s)
        pace.tried(now_s)
    pace.is_due(NONE, 300)
    pace.is_due(NONE, 300 + 8 * FIRST_DELAY_S)
    pace.is_due(ONE, 1_000)
    assert pace.is_due(ONE, 1_000 + SETTLE_S)
    assert pace.tried(1_000 + SETTLE_S) == FIRST_DELAY_S


@pytest.mark.parametrize(
    "kind",
    [
        Kind.UNREACHABLE,
        Kind.AGENT_DOWN,
        Kind.CONFIGURATION,
        Kind.FOREIGN_CHANGE,
        Kind.GATES_WAIT,
        Kind.UNFINISHED_ROLLOUT,
    ],
)
def test_what_somebody_else_wants_or_a_push_cannot_do_is_left_alone(kind):
    standing = Condition(kind, "s1", "", "", START)
    drift = Condition(Kind.DRIFT, "s2", "s3", "", START)
    assert hindrance([drift, standing]) is standing
    assert hindrance([drift]) is None
