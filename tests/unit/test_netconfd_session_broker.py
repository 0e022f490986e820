"""The broker as a session process sees it: each call gets its own answer."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from agent.netconfd import wire
from agent.netconfd.session.broker import Broker, Gone


class Other:
    """The broker's end of the socket."""

    async def connect(self, end):
        self._reader, self._writer = await asyncio.open_unix_connection(sock=end)

    async def taken(self):
        """The name of the next call."""
        message = await wire.read(self._reader, 1000)
        assert message is not None
        return message.head["call"]

    def answer(self, body=b"", **head):
        self._writer.write(wire.encode(wire.Message(head or {"reply": True}, body)))

    def close(self):
        self._writer.close()


def talk(conversation):
    """Run a conversation between the two ends."""

    async def main():
        ours, theirs = socket.socketpair()
        broker, other = Broker(), Other()
        await broker.connect(ours)
        await other.connect(theirs)
        try:
            await asyncio.wait_for(conversation(broker, other), 60)
        finally:
            other.close()
            await broker.close()

    asyncio.run(main())


def test_the_answer_to_a_call_that_nobody_waits_for_is_not_that_of_the_next():
    async def conversation(broker, other):
        first = asyncio.create_task(broker.call("first"))
        assert await other.taken() == "first"
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        second = asyncio.create_task(broker.call("second"))
        other.answer(b"of the first")
        assert await other.taken() == "second"
        other.answer(b"of the second")
        assert await second == b"of the second"

    talk(conversation)


def test_calls_at_the_same_time_are_made_one_after_the_other():
    async def conversation(broker, other):
        calls = [asyncio.create_task(broker.call(f"{n}")) for n in range(3)]
        for n in range(3):
            assert await other.taken() == f"{n}"
            # Whatever it has sent besides would be here by now.
            next_call = asyncio.create_task(other.taken())
            await asyncio.sleep(0.02)
            assert not next_call.done()
            next_call.cancel()
            with suppress(asyncio.CancelledError):
                await next_call
            other.answer(f"{n}".encode())
        assert await asyncio.gather(*calls) == [b"0", b"1", b"2"]

    talk(conversation)


def test_all_calls_end_with_the_broker():
    async def conversation(broker, other):
        calls = [asyncio.create_task(broker.call(f"{n}")) for n in range(3)]
        assert await other.taken() == "0"
        other.close()
        for call in calls:
            with pytest.raises(Gone):
                await call

    talk(conversation)


def test_changes_and_ends_of_subscriptions_are_no_answers():
    async def conversation(broker, other):
        told = []
        broker.on_change = told.append
        broker.on_subscription_end = lambda *of: told.append(of)
        call = asyncio.create_task(broker.call("anything"))
        await other.taken()
        other.answer(changed="running")
        other.answer(**{"ended-subscription": 7, "reason": "why"})
        other.answer(b"the answer")
        assert await call == b"the answer"
        assert told == ["running", (7, "why")]

    talk(conversation)
