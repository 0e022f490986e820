"""The history as a journal: what a controller wrote is there for the next one, and nothing else."""

from __future__ import annotations

import fcntl
import resource
import sqlite3
import stat
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from threading import Timer

import pytest

from cnc.errors import CncError, InputError, RolloutError
from cnc.model import Plan
from cnc.rollout.history import History, Outcome, Phase, encoding
from tests.unit.rollout_history import CONFIRM_BY, LINE3, begin, change, opened

ROOT = Path(__file__).parents[2]
DECIDE_AND_WAIT = """
import sys
from pathlib import Path
from tests.unit.rollout_history import begin, opened
journal = begin(opened(Path(sys.argv[1])))
journal.decide()
print(journal.number, flush=True)
sys.stdin.read()
"""
BEGIN_TEN = """
import sys
from pathlib import Path
from cnc.rollout.history import Phase
from tests.unit.rollout_history import begin, opened
sys.stdin.read()
for _ in range(10):
    with opened(Path(sys.argv[1])) as history, begin(history) as journal:
        journal.decide()
        journal.end(Phase.DONE)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.sqlite"


@pytest.fixture
def history(path: Path) -> Iterator[History]:
    with opened(path) as found:
        yield found


def read_again(path: Path, number: int) -> Plan | None:
    """The plan of a rollout as another process reads it."""
    with opened(path) as found:
        return found.plan_of(number)


def controller(program: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow beyond its first 4096 octets, as far as this process is concerned."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- what is kept ----------------------------------------------------------------------------


def test_of_a_service_the_plans_of_its_newest_rollouts_are_kept(history: History) -> None:
    for what in ("push", *["service"] * 4):
        with begin(history, what=what, plan=LINE3) as journal:
            journal.decide()
            journal.end(Phase.DONE)
    history.forget_plans("line3", "service", keep=2)
    kept = [each.number for each in history.rollouts(with_plan=True)]
    assert kept == [5, 4, 1]
    assert len(history.rollouts()) == 5
    assert history.running_plan("line3") == LINE3


def test_a_rollout_that_has_begun_is_there_for_the_next_controller(
    history: History, path: Path
) -> None:
    switches = {"s1": change("192.0.2.1"), "s2": change("192.0.2.2")}
    asked = datetime.now(UTC)
    with begin(history, switches, id="a-uuid", plan=LINE3) as journal, opened(path) as other:
        found = other.rollout(journal.number)
        assert (found.id, found.network, found.operator) == ("a-uuid", "line3", "alice@lab")
        assert (found.what, found.base_time_ns) == ("push line3.yaml", 1_800_000_000_000_000_000)
        assert found.switches == switches
        assert (found.phase, found.ended, found.detail) == (Phase.PREPARING, None, "")
        assert asked <= found.started <= datetime.now(UTC)
        plan = other.plan_of(journal.number)
        assert plan == LINE3
        assert plan.intent.document == LINE3.intent.document


def test_every_step_of_a_rollout_can_be_read_as_soon_as_it_is_written(
    history: History, path: Path
) -> None:
    with begin(history) as journal, opened(path) as other:
        journal.decide()
        assert other.rollout(journal.number).phase is Phase.CONFIRMING
        journal.result("s1", Outcome.CONFIRMED, "its startup could not be written")
        (result,) = other.rollout(journal.number).switches.values()
        assert result.outcome is Outcome.CONFIRMED
        assert result.detail == "its startup could not be written"
        journal.end(Phase.DONE, "all confirmed")
        ended = other.rollout(journal.number)
        assert (ended.phase, ended.detail) == (Phase.DONE, "all confirmed")
        assert ended.ended is not None
        assert ended.ended >= ended.started


def test_times_are_kept_in_utc_whatever_zone_they_came_in(history: History) -> None:
    elsewhere = CONFIRM_BY.astimezone(timezone(timedelta(hours=-5)))
    with begin(history, confirm_by=elsewhere) as journal:
        found = history.rollout(journal.number)
    # By the clock of the place, which is not that of this machine.
    assert abs(found.confirm_by - CONFIRM_BY) < timedelta(minutes=1)
    assert {found.confirm_by.tzinfo, found.started.tzinfo} == {UTC}


def test_rollouts_come_newest_first_and_can_be_chosen(history: History) -> None:
    for network, phase in (("a", Phase.DONE), ("b", Phase.DONE), ("a", Phase.ROLLED_BACK)):
        with begin(history, network=network) as journal:
            journal.end(phase)
    assert [r.number for r in history.rollouts()] == [3, 2, 1]
    assert [r.number for r in history.rollouts("a")] == [3, 1]
    assert [r.number for r in history.rollouts("a", phase=Phase.DONE)] == [1]
    assert [r.number for r in history.rollouts(limit=2)] == [3, 2]
    assert history.rollouts("c") == []


def test_a_history_knows_its_rollouts_by_the_id_on_the_switches(history: History) -> None:
    with begin(history, id="mine"):
        assert history.knows("mine")
        assert not history.knows("anothers")


def test_a_rollout_can_be_kept_without_a_plan(history: History) -> None:
    with begin(history, plan=None) as journal:
        assert history.plan_of(journal.number) is None


@pytest.mark.parametrize("number", [0, 4711, 2**64])
def test_a_number_that_there_is_not_is_bad_input(history: History, number: int) -> None:
    for ask in (history.rollout, history.plan_of, history.reopen):
        with pytest.raises(InputError, match=f"has no rollout {number}") as refused:
            ask(number)
        assert "cnc history" in str(refused.value.hint)


def test_without_a_file_rollouts_are_kept_as_long_as_the_history_is_open() -> None:
    def directories() -> set[Path]:
        return set(Path(gettempdir()).glob("cnc-history-*"))

    before = directories()
    with History(None) as history, begin(history) as journal:
        journal.result("s1", Outcome.SAVED)
        journal.end(Phase.DONE)
        assert history.rollout(1).switches["s1"].outcome is Outcome.SAVED
        mine = directories() - before
    assert mine
    assert not any(directory.exists() for directory in mine)


# --- whose rollout it is ---------------------------------------------------------------------


def test_a_killed_controller_leaves_its_rollout_to_be_finished(
    history: History, path: Path
) -> None:
    process = controller(DECIDE_AND_WAIT, path)
    assert process.stdout is not None
    number = int(process.stdout.readline())
    (left,) = history.unfinished(["192.0.2.1 830"])
    assert left.under_way
    with pytest.raises(
        RolloutError, match=f"in progress: its controller, .*process {process.pid},"
    ):
        history.reopen(number)

    process.kill()
    process.communicate(timeout=60)
    while history.rollout(number).under_way:  # a server notices it a little later
        time.sleep(0.01)
    (left,) = history.unfinished(["192.0.2.1 830"])
    assert (left.number, left.phase, left.under_way) == (number, Phase.CONFIRMING, False)
    with history.reopen(number) as journal:
        assert journal.id == left.id
        assert history.rollout(number).under_way
        journal.end(Phase.ROLLED_BACK, "by the operator")
    assert history.unfinished() == []
    assert not history.rollout(number).under_way


def test_a_journal_that_is_closed_early_leaves_its_rollout_to_be_finished(
    history: History,
) -> None:
    journal = begin(history)
    with pytest.raises(RolloutError):
        history.reopen(journal.number)
    journal.close()
    assert not history.rollout(journal.number).under_way
    with history.reopen(journal.number) as again:
        again.end(Phase.ROLLED_BACK)


def test_a_rollout_that_has_ended_cannot_be_reopened(history: History) -> None:
    with begin(history) as journal:
        journal.end(Phase.DONE)
    with pytest.raises(RolloutError, match="rollout 1 has ended: done"):
        history.reopen(1)


def test_a_rollout_ends_in_one_of_the_phases_that_are_an_end(history: History) -> None:
    with begin(history) as journal, pytest.raises(ValueError, match="confirming"):
        journal.end(Phase.CONFIRMING)


def test_a_result_of_a_switch_that_is_not_in_the_rollout_is_refused(history: History) -> None:
    with begin(history) as journal, pytest.raises(KeyError, match="s9"):
        journal.result("s9", Outcome.SAVED)


def test_rollouts_that_ended_leave_nothing_but_the_history(path: Path) -> None:
    with History(path) as history:
        with begin(history) as journal:
            journal.end(Phase.DONE)
        begin(history).close()
        with history.reopen(2) as journal:
            journal.end(Phase.ROLLED_BACK)
        with pytest.raises(RolloutError):
            history.reopen(2)
    assert list(path.parent.iterdir()) == [path]


def test_unfinished_are_those_that_touch_one_of_the_switches(history: History) -> None:
    begin(history, {"s1": change("192.0.2.1"), "s2": change("192.0.2.2")}).close()
    begin(history, {"s3": change("192.0.2.3")}).close()
    with begin(history, {"s2": change("192.0.2.2")}) as ended:
        ended.end(Phase.DONE)
    assert [r.number for r in history.unfinished(["192.0.2.2 830"])] == [1]
    assert [r.number for r in history.unfinished(["192.0.2.3 830", "192.0.2.1 830"])] == [2, 1]
    assert history.unfinished(["192.0.2.2 831"]) == []
    assert [r.number for r in history.unfinished()] == [2, 1]


def test_who_only_asks_whether_a_controller_lives_keeps_nobody_from_taking_over(
    history: History, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cnc.rollout.history.lock._PROBE_TIMEOUT_S", 60.0)
    begin(history).close()
    with path.with_name(f"{path.name}-rollout-1.lock").open() as asked:
        fcntl.flock(asked, fcntl.LOCK_SH)
        done_asking = Timer(0.2, fcntl.flock, (asked, fcntl.LOCK_UN))
        done_asking.start()
        history.reopen(1).close()
        done_asking.join()


# --- at once ---------------------------------------------------------------------------------


def test_controllers_that_make_the_history_at_once_lose_nothing_of_each_other(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / f"{number}.sqlite" for number in range(20)]

    def record(_: int) -> None:
        for path in paths:
            with History(path) as history:
                begin(history).close()

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(record, range(4)))
    for path in paths:
        with History(path) as history:
            assert len(history.rollouts()) == 4


def test_controllers_that_begin_at_once_each_get_a_number_of_their_own(path: Path) -> None:
    processes = [controller(BEGIN_TEN, path) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(timeout=300) for process in processes] == [0, 0, 0, 0]
    with opened(path) as history:
        assert [r.number for r in history.rollouts(phase=Phase.DONE)] == list(range(40, 0, -1))


def test_results_can_be_written_by_many_threads_at_once(history: History) -> None:
    names = [f"s{number}" for number in range(40)]
    with begin(history, dict.fromkeys(names, change())) as journal:
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda name: journal.result(name, Outcome.SAVED), names))
        found = history.rollout(journal.number).switches
    assert {name: its.outcome for name, its in found.items()} == dict.fromkeys(names, Outcome.SAVED)


# --- what can go wrong -----------------------------------------------------------------------


def test_only_its_owner_can_read_a_history(history: History, path: Path) -> None:
    with begin(history):
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(modes) >= 3  # the history, its write-ahead log, the lock
    assert set(modes.values()) == {0o600}


def test_a_rollout_that_cannot_be_recorded_does_not_begin(history: History) -> None:
    with full_disk(), pytest.raises(CncError) as refused:
        begin(history, plan=LINE3)
    assert "history.sqlite: the history failed: " in str(refused.value)
    assert "free some space" in str(refused.value.hint).lower()
    assert history.rollouts() == []
    with begin(history):
        assert [r.number for r in history.rollouts()] == [1]


def test_a_decision_that_cannot_be_recorded_is_none(history: History) -> None:
    with begin(history) as journal:
        with full_disk(), pytest.raises(CncError):
            journal.decide()
        assert history.rollout(journal.number).phase is Phase.PREPARING


def test_a_result_that_cannot_be_recorded_leaves_the_decision_standing(history: History) -> None:
    with begin(history) as journal:
        journal.decide()
        with full_disk():
            with pytest.raises(CncError):
                journal.result("s1", Outcome.CONFIRMED)
            with pytest.raises(CncError):
                journal.end(Phase.DONE)
    (left,) = history.unfinished()
    assert (left.phase, left.under_way) == (Phase.CONFIRMING, False)
    assert left.switches["s1"].outcome is Outcome.UNKNOWN


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(CncError, match=r"state/history.sqlite: .*: (File exists|Not a dir)") as bad:
        History(tmp_path / "state" / "history.sqlite")
    assert "--state-dir" in str(bad.value.hint)


def test_a_history_of_a_newer_cnc_is_left_alone(path: Path) -> None:
    History(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(CncError, match=r"a newer cnc wrote this history \(version 99") as refused:
        History(path)
    assert "--state-dir" in str(refused.value.hint)


def test_the_database_of_something_else_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    before = path.read_bytes()
    with pytest.raises(CncError, match="not a rollout history"):
        History(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_named_and_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(CncError, match=r"history.sqlite: the history is damaged: ") as refused:
        History(path)
    assert "move the file and its" in str(refused.value.hint)
    assert path.read_bytes() == b"no database at all" * 1000


@pytest.mark.parametrize(
    "damage",
    [
        "started = 'yesterday'",
        "started = '2026-11-28T12:00:00'",
        "confirm_by = ''",
        "ended = '0'",
        "phase = 'nearly done'",
    ],
)
def test_a_rollout_with_a_damaged_field_is_named(history: History, path: Path, damage: str) -> None:
    begin(history).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE rollout SET {damage}")  # noqa: S608
    for ask in (history.rollouts, lambda: history.rollout(1)):
        with pytest.raises(CncError, match=r"history.sqlite: rollout 1 is damaged: "):
            ask()


def test_a_plan_that_inflates_to_all_memory_is_not_inflated(history: History, path: Path) -> None:
    begin(history, plan=LINE3).close()
    bomb = zlib.compress(bytes(200 * 2**20))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE rollout SET plan = ?", (bomb,))
    tracemalloc.start()
    try:
        with pytest.raises(CncError, match="rollout 1 is damaged: it inflates to more than"):
            read_again(path, 1)
        _, most_octets = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The pieces and the whole.
    assert most_octets < 2.5 * encoding.TEXT_MAX_OCTETS


def test_a_plan_that_is_cut_short_is_damaged(history: History, path: Path) -> None:
    begin(history, plan=LINE3).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE rollout SET plan = substr(plan, 1, length(plan) - 20)")
    with pytest.raises(CncError, match="rollout 1 is damaged: it is cut short"):
        read_again(path, 1)


def test_what_could_not_be_read_again_is_not_recorded(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "TEXT_MAX_OCTETS", 1000)
    with pytest.raises(CncError, match=r"the rollout cannot be recorded: .* at most 1000"):
        begin(history, plan=LINE3)
    assert history.rollouts() == []


def test_a_damaged_rollout_is_named(history: History, path: Path) -> None:
    begin(history, plan=LINE3).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE rollout SET plan = x'00'")
        connection.execute("UPDATE switch_change SET change = x'00'")
    for ask in (history.rollout, partial(read_again, path)):
        with pytest.raises(CncError, match=r"history.sqlite: rollout 1 is damaged: "):
            ask(1)


def test_a_history_that_another_process_never_lets_go_of_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cnc.rollout.history.database._BUSY_TIMEOUT_S", 0.05)
    with History(path) as history, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CncError, match="database is locked") as refused:
            begin(history)
    assert "another process" in str(refused.value.hint)
