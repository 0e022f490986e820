"""When a lane has failed."""

from __future__ import annotations

import pytest

from tests.runner import account
from tests.runner.account import Counts
from tests.runner.table import Cost

REPORT = """<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1">
<testcase classname="tests.stack.test_a" name="test_x"><skipped message="no browser"/></testcase>
</testsuite></testsuites>"""
SPENT = (2.0, 1.0)


def test_a_report_is_counted_with_the_reasons_of_what_was_skipped(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert account.read(tmp_path / "report.xml") == Counts(
        passed=2, failed=2, skipped=1, reasons=("tests.stack.test_a.test_x: no browser",)
    )


@pytest.mark.parametrize("text", [None, "", "<testsuites><testsuite"])
def test_a_lane_without_a_whole_report_has_failed(tmp_path, text):
    if text is not None:
        (tmp_path / "report.xml").write_text(text)
    counts = account.read(tmp_path / "report.xml")
    assert counts is None
    assert account.judge("stack", counts, 125, SPENT).bad


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        (Counts(passed=3, failed=1), 1),
        (Counts(), 5),
        (Counts(skipped=3), 0),
        (Counts(passed=3), 3),
        (None, None),
    ],
    ids=["a test failed", "nothing collected", "all skipped", "died at the end", "not started"],
)
def test_a_lane_that_failed_or_ran_nothing_is_bad(counts, status):
    assert account.judge("stack", counts, status, SPENT).bad


def test_a_lane_that_passed_is_good():
    assert not account.judge("stack", Counts(passed=3, skipped=1), 0, SPENT).bad


def test_a_lane_may_be_empty_where_options_choose_the_tests():
    assert not account.judge("stack", Counts(), 5, SPENT, may_be_empty=True).bad
    assert account.judge("stack", Counts(), 4, SPENT, may_be_empty=True).bad


def test_half_as_much_again_is_within_the_budget_and_more_is_not():
    cost = Cost(cpu_s=10, wall_s=10)
    within = account.judge("stack", Counts(passed=1), 0, (99.0, 15.0))
    beyond = account.judge("stack", Counts(passed=1), 0, (1.0, 15.1))
    assert account.over_budget(within, cost) is None
    assert "more than 1.5 times the 10 s" in account.over_budget(beyond, cost)


def test_a_slower_machine_has_so_much_more():
    cost = Cost(cpu_s=10, wall_s=10)
    within = account.judge("stack", Counts(passed=1), 0, (99.0, 30.0))
    beyond = account.judge("stack", Counts(passed=1), 0, (99.0, 30.1))
    assert account.over_budget(within, cost, slowness=2.0) is None
    assert "on a machine 2.0 times as slow" in account.over_budget(beyond, cost, slowness=2.0)
