"""When a subscription to a datastore sends what, without a server (RFC 8641)."""

from __future__ import annotations

import asyncio

import pytest

from agent.netconfd.errors import RpcError, RpcErrors
from agent.netconfd.session import push
from agent.netconfd.session.broker import OtherModules
from agent.netconfd.session.datastore import Part
from agent.netconfd.session.push import Push
from agent.netconfd.session.subscriptions import Subscriptions
from agent.netconfd.session.terms import OnChange, Periodic, Terms
from agent.sysrepo.differences import Edit

FIVE_MINUTES_CS = 30_000
MINUTE_NS = 60 * 10**9


class Publisher:
    """What is selected is a counter of the reads, and each differs from the one before."""

    def __init__(self):
        self.sent: asyncio.Queue[str] = asyncio.Queue()
        self.reads = 0
        self.fails = False

    async def read(self, _number, _terms):
        self.reads += 1
        if self.fails:
            raise RpcErrors([RpcError("operation-failed", "the agent does not answer")])

    def printed(self, _tree, _datastore):
        return f"<reads>{self.reads}</reads>"

    def packed(self, _tree):
        return b""

    def differences(self, _before, _after):
        return [Edit("replace", "/reads", f"<reads>{self.reads}</reads>")]

    async def publish(self, _number, notification, _time_ns):
        await self.sent.put(notification)


@pytest.fixture
def publisher():
    return Publisher()


def run_with(publisher, trigger, talk):
    """Let a subscription run while `talk` goes on."""

    async def main():
        subscription = Push(1, Terms("running", trigger), publisher)
        task = asyncio.create_task(subscription.run())
        try:
            await asyncio.wait_for(talk(subscription), 60)
        finally:
            task.cancel()

    asyncio.run(main())


async def let_run():
    """Whoever can run does."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_changes_within_the_dampening_period_are_not_read_until_the_client_asks(publisher):
    async def talk(subscription):
        assert "push-update" in await publisher.sent.get()
        for _ in range(3):
            subscription.changed()
            await let_run()
        assert publisher.reads == 1
        subscription.resync()
        assert "<reads>2</reads>" in await publisher.sent.get()

    run_with(publisher, OnChange(dampening_cs=FIVE_MINUTES_CS), talk)


def test_changes_while_the_client_is_slow_become_one_update(publisher):
    publisher.sent = asyncio.Queue(1)

    async def talk(subscription):
        for _ in range(100):
            subscription.changed()
            await let_run()
        # One is being read, one waits to be sent, and one fact waits: that there is more.
        assert publisher.reads <= 3
        while "<reads>3</reads>" not in await publisher.sent.get():
            pass

    run_with(publisher, OnChange(), talk)


def test_what_cannot_be_read_is_an_incomplete_update(publisher):
    publisher.fails = True

    async def talk(_subscription):
        assert "<incomplete-update/>" in await publisher.sent.get()

    run_with(publisher, Periodic(FIVE_MINUTES_CS), talk)


def test_a_change_that_cannot_be_read_is_read_again_later(publisher, monkeypatch):
    monkeypatch.setattr(push, "RETRY_S", 0.01)

    async def talk(subscription):
        await publisher.sent.get()
        publisher.fails = True
        subscription.changed()
        await _until(lambda: publisher.reads >= 3)
        publisher.fails = False
        assert "push-change-update" in await publisher.sent.get()

    run_with(publisher, OnChange(), talk)


def test_a_first_update_that_cannot_be_read_is_complete_later(publisher, monkeypatch):
    monkeypatch.setattr(push, "RETRY_S", 0.01)
    publisher.fails = True

    async def talk(_subscription):
        await _until(lambda: publisher.reads >= 2)
        publisher.fails = False
        assert "<push-update" in await publisher.sent.get()

    run_with(publisher, OnChange(), talk)


@pytest.mark.parametrize(
    ("now_ns", "left_s"),
    [(0, 300.0), (MINUTE_NS, 240.0), (299 * 10**9, 1.0), (-MINUTE_NS, 60.0)],
)
def test_updates_come_at_multiples_of_the_period_from_the_anchor_time(
    publisher, monkeypatch, now_ns, left_s
):
    anchor_ns = 1_750_000_000 * 10**9
    monkeypatch.setattr(push.time, "time_ns", lambda: anchor_ns + now_ns)
    slept = []

    async def sleep(delay_s):
        slept.append(delay_s)
        await asyncio.Event().wait()

    monkeypatch.setattr(push.asyncio, "sleep", sleep)

    async def talk(_subscription):
        await asyncio.wait_for(_until(lambda: slept), 10)

    run_with(publisher, Periodic(FIVE_MINUTES_CS, anchor_ns), talk)
    assert slept[0] == pytest.approx(left_s, abs=0.5)


def test_a_timer_that_is_a_little_early_sends_no_update_twice(publisher, monkeypatch):
    monkeypatch.setattr(push.time, "time_ns", lambda: 10 * MINUTE_NS - 1000)
    assert push._until_multiple_s(Periodic(FIVE_MINUTES_CS, 0)) == pytest.approx(300.0)


async def _until(condition):
    loop = asyncio.get_running_loop()
    while not condition():
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


class Broker:
    """Gives numbers, and knows other modules than the session does."""

    on_change = on_subscription_end = None

    async def call(self, _name, **_parameters):
        return b"7"

    def tell(self, _name, **_parameters):
        pass


class Datastores:
    """Of modules that change at the first read: the filter is valid no more."""

    has_changed = False

    @property
    def content_id(self):
        return int(self.has_changed)

    async def subscribed(self, *_arguments):
        Datastores.has_changed = True
        raise OtherModules

    def part(self, _filter):
        if self.has_changed:
            raise RpcError("invalid-value", "there is no such node")
        return Part("/door:doors", ())


def test_a_filter_that_the_new_modules_do_not_have_ends_the_subscription():
    sent = asyncio.Queue()

    async def reload_modules():
        pass

    async def main():
        all_ = Subscriptions(
            Broker(),
            Datastores,
            reload_modules,
            begin_request=lambda: None,
            send=lambda notification, _: sent.put(notification),
            is_admitted=lambda *_: True,
        )
        assert await all_.establish(Terms("running", Periodic(100))) == 7
        all_.start_new()
        assert "filter-unavailable" in await asyncio.wait_for(sent.get(), 60)
        await let_run()
        assert len(all_) == 0

    asyncio.run(main())


def test_an_update_that_fails_inside_the_server_ends_its_subscription_alone():
    sent = asyncio.Queue()

    class Full:
        content_id = 1

        def part(self, _filter):
            raise MemoryError

    async def nothing():
        pass

    async def main():
        all_ = Subscriptions(
            Broker(),
            Full,
            nothing,
            begin_request=lambda: None,
            send=lambda notification, _: sent.put(notification),
            is_admitted=lambda *_: True,
        )
        await all_.establish(Terms("running", Periodic(100)))
        all_.start_new()
        assert "subscription-terminated" in await asyncio.wait_for(sent.get(), 60)
        await let_run()
        assert len(all_) == 0

    asyncio.run(main())
