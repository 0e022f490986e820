"""Runs that are repeated: they go on where they stopped, and each leaves its line."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import pytest

from tests.runner import repeat
from tests.runner.account import Account, Counts
from tests.runner.lanes import Outcome

GOOD = Outcome((Account("unit", Counts(passed=9), 1.0, 1.0),), ())
BAD = Outcome((Account("unit", Counts(passed=8, failed=1), 1.0, 1.0),), ())
PAGE = f"""# Benchmarks

{repeat.RUNS}

| date | commit | form | beside | result | took |
|---|---|---|---|---|---|
| 2026-01-01 | abc | x | nothing | 1 passed | 3 s |

After it.
"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "benchmarks.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def runs(tmp_path, times=3, form="scripts/test --quick", busy=False) -> repeat.Repeat:
    return repeat.Repeat(form, times, tmp_path / "state", busy)


def test_each_run_adds_a_line_to_the_table(tmp_path, page):
    assert runs(tmp_path, times=2).run(lambda: GOOD, page)
    lines = page.read_text(encoding="utf-8").splitlines()
    added = lines[7:9]
    assert all("`scripts/test --quick`" in line for line in added)
    assert all("9 passed, 0 failed, 0 skipped" in line for line in added)
    assert lines[9:] == ["", "After it."]


def test_what_was_stopped_goes_on_with_the_runs_that_are_missing(tmp_path, page):
    done = []

    def stopped_in_the_third() -> Outcome:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return GOOD

    with pytest.raises(KeyboardInterrupt):
        runs(tmp_path, times=5).run(stopped_in_the_third, page)
    later = []
    assert runs(tmp_path, times=5).run(lambda: later.append(1) or GOOD, page)
    assert len(later) == 3


def test_one_bad_run_makes_all_bad_even_after_a_restart(tmp_path, page):
    results = iter([GOOD, BAD, GOOD])
    assert not runs(tmp_path).run(lambda: next(results), page)
    assert not runs(tmp_path).run(lambda: pytest.fail("all runs were made"), page)


@pytest.mark.parametrize("other", [{"form": "scripts/test"}, {"busy": True}])
def test_the_state_of_other_runs_is_refused(tmp_path, page, other):
    runs(tmp_path).run(lambda: GOOD, page)
    with pytest.raises(repeat.OtherForm, match="counts runs of scripts/test --quick"):
        runs(tmp_path, **other).run(lambda: GOOD, page)


def test_the_state_is_there_after_each_run(tmp_path, page):
    def look() -> Outcome:
        states.append((tmp_path / "state").exists())
        return GOOD

    states: list[bool] = []
    runs(tmp_path, times=2).run(look, page)
    assert states == [False, True]
    assert json.loads((tmp_path / "state").read_text())["good"] == [True, True]


def test_a_row_takes_the_place_of_the_one_that_begins_alike(page):
    repeat.append_row(page, repeat.RUNS, ("2026-01-01", "new"), replace=True)
    text = page.read_text(encoding="utf-8")
    assert "| 2026-01-01 | new |" in text
    assert "abc" not in text
    repeat.append_row(page, repeat.RUNS, ("2026-01-02", "other"), replace=True)
    assert page.read_text(encoding="utf-8").index("new") < page.read_text().index("other")


def test_a_page_without_the_table_is_refused(tmp_path):
    (tmp_path / "page.md").write_text("# Empty\n")
    with pytest.raises(ValueError, match="no table below"):
        repeat.append_row(tmp_path / "page.md", repeat.RUNS, ("x",))


def test_busy_loops_end_with_their_block_and_have_a_limit_of_their_own():
    with repeat.busy_loops(limit_s=7) as loops:
        begun = [loop.poll() for loop in loops]
        for loop in loops:
            while not Path(f"/proc/{loop.pid}/cmdline").read_text().startswith("sh"):
                time.sleep(0.01)  # it becomes setpriv, prlimit, and then the loop
            assert resource.prlimit(loop.pid, resource.RLIMIT_CPU) == (7, 7)
    assert begun == [None] * len(loops)
    assert all(loop.poll() is not None for loop in loops)
