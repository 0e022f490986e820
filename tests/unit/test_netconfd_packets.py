"""What is wrong with one packet between the server's processes ends none of them."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest

from agent.netconfd import wire
from agent.netconfd.broker import control as broker_control
from agent.netconfd.front.control import BrokerGone, Control, Unanswered
from agent.netconfd.limits import Limits

# More than the socket of a peer that stands still takes: some 280.
MANY = 1500
# As many, and no more descriptors than a process may have.
FEW = 400
TIMEOUT_S = 30


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture(autouse=True)
def any_limits(monkeypatch):
    """Those that a broker begins with are not looked at."""
    monkeypatch.setattr(Limits, "from_json", lambda _json: None)


class Settings:
    """What a broker is asked for at each login."""

    limits_json: ClassVar[dict[str, int]] = {}
    clients = ()

    def keys_of(self, user):
        return "k" * wire.MAX_PACKET_OCTETS if user == "many keys" else f"key of {user}"


def broker_of(connection, open_session=None, modules=lambda: b"modules"):
    return broker_control.Control(connection, Settings(), open_session, modules)


@contextmanager
def no_descriptor_left():
    """This process gets none while this lasts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(os.devnull, os.O_RDONLY)
    os.close(highest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_front_outlives_a_broker_that_stands_still(pair):
    ours, theirs = pair

    async def main():
        front = Control(ours)
        asked = [asyncio.create_task(front.keys_of(f"user {n}")) for n in range(MANY)]
        await asyncio.sleep(0)
        assert not front.gone.done()
        broker = broker_of(theirs)
        async with asyncio.timeout(TIMEOUT_S):
            keys = await asyncio.gather(*asked)
        front.close()
        broker.close()
        return keys

    assert asyncio.run(main()) == [f"key of user {n}" for n in range(MANY)]


def test_a_broker_outlives_a_front_that_stands_still(pair):
    ours, theirs = pair

    async def main():
        broker = broker_of(theirs)
        for number in range(MANY):
            broker.end_session(number)
        assert not broker.has_ended
        ours.setblocking(False)
        ended = []
        async with asyncio.timeout(TIMEOUT_S):
            while len(ended) < MANY:
                try:
                    packet, _ = wire.receive_packet(ours)
                except BlockingIOError:
                    await asyncio.sleep(0)
                else:
                    ended += [packet["end"]] if "end" in packet else []
        broker.close()
        return ended

    assert asyncio.run(main()) == list(range(MANY))


def test_descriptors_that_wait_for_a_peer_may_be_closed_meanwhile(pair):
    ours, theirs = pair
    ours.setblocking(False)

    async def main():
        outbox = wire.Outbox(ours, pytest.fail)
        for number in range(FEW):
            reader, writer = os.pipe()
            os.write(writer, b"%d" % number)
            outbox.send({"number": number}, [reader])
            os.close(reader)
            os.close(writer)
        said = []
        async with asyncio.timeout(TIMEOUT_S):
            while len(said) < FEW:
                packet, (descriptor,) = await asyncio.to_thread(wire.receive_packet, theirs)
                said.append((packet["number"], int(os.read(descriptor, 10))))
                os.close(descriptor)
        outbox.close()
        return said

    assert asyncio.run(main()) == [(number, number) for number in range(FEW)]


def test_a_packet_whose_descriptor_does_not_fit_arrives_without_it(pair):
    ours, theirs = pair
    wire.send_packet(ours, {"first": 1}, [0])
    wire.send_packet(ours, {"second": 2}, [0])
    with no_descriptor_left():
        assert wire.receive_packet(theirs) == ({"first": 1}, [])
    packet, descriptors = wire.receive_packet(theirs)
    assert packet == {"second": 2}
    wire.close_all(descriptors)


def test_a_login_whose_descriptor_does_not_fit_is_refused_alone(pair):
    ours, theirs = pair

    async def open_session(user, _peer, end):
        end.close()
        return {"opened": 1}

    async def main():
        front, broker = Control(ours), broker_of(theirs, open_session)
        ends = socket.socketpair()
        with (
            no_descriptor_left(),
            pytest.raises(Unanswered, match="the broker has no descriptor left"),
        ):
            await front.open("operator", "192.0.2.1", ends[0])
        assert await front.open("operator", "192.0.2.1", ends[0]) == {"id": 2, "opened": 1}
        for each in (*ends, front, broker):
            each.close()

    asyncio.run(main())


def test_an_answer_that_is_too_long_and_one_that_fails_are_no_end_either(pair):
    ours, theirs = pair

    def modules():
        raise RuntimeError("sysrepo failed")

    async def main():
        front, broker = Control(ours), broker_of(theirs, modules=modules)
        with pytest.raises(Unanswered, match="Message too long"):
            await front.keys_of("many keys")
        with pytest.raises(Unanswered, match="Message too long"):
            await front.keys_of("u" * wire.MAX_PACKET_OCTETS)
        with pytest.raises(Unanswered, match="sysrepo failed"):
            await front.modules()
        assert await front.keys_of("operator") == "key of operator"
        broker.close()
        with pytest.raises(BrokerGone):
            await front.keys_of("operator")

    asyncio.run(main())
