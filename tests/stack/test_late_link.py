"""A commit that a link holds and delivers late: a sample of `scripts/long late-link`.

Real agents, sysrepo and NETCONF servers, three switches a network, three networks side by side. The
whole table is docs/lab/late-link.md.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fault.late_table import LateRow, from_json
from tests.fault.link import Way
from tests.fault.moments import Moment
from tests.fault.table import Recovery

CHECKOUT = Path(__file__).parents[2]
# In real time they take half a minute; beside busy ones much longer.
TIMEOUT_S = 900

Held = tuple[str, Way, Moment]

COMMIT, CONFIRM = "cnc: before commit confirmed", "cnc: before commit persist-id"
# The switch hears of these.
HEARD: list[Held] = [
    (COMMIT, Way.LINK, Moment.BEFORE_BASE_TIME),
    (COMMIT, Way.LINK, Moment.AFTER_BASE_TIME),
    (COMMIT, Way.LINK, Moment.AFTER_END),
]
# `cnc` ends the session by another one, or never commits.
UNHEARD: list[Held] = [
    (COMMIT, Way.CONNECTION, Moment.AFTER_END),
    ("cnc: before edit-config candidate", Way.LINK, Moment.AFTER_BASE_TIME),
]
IN_TIME: Held = (COMMIT, Way.LINK, Moment.BEFORE_REVERT)
UNDECIDED: Held = (CONFIRM, Way.LINK, Moment.AFTER_BASE_TIME)
ALL = (*HEARD, *UNHEARD, IN_TIME, UNDECIDED)

pytestmark = pytest.mark.timeout(TIMEOUT_S)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Held, LateRow]:
    """The sample."""
    file = tmp_path_factory.mktemp("late") / "rows.json"
    wanted = [part for held in ALL for part in ("--case", *held)]
    # Its programs are forks of one that must not have pytest in it.
    done = subprocess.run(
        [sys.executable, "-m", "tests.fault.late", "--networks", "3", "--json", file, *wanted],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    found = {(row.step, row.way, row.moment): row for row in from_json(file.read_text())}
    assert found.keys() == {*ALL}, f"{done.stdout}\n{done.stderr}"
    return found


@pytest.fixture
def row(rows: Mapping[Held, LateRow], held: Held) -> LateRow:
    found = rows[held]
    assert found.has_held
    if not found.is_in_time:
        pytest.skip(f"this machine was too slow for the case: {found}")
    return found


@pytest.mark.parametrize("held", [*HEARD, *UNHEARD], ids=" | ".join)
def test_a_commit_that_comes_late_moves_no_gate(row: LateRow, held: Held):
    assert row.mixed_ns == 0
    assert not row.struck_took_it
    assert (row.outcome, row.rollout_ids, row.is_at_rest) == ("old", 1, True)
    assert row.recovery is Recovery.NONE
    assert row.struck_refused_it == (held in HEARD)


@pytest.mark.parametrize("held", [IN_TIME], ids=" | ".join)
def test_a_commit_that_comes_while_the_controller_waits_for_it_is_carried_out(row: LateRow):
    assert row.mixed_ns == 0
    assert (row.outcome, row.rollout_ids, row.is_at_rest) == ("new", 1, True)


@pytest.mark.parametrize("held", [UNDECIDED], ids=" | ".join)
def test_a_confirming_commit_that_comes_late_leaves_the_choice_to_an_operator(row: LateRow):
    expected = {Recovery.RESUME: "new", Recovery.ROLLBACK: "old"}
    assert (row.outcome, row.is_at_rest) == (expected[row.recovery], True)
    assert row.is_sound
