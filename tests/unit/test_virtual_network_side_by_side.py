"""Before cables are plugged in kernels run side by side, and each sees what it would alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.virtual_kernel import Device, Kernel, VirtualNetwork, attach, virtual_network

PLUGGED_IN_NS = 20_000
OPTIONS = f"cables-from={PLUGGED_IN_NS}"
FRAME_OCTETS = 100
SENDING_NS = 992  # (100 + 24 octets) at 1 Gb/s
ARRIVAL_NS = SENDING_NS + 1000
KERNELS = ("kernel 0 a", "kernel 1 b")
CARDS = ("card a/p 02:00:00:00:00:01 {}/a", "card b/p 02:00:00:00:00:02 {}/b")
CABLE = "cable a/p b/p rate=1000000000 propagation=1000"


def connected(network: VirtualNetwork, count: int) -> list[Kernel]:
    """So many kernels, whose turns the network may begin."""
    assert network.event() == ["ready"]
    kernels = [Kernel(network, number) for number in range(count)]
    assert network.event() == ["started", "0"]
    network.order("go")
    return kernels


def two_cards(network: VirtualNetwork) -> tuple[Device, Device]:
    """The cards of two kernels at the ends of a cable; they want turns at 10 µs and 15 µs."""
    devices = []
    for kernel in connected(network, 2):
        kernel.started()
        devices.append(attach(kernel, network.directory / "ab"[kernel.number]))
        kernel.waits(10_000 + 5000 * kernel.number)
    return devices[0], devices[1]


@contextmanager
def processors(count: int) -> Iterator[None]:
    """What is started here may use so many."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(ours)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


@pytest.mark.parametrize("count", range(1, 1 + min(2, len(os.sched_getaffinity(0)))))
def test_as_many_kernels_run_at_once_as_there_are_processors(count):
    with processors(count), virtual_network(*KERNELS, "kernel 2 c", options=OPTIONS) as network:
        kernels = connected(network, 3)
        for kernel in kernels[:count]:
            kernel.started()
        waiting = kernels[count]
        waiting.time.settimeout(0.2)
        with pytest.raises(TimeoutError):
            waiting.time.recv(1)
        kernels[0].sleeps()
        waiting.time.settimeout(20)
        waiting.started()


def test_no_kernel_waits_for_another_until_the_cables_are_plugged_in():
    with virtual_network(*KERNELS, options=OPTIONS) as network:
        a, b = connected(network, 2)
        for kernel, until_ns in ((a, 3000), (b, 9000)):
            kernel.started()
            kernel.waits(until_ns)
        assert (a.runs(), a.free_until_ns) == (3000, PLUGGED_IN_NS)
        a.waits(30_000)
        assert (b.runs(), b.free_until_ns) == (9000, PLUGGED_IN_NS)
        b.waits(40_000)
        assert (a.runs(), a.free_until_ns) == (30_000, 40_000), "now they take turns"


def test_the_true_clocks_are_read_when_no_kernel_is_beyond_the_instant():
    sampled = "offsets {}/offsets.csv 5000"
    with virtual_network(*KERNELS, sampled, options=OPTIONS) as network:
        a, b = connected(network, 2)
        for kernel in (a, b):
            kernel.started()
            assert kernel.free_until_ns == 5000
            kernel.waits(5000)
        assert (a.runs(), a.free_until_ns) == (5000, 10_000)


def test_a_frame_before_the_cables_are_plugged_in_leaves_and_does_not_arrive():
    with virtual_network(*KERNELS, *CARDS, CABLE, options=OPTIONS) as network:
        a, b = two_cards(network)
        b.can_take()
        b.kernel.runs()
        b.kernel.sleeps()
        a.kernel.runs()
        a.put_frame(FRAME_OCTETS)
        a.kernel.waits(30_000)
        assert a.interrupted() == 1
        a.kernel.runs()
        a.kernel.waits(30_000)
        assert a.kernel.runs() == 30_000
        a.put_frame(FRAME_OCTETS)
        a.kernel.sleeps()
        a.interrupted()
        a.kernel.runs()
        a.kernel.sleeps()
        assert b.interrupted() == 0
        assert b.kernel.runs() == 30_000 + ARRIVAL_NS, "the first one has not come"


def test_a_card_is_served_at_its_instant_though_another_kernel_is_ahead():
    with virtual_network(*KERNELS, *CARDS, CABLE, options=OPTIONS) as network:
        a, b = two_cards(network)
        assert b.kernel.runs() == 15_000
        b.kernel.waits(18_000)
        assert a.kernel.runs() == 10_000
        a.put_frame(FRAME_OCTETS)
        assert a.kernel.free_until_ns == 10_000 + SENDING_NS
        a.kernel.waits(16_000)
        assert a.interrupted() == 1
        assert a.kernel.runs() == 10_000 + SENDING_NS
        assert b.kernel.runs() == 18_000


def test_what_the_host_sends_comes_at_the_instant_of_what_it_answers():
    with virtual_network(*KERNELS, "console a {}/a", options=OPTIONS) as network:
        a, b = connected(network, 2)
        a.started()
        console = attach(a, network.directory / "a")
        console.can_take()
        a.waits(4000)
        b.started()
        b.waits(9000)
        a.runs()
        console.put(b"ready\n")
        a.waits(4001)
        assert b.runs() == 9000
        b.waits(10_000)
        assert network.event() == ["octets", "a", "4000", b"ready\n".hex()]
        network.order("send a " + b"go".hex())
        network.order("go")
        assert console.interrupted() == 0
        assert a.runs() == 4000


def test_a_kernel_that_goes_beyond_the_plugging_in_ends_the_run():
    with virtual_network(*KERNELS, options=OPTIONS) as network:
        a, b = connected(network, 2)
        a.started()
        b.started()
        b.sleeps()
        a.now_ns = PLUGGED_IN_NS + 1
        a.waits(PLUGGED_IN_NS + 2)
        reason = f"set the time to {PLUGGED_IN_NS + 1}, which was not in its turn"
        assert network.event() == ["dead", "a", "0", reason]
        assert network.ends() == 1
