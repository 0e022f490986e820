"""A lab, a database and two controllers, of which the leading one is to stop at a named moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from cnc import app, rollout
from cnc.rollout import Met
from cnc.service.names import plan_name
from cnc.service.refused import CallRefused, Code
from cnc.service.store import url_of
from cnc.switch import ConnectOptions
from tests.stack.controller_processes import (
    CUC,
    LIMIT_S,
    Controller,
    Controllers,
    controllers,
    line3,
    stream,
)
from tests.stack.lab_user import CHECKOUT, User
from tests.stack.netconfd_process import wait_until
from tests.stack.postgresql import PASSWORD, Cluster
from tests.stack.service_that_stops import MOMENTS

STOPPING = CHECKOUT / "tests/stack/service_that_stops.py"
# What decisions and rollouts have written; not the lease, which is renewed all the time.
WRITTEN = """
    SELECT 'audit', number::text, "call", outcome FROM audit
    UNION ALL SELECT 'event', number::text, kind, more FROM event
    UNION ALL SELECT 'meta', key, value, '' FROM meta WHERE key IN ('decided', 'running')
    UNION ALL SELECT 'row', section, key, value FROM plan_row
    UNION ALL SELECT 'stream', stream_id, state, decision::text FROM stream
    UNION ALL SELECT 'rollout', number::text, phase, detail FROM rollout
    UNION ALL SELECT 'change', rollout::text, switch, outcome FROM switch_change
    ORDER BY 1, 2, 3, 4
"""


# The number is that of the stream that brings the moment about.
at_each_moment = pytest.mark.parametrize(("number", "moment"), [*enumerate(MOMENTS, 1)])


class Network:
    """A lab with its switches, and a database."""

    def __init__(self, user: User, url: str) -> None:
        self.user, self.url = user, url
        where = url_of(url).set(password=PASSWORD)
        # A test may stop the server.
        self._engine = create_engine(where, isolation_level="AUTOCOMMIT", pool_pre_ping=True)
        intent = app.load_intent(line3(user.home))
        self.of_file = [*intent.streams]
        self._nodes = [*intent.network.managed.values()]
        self._connect = ConnectOptions(
            Path(user.keys["CNC_IDENTITY"]), Path(user.keys["CNC_KNOWN_HOSTS"]), 30.0
        )

    def asked(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """The rows that a statement finds."""
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement), values)]

    def number(self, statement: str, **values: object) -> int:
        """The one number that a statement finds, 0 where there is none."""
        ((found,),) = self.asked(statement, **values)
        return int(found or 0)

    def written(self) -> list[tuple[Any, ...]]:
        return self.asked(WRITTEN)

    def term(self) -> int:
        return self.number("SELECT max(term) FROM lease")

    def newest_rollout(self) -> int:
        return self.number("SELECT max(number) FROM rollout")

    def unfinished(self, *, upto: int | None = None) -> int:
        """How many rollouts have not ended, of those up to a number."""
        if upto is None:
            upto = self.newest_rollout()
        counted = "SELECT count(*) FROM rollout WHERE ended IS NULL AND number <= :upto"
        return self.number(counted, upto=upto)

    def is_quiet(self) -> bool:
        """Whether the switches run what is decided, and no rollout waits for its end."""
        # A rollout has ended before the lists that it brought begin to run, and is noted then.
        noted = dict(self.asked("SELECT key, value FROM meta WHERE key IN ('decided', 'running')"))
        runs = "running" in noted and noted["running"] == noted.get("decided")
        return runs and not self.unfinished()

    def met(self) -> dict[str, tuple[int, str]]:
        """The term that each switch keeps, and the id of the rollout that it runs."""
        found = {}
        for name, its in rollout.meet(self._nodes, connect=self._connect).items():
            assert isinstance(its, Met), its
            assert its.term, name
            assert its.rollout, name
            found[name] = its.term.term, its.rollout.id
        return found


@contextmanager
def rehearsed(home: Path, cluster: Cluster, tablespace: str = "pg_default") -> Iterator[Network]:
    """A lab in a directory, while the block runs, and a new database."""
    user = User(home)
    user.up(line3(home))
    user.keys["PGPASSFILE"] = str(cluster.passfile)
    try:
        yield Network(user, cluster.database(tablespace))
    finally:
        user.does("lab", "down")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, postgresql: Cluster) -> Iterator[Network]:
    with rehearsed(tmp_path_factory.mktemp("home"), postgresql) as its:
        yield its


@pytest.fixture(scope="module")
def two(network: Network) -> Iterator[Controllers]:
    with controllers(network.user, network.url) as its:
        yield its


class Asking(threading.Thread):
    """A request that is asked once, by a controller that may never answer."""

    def __init__(self, two: Controllers, its: Controller, number: int) -> None:
        super().__init__()
        self._two, self._its, self._number = two, its, number
        self.answer: Any = None
        self.refused: CallRefused | None = None
        self.start()

    def run(self) -> None:
        with self._its.client(self._two.token) as client:
            key = f"put {self._number}"
            try:
                self.answer = client.put_stream(CUC, stream(self._number), idempotency_key=key)
            except CallRefused as refused:
                self.refused = refused

    def ended(self) -> Any:
        """What was answered; None where nobody was there to answer."""
        self.join(LIMIT_S)
        assert not self.is_alive()
        assert self.refused is None or self.refused.code is Code.UNAVAILABLE, self.refused
        return self.answer


def standing_still(its: Controller) -> bool:
    return Path(f"/proc/{its.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def lead_with_fate(
    two: Controllers, network: Network, moment: str, how: str, number: int, *, after: int = 0
) -> tuple[Controller, Controller]:
    """The one that leads, which is to stop at a moment of this stream, `after` so many others of
    the kind; and the one that stands by, which knows all that is decided."""
    both_run(two)
    leader = two.leader()
    two.make_room(leader)
    assert wait_until(network.is_quiet, LIMIT_S), leader.log
    name = plan_name(CUC, stream(number)["stream-id"])
    fate_of(leader).write_text(f"{moment}\n{how}\n{name}\n{after}\n")
    return leader, two.other(leader)


def ask_with_fate(
    two: Controllers, network: Network, moment: str, how: str, number: int, *, after: int = 0
) -> tuple[Controller, Controller, Asking]:
    """As `lead_with_fate`, and the request for the stream, on its way to the one that leads."""
    leader, other = lead_with_fate(two, network, moment, how, number, after=after)
    return leader, other, Asking(two, leader, number)


def both_run(two: Controllers) -> None:
    """One of the two leads, whatever a test before has left of them, and none has a fate."""
    for its in (two.a, two.b):
        fate_of(its).unlink(missing_ok=True)
        if its.process and (its.process.poll() is not None or standing_still(its)):
            its.kill()
        if its.process is None:
            its.start(program=(STOPPING, fate_of(its), "cnc"))
    two.token = two.first_token()


def fate_of(its: Controller) -> Path:
    return its.directory / "fate"


def is_done_by(
    two: Controllers, network: Network, its: Controller, number: int, answered: Any = None
) -> None:
    """It leads by now, and the stream runs: accepted once, announced once."""
    assert wait_until(lambda: its.leads, LIMIT_S), its.log
    again = two.put(its, number)
    assert answered in (None, again)
    is_done(two, network, its, number)


def is_done(two: Controllers, network: Network, its: Controller, number: int) -> None:
    """The stream runs, announced once, as one of them says; and the switches agree about it."""
    two.until_configured(its, number)
    assert wait_until(network.is_quiet, LIMIT_S), f"{two.a.log}\n{two.b.log}"
    wanted = stream(number)["stream-id"]
    events = two.document(its, "events")["events"]
    kinds = [each["kind"] for each in events if each.get("stream_id") == wanted]
    assert kinds == ["stream-placed", "stream-configured"]
    told = Counter((its["stream_id"], its["kind"]) for its in events if "stream_id" in its)
    assert {*told.values()} == {1}, told  # of those before it nothing again
    assert {term for term, _ in network.met().values()} == {network.term()}
    assert all(port["agrees"] for port in two.status(its))
