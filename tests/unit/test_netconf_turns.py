"""How many sessions call into sysrepo at once, and who waits for whom."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from agent.netconfd.broker import sessions
from agent.netconfd.broker.access import Account

CALL_TIMEOUT_S = 20


@pytest.fixture
def opened(monkeypatch):
    """A function that opens sessions; what they call is no sysrepo."""
    datastores = SimpleNamespace(identify=lambda *_: None, close=lambda: None)
    monkeypatch.setattr(sessions, "Datastores", lambda *_: datastores)
    everybody = sessions.Sessions(connection=None)

    def open_(*, may_commit=False):
        account = Account("somebody")
        return everybody.open(account, "192.0.2.1", lambda: None, may_commit=may_commit)

    return open_


class Calls:
    """Calls that last until they are let go; counts how many there are at once."""

    def __init__(self):
        self.now = self.most = self.done = 0
        self._arrivals = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._let_go = threading.Event()

    def make(self):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self._arrivals.release()
        self._let_go.wait(CALL_TIMEOUT_S)
        with self._lock:
            self.now -= 1
            self.done += 1

    @contextmanager
    def made_by(self, sessions_):
        """They all call, and are let go at the end."""
        tasks = [asyncio.ensure_future(each.call(self.make)) for each in sessions_]
        yield tasks
        self._let_go.set()

    async def arrived(self, count):
        for _ in range(count):
            assert await asyncio.to_thread(self._arrivals.acquire, timeout=CALL_TIMEOUT_S)


def test_of_a_hundred_sessions_few_call_at_once_and_all_in_the_end(opened):
    calls = Calls()

    async def call_all():
        with calls.made_by([opened() for _ in range(100)]) as tasks:
            await calls.arrived(sessions.MAX_CALLS)
        await asyncio.gather(*tasks)

    asyncio.run(call_all())
    assert calls.done == 100
    assert calls.most == sessions.MAX_CALLS


@pytest.mark.parametrize("other", ["may commit", "holds a lock"])
def test_others_do_not_wait_for_those_who_only_read(opened, other):
    calls = Calls()

    async def call_all():
        third = opened(may_commit=other == "may commit")
        if other == "holds a lock":
            third.locks["running"] = third.login_time
        with calls.made_by([opened() for _ in range(100)]) as tasks:
            await calls.arrived(sessions.MAX_CALLS)
            async with asyncio.timeout(CALL_TIMEOUT_S):
                assert await third.call(lambda: "answer") == "answer"
            assert calls.done == 0
        await asyncio.gather(*tasks)

    asyncio.run(call_all())


def test_sessions_get_their_turn_in_the_order_they_asked(opened):
    calls = Calls()
    order = []

    async def call_all():
        with calls.made_by([opened() for _ in range(sessions.MAX_CALLS)]) as tasks:
            await calls.arrived(sessions.MAX_CALLS)
            late = [
                asyncio.ensure_future(opened().call(order.append, number)) for number in range(50)
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, *late)

    asyncio.run(call_all())
    # as many as call at once may overtake each other
    assert all(abs(place - number) <= sessions.MAX_CALLS for place, number in enumerate(order))
