"""When an unconfirmed commit is undone, on a clock that moves only while the server waits."""

from __future__ import annotations

import asyncio
import selectors

import pytest
import sysrepo

from agent.netconfd.broker.access import Account
from agent.netconfd.broker.confirmed_commit import RETRY_S, Commits, Confirmation
from agent.netconfd.broker.sessions import Session, Sessions
from agent.netconfd.errors import RpcError


class Clock(selectors.SelectSelector):
    """A selector that skips every wait; `now_s` is what the waits would have come to."""

    now_s = 1000.0

    def select(self, timeout=None):
        self.now_s += timeout or 0.0
        return super().select(0)


class Datastores:
    """Takes `takes_s` for each commit and fails with `fails`, in this order, then works."""

    def __init__(self, clock):
        self.clock = clock
        self.takes_s = 0.0
        self.fails = []
        self.undone_s = []

    def snapshot(self):
        return "<before/>"

    def copy(self, source, target):
        self.clock.now_s += self.takes_s
        self._fail()

    def restore(self, snapshot):
        self._fail()
        self.undone_s.append(self.clock.now_s)

    def _fail(self):
        if self.fails:
            raise self.fails.pop(0)


class KeptSnapshot:
    """The way back, in memory."""

    config = None

    def write(self, config):
        self.config = config

    def remove(self):
        self.config = None


class InlineSession(Session):
    """A session whose blocking calls are made at once."""

    async def call(self, function, *args, **kwargs):
        return function(*args, **kwargs)


class NoEvents:
    def confirmed_commit(self, *_):
        pass


class Server:
    """The commits of a server with one session."""

    def __init__(self, clock):
        self.clock = clock
        self.datastores = Datastores(clock)
        self.kept = KeptSnapshot()
        self.session = self._session(1)
        sessions = Sessions(connection=None)
        self.commits = Commits(self.kept, sessions, self._session(0), NoEvents())

    def _session(self, number):
        account = Account("operator")
        return InlineSession(number, account, "localhost", self.datastores)

    async def commit(self, timeout_s, takes_s=0.0):
        self.datastores.takes_s = takes_s
        await self.commits.commit(self.session, Confirmation(timeout_s), None)

    async def undone_s(self, within_s=100):
        """Each time that a commit was undone within this wait, by the clock."""
        await asyncio.sleep(within_s)
        return self.datastores.undone_s


@pytest.fixture
def on_server():
    """Runs a coroutine function with a server, and returns what it returns."""
    clock = Clock()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.now_s
    yield lambda course: loop.run_until_complete(course(Server(clock)))
    loop.close()


def test_the_time_to_confirm_counts_from_the_receipt_of_the_commit(on_server):
    async def course(server):
        begun_s = server.clock.now_s
        await server.commit(timeout_s=3, takes_s=2.5)
        return [round(at_s - begun_s, 3) for at_s in await server.undone_s()]

    assert on_server(course) == [3.0]


def test_a_commit_that_waited_for_another_counts_from_its_receipt_too(on_server):
    async def course(server):
        begun_s = server.clock.now_s
        async with server.commits._lock:
            waiting = asyncio.create_task(server.commit(timeout_s=3))
            await asyncio.sleep(2)
        await waiting
        return [round(at_s - begun_s, 3) for at_s in await server.undone_s()]

    assert on_server(course) == [3.0]


def test_a_commit_that_took_longer_than_its_time_to_confirm_is_undone_at_once(on_server):
    async def course(server):
        await server.commit(timeout_s=3, takes_s=4)
        ended_s = server.clock.now_s
        return [round(at_s - ended_s, 3) for at_s in await server.undone_s()]

    assert on_server(course) == [0.0]


def test_an_extension_counts_from_its_own_receipt(on_server):
    async def course(server):
        await server.commit(timeout_s=3)
        await asyncio.sleep(2)
        extended_s = server.clock.now_s
        await server.commit(timeout_s=10, takes_s=2)
        return [round(at_s - extended_s, 3) for at_s in await server.undone_s()]

    assert on_server(course) == [10.0]


def test_an_extension_that_is_refused_leaves_the_first_time_to_confirm(on_server):
    async def course(server):
        begun_s = server.clock.now_s
        await server.commit(timeout_s=3)
        server.datastores.fails = [RpcError("operation-failed", "no")]
        with pytest.raises(RpcError):
            await server.commit(timeout_s=10, takes_s=1)
        return [round(at_s - begun_s, 3) for at_s in await server.undone_s()]

    assert on_server(course) == [3.0]


def test_an_undo_that_fails_inside_the_server_is_tried_again(on_server):
    async def course(server):
        begun_s = server.clock.now_s
        await server.commit(timeout_s=3)
        server.datastores.fails = [sysrepo.SysrepoInternalError("no"), RuntimeError("nor now")]
        undone_s = [round(at_s - begun_s, 3) for at_s in await server.undone_s()]
        return undone_s, server.kept.config, server.commits.pending_owner

    assert on_server(course) == ([3.0 + 2 * RETRY_S], None, None)


def test_a_commit_that_fails_inside_the_server_is_undone(on_server):
    async def course(server):
        server.datastores.fails = [sysrepo.SysrepoInternalError("no"), RuntimeError("nor now")]
        with pytest.raises(sysrepo.SysrepoError):
            await server.commit(timeout_s=3)
        begun_s = server.clock.now_s
        undone_s = [round(at_s - begun_s, 3) for at_s in await server.undone_s()]
        await server.commit(timeout_s=3)
        return undone_s

    assert on_server(course) == [RETRY_S]


def test_what_cannot_be_undone_at_the_end_does_not_keep_the_server_from_ending(on_server):
    async def course(server):
        await server.commit(timeout_s=3)
        server.datastores.fails = [sysrepo.SysrepoInternalError("no")]
        await server.commits.close()
        return server.kept.config

    assert on_server(course) == "<before/>"
