"""A lab, a database and two controllers, of which one is to stop at a named moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cnc import app, rollout
from cnc.rollout import Met
from cnc.service.names import plan_name
from cnc.service.refused import CallRefused, Code
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
from tests.stack.postgresql import Cluster

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


class Network:
    """A lab, a database, and the two: `a` is what stops, `b` what goes on."""

    def __init__(self, user: User, cluster: Cluster) -> None:
        self.user, self._cluster = user, cluster
        self.url = cluster.database()
        intent = app.load_intent(line3(user.home))
        self.of_file = [*intent.streams]
        self._nodes = [*intent.network.managed.values()]
        self._connect = ConnectOptions(
            Path(user.keys["CNC_IDENTITY"]), Path(user.keys["CNC_KNOWN_HOSTS"]), 30.0
        )

    def asked(self, statement: str) -> str:
        return self._cluster.sql(statement, self.url.partition("@/")[2].partition("?")[0])

    def written(self) -> str:
        return self.asked(WRITTEN)

    def term(self) -> int:
        return int(self.asked("SELECT term FROM lease"))

    def is_quiet(self) -> bool:
        """Whether the switches run what is decided, and no rollout waits for its end."""
        noted = "SELECT count(DISTINCT value) FROM meta WHERE key IN ('decided', 'running')"
        unfinished = "SELECT count(*) FROM rollout WHERE ended IS NULL"
        return self.asked(noted) == "1" and self.asked(unfinished) == "0"

    def met(self) -> dict[str, tuple[int, str]]:
        """The term that each switch keeps, and the id of the rollout that it runs."""
        found = {}
        for name, its in rollout.meet(self._nodes, connect=self._connect).items():
            assert isinstance(its, Met), its
            assert its.term, name
            assert its.rollout, name
            found[name] = its.term.term, its.rollout.id
        return found


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, postgresql: Cluster) -> Iterator[Network]:
    user = User(tmp_path_factory.mktemp("home"))
    user.up(line3(user.home))
    user.keys["PGPASSFILE"] = str(postgresql.passfile)
    yield Network(user, postgresql)
    user.does("lab", "down")


@pytest.fixture(scope="module")
def two(network: Network) -> Iterator[Controllers]:
    with controllers(network.user, network.url) as its:
        its.b.start()
        assert wait_until((its.b.directory / "admin.token").exists, LIMIT_S), its.b.log
        its.token = its.b.token
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


def lead_with_fate(two: Controllers, network: Network, moment: str, how: str, number: int) -> None:
    """The first one leads, and is to stop at its moment; the second one stands by."""
    name = plan_name(CUC, stream(number)["stream-id"])
    if two.a.process:  # where a test has failed
        two.a.signal(signal.SIGCONT)
        two.a.kill()
    two.a.start(program=(STOPPING, moment, how, name, "cnc"))
    if two.b.process:
        assert two.b.stop() == 0, two.b.log
    assert wait_until(lambda: two.a.leads, LIMIT_S), two.a.log
    two.b.start()
    assert wait_until(network.is_quiet, LIMIT_S), two.a.log


def is_done_by_other(two: Controllers, network: Network, number: int, answered: Any) -> None:
    """The other one leads, and the stream runs: accepted once, announced once."""
    assert wait_until(lambda: two.b.leads, LIMIT_S), two.b.log
    again = two.put(two.b, number)
    assert answered in (None, again)
    is_done(two, network, two.b, number)


def is_done(two: Controllers, network: Network, its: Controller, number: int) -> None:
    """The stream runs, announced once, as one of them says; and the switches agree about it."""
    two.until_configured(its, number)
    assert wait_until(network.is_quiet, LIMIT_S), f"{two.a.log}\n{two.b.log}"
    wanted = stream(number)["stream-id"]
    events = two.document(its, "events")["events"]
    kinds = [each["kind"] for each in events if each.get("stream_id") == wanted]
    assert kinds == ["stream-placed", "stream-configured"]
    assert {term for term, _ in network.met().values()} == {network.term()}
    assert all(port["agrees"] for port in two.status(its))
