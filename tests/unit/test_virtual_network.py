"""The program that gives many kernels their turns in one virtual time and carries their frames."""

from __future__ import annotations

import struct
from select import select

import pytest

from cnc.errors import CncError
from cnc.testbed.lab import virtual_network as virtual_network_package
from cnc.testbed.lab.virtual_network import program
from tests import pcapng_reader
from tests.unit.virtual_kernel import (
    NEVER,
    PLACE_OCTETS,
    SHARED_OCTETS,
    Device,
    Kernel,
    VirtualNetwork,
    attach,
    virtual_network,
)

FRAME_OCTETS = 100
# (100 + 24 octets) at 1 Gb/s, and 1 µs of cable.
SENDING_NS = 992
ARRIVAL_NS = SENDING_NS + 1000
TWO_KERNELS = ("kernel 0 a", "kernel 1 b")
CARDS = ("card a/p 02:00:00:00:00:01 {}/a", "card b/p 02:00:00:00:00:02 {}/b")
CAPTURES = ("capture /dev/null a/p", "capture /dev/null", "release /dev/null")
CABLE = "cable a/p b/p rate=1000000000 propagation=1000"


def two_kernels(network: VirtualNetwork) -> tuple[Kernel, Kernel]:
    """Both connected, asleep and without devices, time at 0."""
    assert network.event() == ["ready"]
    a, b = Kernel(network, 0), Kernel(network, 1)
    assert network.event() == ["started", "0"]
    network.order("go 1000")
    for kernel in (a, b):
        kernel.started()
        kernel.waits(1000)
    assert network.event() == ["reached", "1000"]
    return a, b


def two_cards(network: VirtualNetwork, *orders: str) -> tuple[Device, Device]:
    """The cards of two kernels at the ends of a cable; `a` has its turn, at 10 µs."""
    a, b = two_kernels(network)
    for order in orders:
        network.order(order)
    network.order("go")
    devices = []
    for kernel, name, until_ns in ((a, "a", 10_000), (b, "b", NEVER)):
        kernel.runs()
        devices.append(attach(kernel, network.directory / name))
        kernel.waits(until_ns)
    assert a.runs() == 10_000
    a.now_ns = 10_000
    return devices[0], devices[1]


def test_kernels_start_in_the_order_of_their_ids_however_they_connect():
    with virtual_network(*TWO_KERNELS) as network:
        assert network.event() == ["ready"]
        second = Kernel(network, 1)
        first = Kernel(network, 0)
        network.order("go")
        first.started()
        second.time.settimeout(0.2)
        with pytest.raises(TimeoutError):
            second.time.recv(1)
        first.sleeps()
        second.time.settimeout(20)
        second.started()


def test_of_two_kernels_at_one_instant_the_lower_id_is_first():
    with virtual_network(*TWO_KERNELS) as network:
        a, b = two_kernels(network)
        network.order("go")
        for kernel in (a, b):
            assert kernel.runs() == 1000
            kernel.waits(5000)
        assert a.runs() == 5000
        assert a.free_until_ns == 5000, "the other one wants this instant, too"
        a.sleeps()
        assert b.runs() == 5000


def test_a_kernel_runs_by_itself_up_to_the_next_instant_of_another():
    with virtual_network(*TWO_KERNELS) as network:
        a, b = two_kernels(network)
        network.order("go 70000")
        a.runs()
        a.waits(3000)
        b.runs()
        b.waits(9000)
        assert a.runs() == 3000
        assert a.free_until_ns == 9000
        a.sleeps()
        assert b.runs() == 9000
        assert b.free_until_ns == 70_000
        b.sleeps()
        assert network.event() == ["reached", "70000"]


def test_nobody_will_ever_wake():
    with virtual_network(*TWO_KERNELS) as network:
        a, b = two_kernels(network)
        network.order("go")
        for kernel in (a, b):
            kernel.runs()
            kernel.sleeps()
        assert network.event() == ["asleep", "1000"]


def test_a_frame_takes_its_length_at_the_rate_and_the_propagation_time():
    with virtual_network(*TWO_KERNELS, *CARDS, CABLE) as network:
        a, b = two_cards(network)
        b.can_take()
        a.put_frame(FRAME_OCTETS)
        a.kernel.sleeps()
        assert a.interrupted() == 1, "the buffer comes back when the frame has left"
        assert a.kernel.runs() == 10_000 + SENDING_NS
        a.kernel.sleeps()
        assert b.interrupted() == 0
        assert b.kernel.runs() == 10_000 + ARRIVAL_NS
        received = b.taken(b.queues[0])
        assert len(received) == 12 + FRAME_OCTETS
        assert received[12:19] == bytes(6) + b"\x02"


def test_a_card_sends_one_frame_after_the_other():
    with virtual_network(*TWO_KERNELS, *CARDS, CABLE) as network:
        a, b = two_cards(network)
        for _ in range(3):
            b.can_take()
            a.put_frame(FRAME_OCTETS)
        a.kernel.sleeps()
        arrivals = []
        for n in range(3):
            a.interrupted()
            a.kernel.runs()
            a.kernel.sleeps()
            if n:
                b.interrupted()
                arrivals.append(b.kernel.runs())
                b.kernel.sleeps()
        b.interrupted()
        arrivals.append(b.kernel.runs())
        assert arrivals == [10_000 + ARRIVAL_NS + n * SENDING_NS for n in range(3)]


def arrived(options: str, frames: int) -> dict[int, int]:
    """Which of so many frames come through a cable with these options, and how long each takes."""
    with virtual_network(*TWO_KERNELS, *CARDS, f"cable a/p b/p {options}") as network:
        a, b = two_cards(network)
        b.can_take()
        took_ns = {}
        for number in range(frames):
            sent_ns = a.kernel.now_ns
            a.put(bytes(12) + struct.pack("=I", number) + bytes(FRAME_OCTETS - 4))
            a.kernel.waits(sent_ns + 10_000)
            a.interrupted()
            a.kernel.runs()
            a.kernel.waits(sent_ns + 10_000)
            if b.calls in select([b.calls, a.kernel.time], [], [], 20)[0]:
                b.interrupted()
                at_ns = b.kernel.runs()
                b.can_take()
                b.kernel.sleeps()
                (received,) = struct.unpack_from("=I", b.taken(b.queues[0]), 12)
                took_ns[received] = at_ns - sent_ns
            a.kernel.now_ns = a.kernel.runs()
        return took_ns


def test_a_cable_loses_so_many_frames_and_the_same_ones_in_each_run():
    lossy = "rate=1000000000 propagation=1000 loss-ppb=300000000 seed="
    first = arrived(lossy + "7", 200)
    assert 120 <= len(first) <= 160, "30 % of 200 are lost"
    assert arrived(lossy + "7", 200) == first
    assert arrived(lossy + "8", 200) != first


def test_bit_errors_damage_as_many_frames_as_they_have_bits():
    # 992 bits: exp(-0.992) of the frames are whole.
    damaging = "rate=1000000000 propagation=1000 bit-error-ppt=1000000000 seed=1"
    assert 55 <= len(arrived(damaging, 200)) <= 92


def test_jitter_comes_from_the_seed_and_stays_within_its_bound():
    jittery = "rate=1000000000 propagation=1000 jitter=500 seed=3"
    took_ns = list(arrived(jittery, 50).values())
    assert len(took_ns) == 50
    assert all(ARRIVAL_NS <= each <= ARRIVAL_NS + 500 for each in took_ns)
    assert len(set(took_ns)) > 25
    assert list(arrived(jittery, 50).values()) == took_ns


def test_a_delay_by_a_pareto_distribution_comes_from_the_seed_and_has_a_tail():
    delayed = "rate=1000000000 propagation=1000 pareto=1000 seed=3"
    later_ns = [each - ARRIVAL_NS for each in arrived(delayed, 400).values()]
    assert len(later_ns) == 400
    assert 800 < sum(later_ns) / 400 < 1_200
    # Half of them take 2 (2^(1/3) - 1) of the mean, and none more than seven times.
    assert 400 < sorted(later_ns)[200] < 640
    assert 0 <= min(later_ns) < 20
    assert 3_000 < max(later_ns) <= 7_000
    assert [each - ARRIVAL_NS for each in arrived(delayed, 400).values()] == later_ns


def test_a_capture_has_each_frame_with_the_instant_its_sending_began_and_its_fate():
    cable = f"{CABLE} capture={{}}/cable.pcapng loss-ppb=1000000000"
    with virtual_network("clock 5000000000", *TWO_KERNELS, *CARDS, cable) as network:
        a, _ = two_cards(network)
        a.put_frame(FRAME_OCTETS)
        a.kernel.sleeps()
        a.interrupted()
        a.kernel.runs()
        a.kernel.sleeps()
        assert network.event()[0] == "asleep"
        network.process.communicate()
        capture = pcapng_reader.read((network.directory / "cable.pcapng").read_bytes())
    assert capture.ports == ["a/p", "b/p"]
    (frame,) = capture.frames
    assert (frame.port, frame.time_ns, frame.is_leaving) == ("a/p", 5_000_010_000, True)
    assert len(frame.octets) == FRAME_OCTETS
    assert frame.comments == ["lost"]


def test_a_cable_is_captured_from_an_order_to_the_next():
    with virtual_network("clock 5000000000", *TWO_KERNELS, *CARDS, CABLE) as network:
        file = network.directory / "some.pcapng"
        a, _ = two_cards(network, f"capture {file} b/p")
        a.put_frame(FRAME_OCTETS)
        a.kernel.waits(30_000)
        a.interrupted()
        a.kernel.runs()
        a.kernel.sleeps()
        assert network.event()[0] == "asleep"
        # All of it is there while time stands still.
        capture = pcapng_reader.read(file.read_bytes())
        network.order(f"release {file}")
        network.order(f"capture {file}2 a/p")
        network.process.communicate()
        assert network.process.returncode == 0
        again = pcapng_reader.read((network.directory / "some.pcapng2").read_bytes())
    assert capture.ports == ["b/p", "a/p"]
    (frame,) = capture.frames
    assert (frame.port, frame.time_ns, frame.is_leaving) == ("a/p", 5_000_010_000, True)
    assert (again.ports, again.frames) == (["a/p", "b/p"], [])


def test_a_cable_that_is_captured_is_not_captured_once_more():
    with virtual_network(*TWO_KERNELS, *CARDS, CABLE) as network:
        two_kernels(network)
        network.order("capture /dev/null a/p")
        network.order("capture /dev/zero b/p")
        assert network.ends() == 2


def test_a_segment_knows_where_an_address_is_and_gives_other_frames_to_all():
    kernels = (*TWO_KERNELS, "kernel 2 c")
    cards = (*CARDS, "card c/p 02:00:00:00:00:03 {}/c")
    with virtual_network(*kernels, *cards, "segment a/p b/p c/p delay=500") as network:
        assert network.event() == ["ready"]
        started = [Kernel(network, number) for number in range(3)]
        assert network.event() == ["started", "0"]
        network.order("go")
        devices = []
        for kernel, until_ns in zip(started, (10_000, NEVER, NEVER), strict=True):
            kernel.started()
            devices.append(attach(kernel, network.directory / "abc"[kernel.number]))
            devices[-1].can_take()
            kernel.waits(until_ns)
        a, b, c = devices
        a.kernel.now_ns = a.kernel.runs()
        a.put(bytes(12) + bytes.fromhex("020000000003") + bytes(94))
        a.kernel.sleeps()
        a.interrupted()
        a.kernel.runs()
        a.kernel.waits(20_000)
        c.interrupted()
        assert c.kernel.runs() == 10_000 + SENDING_NS + 500
        c.can_take()
        c.kernel.sleeps()
        a.kernel.now_ns = a.kernel.runs()
        a.put(bytes(12) + b"\xff" * 6 + bytes(94))
        a.kernel.sleeps()
        a.interrupted()
        a.kernel.runs()
        a.kernel.sleeps()
        b.interrupted()
        c.interrupted()
        assert b.kernel.runs() == 20_000 + SENDING_NS + 500


def test_a_card_without_a_free_buffer_loses_the_frame():
    with virtual_network(*TWO_KERNELS, *CARDS, CABLE) as network:
        a, _ = two_cards(network)
        a.put_frame(FRAME_OCTETS)
        a.kernel.sleeps()
        a.interrupted()
        a.kernel.runs()
        a.kernel.sleeps()
        assert network.event() == ["asleep", str(10_000 + ARRIVAL_NS)]


def test_time_stands_still_when_a_node_has_written_to_its_console():
    with virtual_network(*TWO_KERNELS, "console a {}/a") as network:
        a, b = two_kernels(network)
        network.order("go")
        a.runs()
        console = attach(a, network.directory / "a")
        console.can_take()
        a.waits(4000)
        b.runs()
        b.waits(9000)
        a.now_ns = a.runs()
        console.put(b"ready\n")
        assert a.free_until_ns == 4000, "no time may pass before the host has heard it"
        a.waits(4001)
        assert network.event() == ["octets", "a", "4000", b"ready\n".hex()]
        network.order("send a " + b"go".hex())
        network.order("go")
        assert console.interrupted() == 0
        assert console.taken(console.queues[0]) == b"go"
        assert a.runs() == 4000


def test_a_kernel_that_may_end_leaves_the_others():
    with virtual_network("kernel 0 a may-end", "kernel 1 b may-end") as network:
        a, b = two_kernels(network)
        network.order("go")
        a.runs()
        a.time.close()
        assert network.event() == ["ended", "a", "1000"]
        b.runs()
        b.waits(3000)
        b.runs()
        b.time.close()
        assert network.event() == ["ended", "b", "3000"]
        assert network.ends() == 0


def test_the_true_offset_of_a_clock_is_told_from_what_its_kernel_left():
    """A clock at twice the oscillator's rate, which itself is 10 % fast, 100 ns ahead at 1 µs."""
    sampled = "offsets {}/offsets.csv 2000"
    kernels = ("kernel 0 a oscillator-ppb=100000000", "kernel 1 b")
    with virtual_network("clock 7000", *kernels, sampled) as network:
        a, _ = two_kernels(network)
        place = SHARED_OCTETS + PLACE_OCTETS
        real_ns = 7000 + 1000 + 100
        tai_ns = real_ns + 37 * 10**9
        clock = (1, 1100, 0, 2 << 8, 8, real_ns, tai_ns)
        struct.pack_into("=QQQIIqq", a.shared, place + 64, *clock)
        network.order("go 2001")
        a.runs()
        a.sleeps()
        Kernel.runs(_)
        Kernel.sleeps(_)
        assert network.event() == ["reached", "2001"]
        network.process.communicate()
        offsets = (network.directory / "offsets.csv").read_text()
    # At 2000 ns the oscillator tells 2200, so the clock has gone 2 * 1100 ns since.
    assert offsets == f"time_ns,node,offset_ns,tai_minus_utc_s\n2000,a,{1100 + 2200 - 2000},37\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("kernel 1 x", "the IDs are 0, 1, … in this order"),
        ("kernel 0 a\nkernel 1 a", "a: is no name for a kernel, or taken"),
        ("kernel 0 a fast", "fast: is not known here"),
        ("kernel 0 a oscillator-ppb=100000001", "100000001: is no number here, or too great"),
        ("kernel 0 a oscillator-table=/none", "cannot read /none"),
        ("card a/p 02:00:00:00:00:01 {}/a", "a: is no kernel of a line before"),
        ("kernel 0 a\ncard a/p 02:00 {}/a", "02:00: is no MAC address"),
        ("kernel 0 a\ncard a 02:00:00:00:00:01 {}/a", "a: is no NAME/PORT, or taken"),
        ("kernel 0 a\ncard a/p 02:00:00:00:00:01 {}/a queues=33", "33: is no number here"),
        ("kernel 0 a\ncard a/p 02:00:00:00:00:01 {}/a", "card a/p is on no cable"),
        ("cable a/p b/p", "a/p: is no card of a line before"),
        ("time {}/again", "time: there is one calendar"),
        ("clock", "clock: something is missing behind it"),
        ("clock -1", "-1: is no number here"),
        ("bridge a", "bridge: is no part of a network"),
    ],
)
def test_a_wrong_description_is_refused_with_its_place(line, why):
    with virtual_network(*line.split("\n")) as network:
        output, errors = network.process.communicate(timeout=30)
    assert network.process.returncode == 2
    assert output == ""
    assert why in errors


@pytest.mark.parametrize("order", ["send a 00", "send b 0", "stop", "go never", "go 1", *CAPTURES])
def test_a_wrong_order_ends_the_run(order):
    with virtual_network(*TWO_KERNELS, "console b {}/b") as network:
        two_kernels(network)
        network.order(order)
        assert network.ends() == 2
        assert order.split()[0] in network.process.stderr.read()


def test_an_installation_without_the_program_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(virtual_network_package, "PROGRAM", tmp_path / "none")
    with pytest.raises(CncError, match="lacks the program") as refused:
        program()
    assert "gcc" in refused.value.hint
