"""What the processes of the NETCONF server send each other, and what they do not believe."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack

import pytest

from agent.netconfd import wire
from agent.netconfd.wire import Fields, Message, ProtocolError, encode
from agent.sysrepo.instances import Step


def read(octets, max_body_octets=100):
    async def first():
        reader = asyncio.StreamReader()
        reader.feed_data(octets)
        reader.feed_eof()
        return await wire.read(reader, max_body_octets)

    return asyncio.run(first())


def test_what_is_sent_arrives():
    message = Message({"call": "lock", "target": "running"}, b"\0\xff")
    assert read(encode(message)) == message


@pytest.mark.parametrize("cut", [0, 3, 8, 12, -1])
def test_a_message_that_is_cut_off_is_the_end(cut):
    assert read(encode(Message({"call": "lock"}, b"body"))[:cut]) is None


def test_a_body_that_is_too_long_is_not_read():
    assert read(encode(Message({}, b"x" * 100))).body == b"x" * 100
    with pytest.raises(ProtocolError, match="101 octets"):
        read(encode(Message({}, b"x" * 101)))


def test_a_head_that_would_be_refused_is_not_sent():
    with pytest.raises(ProtocolError, match="of 262144 at most"):
        encode(Message({"call": "x" * wire.MAX_HEAD_OCTETS}))


@pytest.mark.parametrize("head", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 100_000])
def test_a_head_that_is_no_object_is_refused(head):
    with pytest.raises(ProtocolError):
        read(len(head).to_bytes(4, "big") + bytes(4) + head)


@pytest.mark.parametrize(
    ("take", "value"),
    [
        (Fields.text, 1),
        (Fields.text, None),
        (Fields.flag, 1),
        (Fields.number, -1),
        (Fields.number, 2**64),
        (Fields.number, True),
        (Fields.number, 1.0),
        (Fields.numbers, [1, "2"]),
        (Fields.instances, [[["name", [["key", 1]]]]]),
        (Fields.instances, [[["name"]]]),
        (Fields.instances, [[[1, []]]]),
        (Fields.instances, 7),
    ],
)
def test_a_member_of_another_type_is_refused(take, value):
    with pytest.raises(ProtocolError, match="member"):
        take(Fields({"member": value}), "member")


def test_paths_arrive_with_their_keys():
    path = (Step("a:list", (("k", "v"),)), Step("leaf"))
    (message,) = [read(encode(Message({"instances": [path]})))]
    assert Fields(message.head).instances("instances") == [path]


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_a_packet_brings_its_descriptor(pair):
    ours, theirs = pair
    reader, writer = os.pipe()
    wire.send_packet(ours, {"call": "open"}, [writer])
    os.close(writer)
    packet, (arrived,) = wire.receive_packet(theirs)
    assert packet == {"call": "open"}
    os.write(arrived, b"x")
    assert os.read(reader, 1) == b"x"
    os.close(arrived)
    os.close(reader)


@pytest.mark.parametrize("octets", [b"no object", b" " * wire.MAX_PACKET_OCTETS + b"{}"])
def test_the_descriptor_of_a_packet_that_is_refused_is_closed(pair, octets):
    ours, theirs = pair
    with ExitStack() as stack:
        reader, writer = os.pipe()
        stack.callback(os.close, reader)
        os.set_blocking(reader, False)
        socket.send_fds(ours, [octets], [writer])
        os.close(writer)
        with pytest.raises(ProtocolError):
            wire.receive_packet(theirs)
        # The end of the pipe: nobody has its other side open.
        assert os.read(reader, 1) == b""


def test_the_end_of_the_other_process_is_no_packet(pair):
    ours, theirs = pair
    ours.close()
    assert wire.receive_packet(theirs) is None
