"""What becomes of a service whose PostgreSQL is away, is slow to answer, or is not its own."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from cnc.errors import CncError, InputError
from cnc.rollout.history import DATABASE, Outcome, Phase
from cnc.service import state
from cnc.service.core import ITSELF
from cnc.service.refused import CallRefused, Code
from cnc.service.store import Database, State, Store, StreamRecord, postgresql, url_of
from cnc.service.store.schema import VERSION
from tests.stack.postgresql import Cluster
from tests.unit.rollout_history import begin
from tests.unit.service_network import ONE, TWO, Asking, Switches
from tests.unit.test_service_core import KEYS, refused, run

BEGIN_AND_DECIDE = """
import sys
from pathlib import Path
from tests.unit.rollout_history import begin, opened
journal = begin(opened(Path(sys.argv[1])))
print(journal.number, flush=True)
sys.stdin.read()
journal.decide()
"""


@pytest.fixture
def directory(tmp_path: Path, database: str) -> Path:
    """The state directory of a service whose state is in a database."""
    state.note_database(tmp_path, database)
    return tmp_path


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    its = Store(Database(url_of(database)))
    yield its
    its.close()


def note(store: Store, value: str) -> None:
    with store.deciding(ITSELF, "x", "") as made:
        made.note("value", value)


def set_version(cluster: Cluster, database: str, key: str, version: int) -> None:
    statement = f"UPDATE meta SET value = '{version}' WHERE key = '{key}'"  # noqa: S608
    cluster.sql(statement, url_of(database).database)


# --- away ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_while_the_database_is_away_requests_are_refused_and_later_nothing_is_lost(
    directory: Path, postgresql: Cluster, how: signal.Signals
) -> None:
    switches = Switches()

    async def ask(service: Asking) -> None:
        await service.put(ONE, KEYS)
        await service.until(ONE, "configured")
        await service.until_quiet()
        postgresql.stop(how)
        try:
            for error in (await refused(service.put(TWO, KEYS)), await refused(service.get(ONE))):
                assert error.code is Code.UNAVAILABLE
                assert "the database of the service failed" in str(error)
                assert str(postgresql.directory) in str(error)
                assert error.hint.startswith("is PostgreSQL running")
        finally:
            postgresql.start()
        service.core.raise_if_failed()
        assert (await service.get(ONE))["state"] == "configured"
        assert (await refused(service.get(TWO))).code is Code.ABSENT
        await service.put(TWO, KEYS)
        await service.until(TWO, "configured")

    run(directory, ask, switches=switches)
    assert {"plc__00-1B-21-00-00-01_00-01", "plc__00-1B-21-00-00-01_00-02"} <= {
        *switches.plans[-1].streams
    }


def test_an_outcome_of_a_rollout_while_the_database_is_away_is_noted_once_it_is_back(
    directory: Path, postgresql: Cluster
) -> None:
    switches = Switches()

    async def ask(service: Asking) -> None:
        await service.until_quiet()
        switches.hold = threading.Event()
        await service.put(ONE, KEYS)
        await asyncio.sleep(0.5)
        postgresql.stop()
        switches.hold.set()
        try:
            while len(switches.plans) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        finally:
            postgresql.start()
        assert (await service.until(ONE, "configured"))["rollout"]
        service.core.raise_if_failed()

    run(directory, ask, switches=switches)


def test_sessions_that_the_server_has_ended_are_opened_again_unnoticed(
    store: Store, postgresql: Cluster, database: str
) -> None:
    note(store, "before")
    postgresql.end_sessions(database)
    assert store.noted("value") == "before"
    postgresql.end_sessions(database)
    note(store, "after")
    assert store.noted("value") == "after"


def test_a_session_that_is_lost_in_a_decision_takes_the_decision_with_it(
    store: Store, postgresql: Cluster, database: str
) -> None:
    def decide() -> None:
        with store.deciding(ITSELF, "x", "") as made:
            made.note("value", "half")
            postgresql.end_sessions(database)
            made.note("other", "half")

    with pytest.raises(CallRefused, match="the database of the service failed") as error:
        decide()
    assert error.value.code is Code.UNAVAILABLE
    assert store.noted("value") is None
    note(store, "whole")


def test_a_database_that_goes_in_the_middle_of_a_decision_has_not_written_it(
    store: Store, postgresql: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cnc.service.store.postgresql._OUTCOME_KNOWN_S", 0.5)

    def decide() -> None:
        with store.deciding(ITSELF, "x", "") as made:
            postgresql.stop()
            made.note("value", "half")

    try:
        with pytest.raises(CallRefused, match="the database of the service failed"):
            decide()
    finally:
        postgresql.start()
    store.raise_if_unknown()
    assert store.noted("value") is None


@pytest.mark.parametrize("is_written", [True, False])
def test_whether_a_decision_is_there_whose_end_was_not_answered_is_found_out(
    store: Store,
    postgresql: Cluster,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    is_written: bool,
) -> None:
    dialect = store.database._engine.dialect
    commit = dialect.do_commit

    def without_answer(connection: Any) -> None:
        monkeypatch.setattr(dialect, "do_commit", commit)
        if is_written:
            commit(connection)
        postgresql.end_sessions(database)
        connection.execute("SELECT 1")

    monkeypatch.setattr(dialect, "do_commit", without_answer)
    if is_written:
        note(store, "there")
        assert store.noted("value") == "there"
    else:
        with pytest.raises(CallRefused, match="the database of the service failed"):
            note(store, "there")
        assert store.noted("value") is None
    note(store, "next")


def test_a_service_that_cannot_know_whether_a_decision_is_there_ends(
    store: Store, postgresql: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect = store.database._engine.dialect
    monkeypatch.setattr("cnc.service.store.postgresql._OUTCOME_KNOWN_S", 0.5)

    def away(connection: Any) -> None:
        postgresql.stop()
        connection.execute("SELECT 1")

    monkeypatch.setattr(dialect, "do_commit", away)
    try:
        with pytest.raises(CallRefused, match="whether it is there is not known"):
            note(store, "x")
    finally:
        postgresql.start()
    with pytest.raises(CallRefused, match="whether it is there is not known"):
        store.raise_if_unknown()
    with pytest.raises(CallRefused, match="whether it is there is not known"):
        note(store, "y")
    monkeypatch.undo()
    monkeypatch.setenv("PGPASSFILE", str(postgresql.passfile))
    with store.database.writing() as connection:  # what is not in memory goes on
        connection.exec_driver_sql("UPDATE meta SET value = 'later' WHERE key = 'x'")


# --- several controllers ---------------------------------------------------------------------


def test_decisions_of_several_controllers_come_in_turn_with_numbers_in_their_order(
    store: Store, database: str
) -> None:
    other = Store(Database(url_of(database)))
    has_begun = threading.Event()
    order: list[str] = []

    def second() -> None:
        has_begun.set()
        with other.deciding(ITSELF, "second", ""):
            order.append("second")

    thread = threading.Thread(target=second)
    with store.deciding(ITSELF, "first", "") as first:
        thread.start()
        has_begun.wait(10)
        thread.join(0.3)
        assert thread.is_alive()
        order.append("first")
    thread.join(30)
    other.close()
    assert order == ["first", "second"]
    assert [its["call"] for its in store.audit(first.number - 1, limit=9)] == ["first", "second"]


def test_what_a_fence_refuses_writes_nothing_to_store_and_history(directory: Path) -> None:
    may_write = True

    def fence(connection: Connection) -> None:
        assert connection.in_transaction()
        if not may_write:
            raise CallRefused(Code.UNAVAILABLE, "another controller leads")

    with state.opened(directory, fence) as (store, history), begin(history) as journal:
        note(store, "before")
        may_write = False
        for write in (
            lambda: note(store, "after"),
            journal.decide,
            lambda: journal.result("s1", Outcome.CONFIRMED),
            lambda: journal.end(Phase.DONE),
            lambda: begin(history),
        ):
            with pytest.raises(CallRefused, match="another controller leads"):
                write()
        assert store.noted("value") == "before"
        (only,) = history.rollouts()
        assert (only.phase, only.switches["s1"].outcome) == (Phase.PREPARING, Outcome.UNKNOWN)


def test_a_controller_that_stands_still_in_a_decision_is_given_up_and_others_go_on(
    store: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_SETTINGS", "-c idle_in_transaction_session_timeout=500ms")
    standing = Store(Database(url_of(database)))

    def decide() -> None:
        with standing.deciding(ITSELF, "x", "") as made:
            made.note("value", "of one that stands still")
            note(store, "of another")  # waits, and goes on
            made.note("value", "too late")

    with pytest.raises(CallRefused, match="the database of the service failed"):
        decide()
    assert store.noted("value") == "of another"
    standing.close()


def test_a_controller_that_stands_still_while_it_sends_many_rows_is_ended_by_who_waits(
    store: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the statements of a pipeline, in which no timeout of the server holds."""
    monkeypatch.setattr(postgresql, "_SETTINGS", "-c lock_timeout=500ms")
    monkeypatch.setattr(postgresql, "_IDLE_IN_TRANSACTION_S", 0.2)
    waiting = Store(Database(url_of(database)))
    goes_on = threading.Event()

    def rows() -> Iterator[tuple[str, str]]:
        yield "of one that stands still", "first"
        with pytest.raises(CallRefused, match="lock timeout"):
            note(waiting, "of another")
        note(waiting, "of another")
        goes_on.set()
        yield "too late", "second"

    lost = pytest.raises(CallRefused, match="the database of the service failed")
    with lost, store.database.writing() as connection:
        standing = connection.connection.cursor()
        standing.executemany("INSERT INTO meta (value, key) VALUES (%s, %s)", rows())
    assert goes_on.is_set()
    assert waiting.noted("value") == "of another"
    assert waiting.noted("first") is None
    waiting.close()


def test_a_new_leader_ends_what_holds_the_rollouts_of_one_that_stands_still(
    directory: Path, tmp_path: Path
) -> None:
    former = subprocess.Popen(
        [sys.executable, "-c", BEGIN_AND_DECIDE, directory / "any"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    number = int(former.stdout.readline())
    former.send_signal(signal.SIGSTOP)
    with state.opened(directory) as (_, history):
        assert history.rollout(number).under_way
        history.end_other_controllers()
        assert not history.rollout(number).under_way
        with history.reopen(number) as journal:
            journal.end(Phase.ROLLED_BACK, "by another leader")
        former.send_signal(signal.SIGCONT)
        _, said = former.communicate(timeout=60)
        assert "was ended by another controller meanwhile" in said
        assert history.rollout(number).phase is Phase.ROLLED_BACK


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(hours=-1)])
def test_how_long_switches_wait_is_known_to_a_controller_with_another_wall_clock(
    directory: Path, monkeypatch: pytest.MonkeyPatch, ahead: timedelta
) -> None:
    class Elsewhere(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + ahead

    whole = timedelta(minutes=10)
    with state.opened(directory) as (_, history):
        with begin(history, confirm_by=datetime.now(UTC) + whole) as journal:
            number = journal.number
        for module in ("cnc.rollout.history.record", "cnc.service.store.shared_history"):
            monkeypatch.setattr(f"{module}.datetime", Elsewhere)
        assert 0 < history.rollout(number).confirm_wait_s() < whole.total_seconds()


def test_what_is_read_together_is_of_one_instant(directory: Path) -> None:
    with state.opened(directory) as (store, history), history._place.reading() as rows:
        before = rows.rows("SELECT key, value FROM meta")
        note(store, "written meanwhile")
        begin(history).close()
        assert rows.rows("SELECT key, value FROM meta") == before
        assert rows.rows("SELECT number FROM rollout") == []


def test_names_come_in_the_order_that_they_have_in_a_file(store: Store) -> None:
    for cuc in ("b", "A", "a", "B"):
        with store.deciding(ITSELF, "stream.put", "") as made:
            made.put_stream(StreamRecord(cuc, "1", cuc, {}, State.PLANNED, True, made.number))
    assert [its.cuc for its in store.streams()] == ["A", "B", "a", "b"]


def test_two_networks_have_a_schema_each_of_one_database(
    postgresql: Cluster, database: str
) -> None:
    for network in ("one", "two"):
        name = url_of(database).database
        postgresql.sql(f"CREATE SCHEMA {network} AUTHORIZATION cnc", name)
    stores = [
        Store(Database(url_of(f"{database}&options=-csearch_path%3D{network}")))
        for network in ("one", "two")
    ]
    with stores[0].deciding(ITSELF, "x", "") as made:
        made.note("value", "of one")
        note(stores[1], "of two")  # does not wait
    assert [its.noted("value") for its in stores] == ["of one", "of two"]
    for its in stores:
        its.close()


# --- not its own -----------------------------------------------------------------------------


def test_a_newer_schema_is_refused_at_the_start_and_by_who_runs_already(
    store: Store, postgresql: Cluster, database: str
) -> None:
    newer = VERSION + 1
    set_version(postgresql, database, "version", newer)
    with pytest.raises(CncError, match=f"a newer cnc wrote this store .version {newer},"):
        Database(url_of(database))
    with pytest.raises(CallRefused, match="a newer cnc wrote this store"):
        note(store, "x")
    set_version(postgresql, database, "version", VERSION)
    set_version(postgresql, database, "history-version", 99)
    with pytest.raises(CncError, match=r"a newer cnc wrote this store \(version 99,"):
        Database(url_of(database))


def test_a_database_that_cannot_be_opened_is_named_with_its_reason(
    database: str, postgresql: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CncError, match=r'cannot be opened: .*database "none" does not exist'):
        Database(url_of(database).set(database="none"))
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    with pytest.raises(CncError, match=r"cannot be opened: .*no password supplied"):
        Database(url_of(database))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://cnc@db/cell", "not the URL of a PostgreSQL database"),
        ("sqlite:///x", "not the URL of a PostgreSQL database"),
        ("db.example", "not the URL of a PostgreSQL database"),
        ("postgresql://cnc:secret@db/cell", "has a password in it"),
        ("postgresql://cnc@db/cell?password=secret", "has a password in it"),
    ],
)
def test_a_url_is_refused_before_anything_is_written(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        state.note_database(tmp_path, url)
    assert ("secret" in str(error.value)) is ("secret" in url and "PostgreSQL" in said)
    assert not list(tmp_path.iterdir())


def test_a_directory_has_its_state_in_one_place(directory: Path, database: str) -> None:
    assert stat.S_IMODE((directory / DATABASE).stat().st_mode) == 0o600
    with pytest.raises(InputError, match="the state of this service is in postgresql"):
        state.note_database(directory, None)
    state.note_database(directory, database)
    (directory / DATABASE).unlink()
    with state.opened(directory):
        pass
    with pytest.raises(InputError, match=r"the state of this service is in service.sqlite"):
        state.note_database(directory, database)


def test_every_decision_is_synchronous_whatever_the_role_has(
    postgresql: Cluster, database: str
) -> None:
    name = url_of(database).database
    postgresql.sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
    its = Database(url_of(database))
    with its.writing() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    its.close()


def test_a_server_that_does_not_write_to_its_disk_is_refused(
    postgresql: Cluster, database: str
) -> None:
    postgresql.stop()
    postgresql.start("-c", "fsync=off")
    try:
        with pytest.raises(CncError, match="has fsync off"):
            Database(url_of(database))
    finally:
        postgresql.stop()
        postgresql.start()
