"""A kernel that is broken or hostile ends the run with its name and the reason, without a hang."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.virtual_kernel import (
    BUFFER_OCTETS,
    CALL_CHANNEL,
    GET_CONFIG,
    GUEST_ADDRESS,
    HEADER,
    KICK,
    MEMORY_OCTETS,
    MESSAGE,
    NEXT,
    RING_ENABLE,
    RING_PLACE,
    RING_SIZE,
    RING_SLOTS,
    SET_FEATURES,
    SET_MEMORY,
    VERSION,
    WAIT,
    WRITE,
    Device,
    Kernel,
    attach,
    connect,
    virtual_network,
)

NETWORK = (
    "kernel 0 good",
    "kernel 1 bad",
    "card good/p 02:00:00:00:00:01 {}/good",
    "card bad/p 02:00:00:00:00:02 {}/bad",
    "cable good/p bad/p rate=1000000000 propagation=1000",
)
BROADCAST = 9


def reason_of_death(misbehave: Callable[[Kernel, Device], None], options: str = "") -> str:
    """What the run says when a kernel that has its turn, and a card, does this."""
    with virtual_network(*NETWORK, options=options) as network:
        assert network.event() == ["ready"]
        good, bad = Kernel(network, 0), Kernel(network, 1)
        assert network.event() == ["started", "0"]
        network.order("go")
        good.started()
        good.waits(50_000)
        bad.started()
        device = attach(bad, network.directory / "bad")
        misbehave(bad, device)
        died = network.event()
        assert died[:2] == ["dead", "bad"]
        assert network.ends() == 1
        return died[3]


def asks_the_unknown(kernel: Kernel, _: Device) -> None:
    kernel.time.sendall(MESSAGE.pack(BROADCAST, 2, 0))


def stops_in_a_message(kernel: Kernel, _: Device) -> None:
    kernel.time.sendall(b"\1\2\3")
    kernel.time.shutdown(1)


def closes(kernel: Kernel, _: Device) -> None:
    kernel.time.close()


def wants_the_past(kernel: Kernel, _: Device) -> None:
    kernel.now_ns = 40_000
    kernel.waits(39_999)


def turns_time_back(kernel: Kernel, _: Device) -> None:
    kernel.waits(1000)
    assert kernel.runs() == 1000
    kernel.now_ns = 999
    kernel.waits(2000)


def oversteps_its_turn(kernel: Kernel, _: Device) -> None:
    kernel.now_ns = kernel.free_until_ns + 1
    kernel.waits(60_000)


def speaks_out_of_turn(kernel: Kernel, _: Device) -> None:
    kernel.waits(60_000)
    kernel.time.sendall(MESSAGE.pack(WAIT, 3, 0))


def kicks_out_of_turn(kernel: Kernel, device: Device) -> None:
    kernel.waits(60_000)
    while kernel.has_its_turn:
        time.sleep(0.001)
    device.send(KICK, struct.pack("=II", 1, 0))


@pytest.mark.parametrize(
    ("misbehave", "reason"),
    [
        (asks_the_unknown, "sent the calendar an operation 9, which it does not take"),
        (stops_in_a_message, "stopped in a message to the calendar"),
        (closes, "has ended"),
        (wants_the_past, "wants a turn in the past"),
        (turns_time_back, "set the time to 999, which was not in its turn"),
        (oversteps_its_turn, "set the time to 50001, which was not in its turn"),
        (speaks_out_of_turn, "spoke to the calendar when it was not its turn"),
        (kicks_out_of_turn, "spoke to bad/p when it was not its turn"),
    ],
)
def test_who_breaks_the_protocol_of_time_ends_the_run(misbehave, reason):
    assert reason_of_death(misbehave) == reason


def says_nothing(_: Kernel, __: Device) -> None:
    pass


def answers_no_interrupt(kernel: Kernel, device: Device) -> None:
    device.put_frame(100)
    kernel.sleeps()


def gives_no_socket_for_calls(kernel: Kernel, device: Device) -> None:
    with Path(os.devnull).open() as file:
        device.asks(CALL_CHANNEL, b"", (file.fileno(),))
    device.put_frame(100)
    kernel.sleeps()


def stops_in_a_message_of_the_card(_: Kernel, device: Device) -> None:
    device.socket.sendall(HEADER.pack(SET_FEATURES, VERSION, 8))


@pytest.mark.parametrize(
    ("misbehave", "reason"),
    [
        (says_nothing, "has not given its turn back for 1 s"),
        (answers_no_interrupt, "stopped in a message about bad/p"),
        (gives_no_socket_for_calls, "takes no message about bad/p: Socket operation on non-socket"),
        (stops_in_a_message_of_the_card, "stopped in a message about bad/p"),
    ],
)
def test_who_never_answers_ends_the_run(misbehave, reason):
    assert reason_of_death(misbehave, options="answer-timeout=1") == reason


@pytest.mark.parametrize(
    ("request_", "content", "reason"),
    [
        (99, b"", "sent bad/p a message 99, which is not known"),
        (RING_SIZE, b"\0\0\0\0", "sent bad/p a message 8 that is too short"),
        (RING_SIZE, struct.pack("=II", 0, 3), "wants a ring of 3 for bad/p"),
        (RING_SIZE, struct.pack("=II", 0, 2048), "wants a ring of 2048 for bad/p"),
        (RING_ENABLE, struct.pack("=II", 2, 1), "named queue 2 of bad/p, which has 2"),
        (KICK, struct.pack("=II", 7, 0), "named queue 7 of bad/p, which has 2"),
        (SET_FEATURES, bytes(8), "speaks no virtio 1 with bad/p"),
        (SET_MEMORY, struct.pack("=II", 9, 0), "told bad/p of 9 regions of memory with 0 files"),
        (SET_MEMORY, struct.pack("=II", 1, 0), "told bad/p of 1 regions of memory with 0 files"),
        (GET_CONFIG, struct.pack("=III", 4, 8, 0), "asked bad/p wrongly for its configuration"),
        (CALL_CHANNEL, b"", "gave bad/p no channel for calls"),
        (SET_FEATURES, bytes(2000), "sent bad/p what is no message of vhost-user"),
    ],
)
def test_a_wrong_message_to_a_card_ends_the_run(request_, content, reason):
    assert reason_of_death(lambda _, device: device.send(request_, content)) == reason


def places_a_ring_outside(_: Kernel, device: Device) -> None:
    end = GUEST_ADDRESS + MEMORY_OCTETS
    ring = struct.pack("=IIQQQQ", 0, 0, end - 16, GUEST_ADDRESS, GUEST_ADDRESS, 0)
    device.send(RING_PLACE, ring)


def places_a_ring_askew(_: Kernel, device: Device) -> None:
    places = (GUEST_ADDRESS + 1, GUEST_ADDRESS, GUEST_ADDRESS)
    device.send(RING_PLACE, struct.pack("=IIQQQQ", 0, 0, *places, 0))


def has_memory_beyond_its_file(_: Kernel, device: Device) -> None:
    region = struct.pack("=IIQQQQ", 1, 0, GUEST_ADDRESS, MEMORY_OCTETS + 1, GUEST_ADDRESS, 0)
    device.send(SET_MEMORY, region, (device.memory_fd,))


def has_memory_that_wraps_around(_: Kernel, device: Device) -> None:
    region = struct.pack("=IIQQQQ", 1, 0, 0, 2**64 - 1, 0, 4096)
    device.send(SET_MEMORY, region, (device.memory_fd,))


def kick(device: Device) -> None:
    device.send(KICK, struct.pack("=II", 1, 0))


def sends_from_outside(_: Kernel, device: Device) -> None:
    device.offer(device.queues[1], (GUEST_ADDRESS + MEMORY_OCTETS - 1, 2, 0))
    kick(device)


def offers_too_many(_: Kernel, device: Device) -> None:
    device.write(device.queues[1].available + 2, "=H", RING_SLOTS + 1)
    kick(device)


def names_a_buffer_outside_the_ring(_: Kernel, device: Device) -> None:
    device.write(device.queues[1].available + 4, "=H", RING_SLOTS)
    device.write(device.queues[1].available + 2, "=H", 1)
    kick(device)


def chains_without_end(_: Kernel, device: Device) -> None:
    device.offer(device.queues[1], (GUEST_ADDRESS, 1, NEXT))
    device.write(device.queues[1].start + 14, "=H", 0)
    kick(device)


def uses_what_was_not_offered(_: Kernel, device: Device) -> None:
    device.offer(device.queues[1], (GUEST_ADDRESS, 64, 4))
    kick(device)


def sends_a_frame_that_is_too_long(_: Kernel, device: Device) -> None:
    device.offer(device.queues[1], (GUEST_ADDRESS, 9240 + 12 + 1, 0))
    kick(device)


def sends_less_than_a_frame(_: Kernel, device: Device) -> None:
    device.offer(device.queues[1], (GUEST_ADDRESS, 25, 0))
    kick(device)


def sends_what_it_asks_to_be_written(_: Kernel, device: Device) -> None:
    device.offer(device.queues[1], (GUEST_ADDRESS, BUFFER_OCTETS, WRITE))
    kick(device)


def takes_its_memory_away(_: Kernel, device: Device) -> None:
    os.ftruncate(device.memory_fd, 0)
    kick(device)


@pytest.mark.parametrize(
    ("misbehave", "reason"),
    [
        (places_a_ring_outside, "gave its device an address outside its memory: 0x100ffff0"),
        (places_a_ring_askew, "placed a ring wrongly"),
        (has_memory_beyond_its_file, "told bad/p of memory beyond its file"),
        (has_memory_that_wraps_around, "told bad/p of memory beyond its file"),
        (sends_from_outside, "gave its device an address outside its memory: 0x100fffff"),
        (offers_too_many, "offered 17 buffers in a ring of 16"),
        (
            names_a_buffer_outside_the_ring,
            "has a chain of descriptors that leaves its ring or never ends",
        ),
        (chains_without_end, "has a chain of descriptors that leaves its ring or never ends"),
        (uses_what_was_not_offered, "used a descriptor flag that was not offered: 4"),
        (sends_a_frame_that_is_too_long, "sent a frame of more than 9240 octets through bad/p"),
        (sends_less_than_a_frame, "sent less than a frame through bad/p"),
        (sends_what_it_asks_to_be_written, "sent less than a frame through bad/p"),
        (takes_its_memory_away, "took away memory that its devices use"),
    ],
)
def test_memory_and_rings_that_cannot_be_end_the_run(misbehave, reason):
    assert reason_of_death(misbehave) == reason


def test_a_kernel_that_does_not_come_ends_the_run():
    with virtual_network(*NETWORK, options="answer-timeout=1") as network:
        assert network.event() == ["ready"]
        good = Kernel(network, 0)
        assert network.event()[:2] == ["dead", "bad"]
        assert network.ends() == 1
        good.time.close()


@pytest.mark.parametrize(
    "message", [b"GET / HTTP/1.1\r\n\r\n", MESSAGE.pack(1, 1, 2), MESSAGE.pack(WAIT, 1, 0)]
)
def test_a_stranger_at_the_calendar_ends_the_run(message):
    with virtual_network(*NETWORK) as network:
        assert network.event() == ["ready"]
        stranger = connect(network.directory / "time")
        stranger.sendall(message)
        assert network.event()[3].startswith("somebody connected to the calendar who is no kernel")
        assert network.ends() == 1


def test_a_kernel_that_comes_twice_ends_the_run():
    with virtual_network(*NETWORK) as network:
        assert network.event() == ["ready"]
        first, second = Kernel(network, 0), Kernel(network, 0)
        assert network.event() == ["dead", "good", "0", "connected to the calendar twice"]
        first.time.close()
        second.time.close()
