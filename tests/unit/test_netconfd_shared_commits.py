"""Commits that wait for each other: what one copy of candidate answers, and what it does not."""

from __future__ import annotations

import asyncio

from agent.netconfd.broker.access import Account
from agent.netconfd.broker.confirmed_commit import Commits, Confirmation
from agent.netconfd.broker.sessions import Session, Sessions
from agent.netconfd.errors import RpcError
from tests.unit.test_netconfd_confirm_timer import KeptSnapshot, NoEvents

TIMEOUT_S = 20


class Datastores:
    """Candidate and running as one value each; `fails` are raised by copies, in this order."""

    def __init__(self):
        self.candidate = self.running = "before"
        self.copies = 0
        self.fails = []

    def snapshot(self):
        return self.running

    def copy(self, source, target):
        self.copies += 1
        if self.fails:
            raise self.fails.pop(0)
        setattr(self, target, getattr(self, source))


class SlowSession(Session):
    """A session whose blocking calls return only when `release` is set."""

    release: asyncio.Event

    async def call(self, function, *args, **kwargs):
        returned = function(*args, **kwargs)
        await self.release.wait()
        return returned


class Server:
    """The commits of a server; `release` lets the blocking calls of its sessions return."""

    def __init__(self):
        self.datastores = Datastores()
        self.snapshot = KeptSnapshot()
        self.release = asyncio.Event()
        self.commits = Commits(
            self.snapshot, Sessions(connection=None), self.session(0), NoEvents()
        )

    def session(self, number):
        session = SlowSession(number, Account("operator"), "::1", self.datastores, lambda: None)
        session.release = self.release
        return session

    async def send_commit(self, number, confirmation=None, persist_id=None):
        """Send a commit from a session of its own; the task ends when it is answered."""
        commit = self.commits.commit(self.session(number), confirmation, persist_id)
        task = asyncio.create_task(commit)
        await asyncio.sleep(0)
        return task

    async def answers(self, *tasks):
        """What each commit was answered: None for ok, else the error."""
        self.release.set()
        async with asyncio.timeout(TIMEOUT_S):
            return await asyncio.gather(*tasks, return_exceptions=True)


def on_server(course):
    """Run a coroutine function with a server, and return what it returns."""

    async def run():
        return await course(Server())

    return asyncio.run(run())


def test_one_copy_answers_all_commits_that_wait_when_it_begins():
    async def course(server):
        tasks = [await server.send_commit(number) for number in range(1, 101)]
        return await server.answers(*tasks), server.datastores.copies

    answers, copies = on_server(course)
    assert answers == [None] * 100
    assert copies == 2  # that of the first, and one for the 99 that it was too early for


def test_an_edit_made_while_a_copy_runs_is_committed_by_the_next():
    async def course(server):
        first = await server.send_commit(1)
        server.datastores.candidate = "after"
        second = await server.send_commit(2)
        assert server.datastores.running == "before"
        return await server.answers(first, second), server.datastores.running

    assert on_server(course) == ([None, None], "after")


def test_a_commit_that_comes_after_a_copy_is_copied_anew():
    async def course(server):
        await server.answers(await server.send_commit(1), await server.send_commit(2))
        server.datastores.candidate = "after"
        return await server.answers(await server.send_commit(3)), server.datastores.running

    assert on_server(course) == ([None], "after")


def test_a_refused_copy_answers_its_own_commit_only():
    async def course(server):
        refusal = RpcError("access-denied", "no")
        first = await server.send_commit(1)
        server.datastores.fails = [refusal]
        waiting = [await server.send_commit(number) for number in (2, 3, 4)]
        answers = await server.answers(first, *waiting)
        return answers == [None, refusal, None, None], server.datastores.copies

    assert on_server(course) == (True, 3)


def test_a_commit_that_waited_does_not_confirm_that_of_another():
    async def course(server):
        tasks = [
            await server.send_commit(1),
            await server.send_commit(2),
            await server.send_commit(3, Confirmation(600)),
            await server.send_commit(4),
        ]
        *others, fourth = await server.answers(*tasks)
        return others, fourth.tag, server.commits.pending_owner.number

    assert on_server(course) == ([None, None, None], "in-use", 3)


def test_a_confirmation_that_waited_for_copies_of_others_confirms():
    async def course(server):
        tasks = [
            await server.send_commit(1),
            await server.send_commit(2),
            await server.send_commit(3, Confirmation(600, persist="rollout-7")),
            await server.send_commit(4, persist_id="rollout-7"),
        ]
        answers = await server.answers(*tasks)
        return answers, server.commits.pending_owner, server.snapshot.config

    assert on_server(course) == ([None] * 4, None, None)
