"""The store of a service, on a real file."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import app
from cnc.errors import CncError
from cnc.model import Plan
from cnc.service import state
from cnc.service.access import new_token
from cnc.service.admission import Admission
from cnc.service.calls import Role
from cnc.service.core import ITSELF
from cnc.service.refused import CallRefused, Code
from cnc.service.store import FILE_NAME, Decision, State, Store, StreamRecord, TokenRecord
from cnc.service.store.schema import VERSION

SCHEDULES = Path(__file__).resolve().parents[2] / "schedules"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with state.opened(tmp_path) as (opened, _):
        yield opened


def plan(name: str) -> Plan:
    return app.plan(app.load_intent(SCHEDULES / name))


def kept(store: Store, its: Plan) -> None:
    with store.deciding(ITSELF, "intent file", "") as made:
        made.replace_plan(its)


@pytest.mark.parametrize("name", ["line3.yaml", "bridged5.yaml", "guarded.yaml", "loop.yaml"])
def test_a_plan_comes_back_as_it_was(store, name):
    its = plan(name)
    kept(store, its)
    found = store.plan()
    assert found == its
    assert found.intent.document == its.intent.document
    assert app.dump_plan(found) == app.dump_plan(its)


def test_a_decision_writes_what_it_changed_and_the_plan_is_what_was_decided(store):
    its = plan("bridged5.yaml")
    kept(store, its)
    admission = Admission(its)
    names = [*its.streams][:2]
    keys = its.intent.document["streams"][names[0]]
    with (
        admission.changing({names[0]: {**keys, "payload": "100B"}}, [names[1]], "x") as change,
        store.deciding(ITSELF, "stream.put", "") as made,
    ):
        made.take_plan(change.before, change.plan, change.touched)
    assert store.plan() == change.plan == admission.plan


def test_nothing_of_a_decision_that_fails_is_kept(store):
    kept(store, plan("line3.yaml"))
    before = store.noted("decided"), store.audit(0, limit=10)
    with pytest.raises(TypeError), store.deciding(ITSELF, "x", "") as made:
        _write_half(made)
    assert (store.noted("decided"), store.audit(0, limit=10)) == before
    assert store.events(0, limit=10) == []


def _write_half(made: Decision) -> None:
    made.note("decided", "77")
    made.tell("stream-placed", "plc")
    made.tell("stream-placed", "plc", what=object())


def test_the_file_is_its_owners_alone_and_every_decision_is_synchronous(store, tmp_path):
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    with store.database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL


def test_a_newer_store_is_refused_by_name(tmp_path):
    Store(tmp_path / FILE_NAME).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(VERSION + 1),))
    with pytest.raises(CncError, match=f"a newer cnc wrote this store .version {VERSION + 1}"):
        Store(tmp_path / FILE_NAME)


def test_what_is_no_store_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / FILE_NAME
    path.write_text("not a database, but longer than the header of one " * 10)
    before = path.read_bytes()
    with pytest.raises(CncError, match="cannot be read as a store of the service"):
        Store(path)
    assert path.read_bytes() == before


def test_a_store_whose_creation_was_interrupted_is_created(tmp_path):
    (tmp_path / FILE_NAME).touch()
    store = Store(tmp_path / FILE_NAME)
    assert store.plan() is None
    store.close()


def test_a_store_of_before_ssh_keys_takes_them_and_keeps_its_tokens(tmp_path):
    def tokens() -> dict[str, str | None]:
        with state.opened(tmp_path) as (store, _):
            return {its.name: its.ssh_key for its in store.tokens()}

    def put(its: TokenRecord) -> None:
        with (
            state.opened(tmp_path) as (store, _),
            store.deciding(ITSELF, "token.add", its.name) as made,
        ):
            made.put_token(its)

    put(new_token("former", Role.VIEWER, None, None)[1])
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("DROP TABLE ssh_key")
    assert tokens() == {"former": None}
    its = new_token("plc-1", Role.VIEWER, None, None)[1]
    for key in ("ssh-ed25519 AAAA", "ssh-ed25519 BBBB", None):
        put(replace(its, ssh_key=key))
        assert tokens() == {"former": None, "plc-1": key}


def test_a_full_disk_refuses_the_decision_with_its_reason(store):
    with store.database.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(CallRefused, match="disk is full") as refused:
        kept(store, plan("bridged5.yaml"))
    assert refused.value.code is Code.UNAVAILABLE
    assert store.plan() is None


def test_what_switches_run_is_news_once_and_what_came_later_is_not_yet(store):
    records = {}
    for stream_id, of_stream, placed in (
        ("new", State.PLANNED, True),
        ("gone", State.REMOVING, False),
        ("waiting", State.PLANNED, False),
        ("later", State.MODIFIED, True),
    ):
        with store.deciding(ITSELF, "stream.put", "") as made:
            its = StreamRecord("plc", stream_id, stream_id, {}, of_stream, placed, made.number)
            made.put_stream(its)
            records[stream_id] = its
    with store.deciding(ITSELF, "rollout", "") as made:
        news = made.configured(records["waiting"].decision, 5)
    assert sorted(news) == [("plc", "gone", True), ("plc", "new", False)]
    configured = replace(records["new"], state=State.CONFIGURED, rollout=5)
    assert store.stream("plc", "new") == configured
    assert store.stream("plc", "gone") is None
    assert store.stream("plc", "waiting") == records["waiting"]
    assert store.stream("plc", "later") == records["later"]
