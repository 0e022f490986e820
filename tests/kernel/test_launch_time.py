"""Frames leave at the time that their program states, with gates and without."""

from __future__ import annotations

import heapq
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS, mechanisms
from agent.mechanisms.gates.model import GateConfig, GateState
from agent.mechanisms.launch_time.desired import configured as launch_configured
from agent.mechanisms.launch_time.model import LaunchTime
from agent.mechanisms.talker_offsets.model import OffsetConfig, OffsetTable, Transmission
from agent.mechanisms.talker_offsets.tables import in_order
from agent.model import AgentError, PortConfig
from agent.switch import Switch
from agent.traffic_classes import QueueRange, TrafficClasses
from cnc.talker import LaunchRefusedError, LaunchSocket, OffsetFile, sleep_until, tai_ns
from cnc.talker.clock import tai_offset_ns
from cnc.talker.lateness import Lateness
from tests.kernel.conftest import FAR, SO_RCVBUFFORCE, SO_TIMESTAMPNS, inside

ETHERTYPE = 0x88B5
HEADER = bytes.fromhex("020000000201020000000202") + ETHERTYPE.to_bytes(2, "big")
NS_PER_S = 1_000_000_000
CYCLE_NS = 1_000_000
DELTA_NS = 300_000
FRAMES = 1000
STAMP_NS = 1_000  # reading the clock takes 256 ns of virtual time, once and more a frame
PRIORITY = 1  # of the class 1 of `two_classes`

pytestmark = pytest.mark.virtual_time


def asked(mode: str = "software", delta_ns: int = DELTA_NS, priority: int = PRIORITY) -> LaunchTime:
    """On a port with two traffic classes, priority 1 in class 1."""
    table = {"number-of-traffic-classes": 2, **{f"priority{p}": int(p == 1) for p in range(8)}}
    return launch_configured(
        {
            "tsn-end-station:launch-time": {
                "mode": mode,
                "delta-ns": delta_ns,
                "priority": [priority],
            },
            "ieee802-dot1q-bridge:bridge-port": {"traffic-class": {"traffic-class-table": table}},
        },
        None,
    )


@pytest.fixture
def switch(ports) -> Iterator[Switch]:
    opened = KernelPorts(MECHANISMS)
    yield Switch(opened)
    opened.close()


@pytest.fixture
def bring(switch: Switch, two_classes) -> Callable[..., None]:
    """Ask p1 for a launch time, and for gates that shut class 0 in the first 400 µs."""

    def apply(launch: LaunchTime, *, with_gates: bool):
        gates = two_classes((0x2, 400_000), (0x3, 600_000)) if with_gates else None
        return switch.apply({"p1": PortConfig("p1", (GateConfig(gates), launch))})

    return apply


@pytest.fixture
def lateness(tmp_path: Path) -> Lateness:
    return Lateness(tmp_path / "motor.1")


class Sender:
    """Sends by p1, and says when each frame came to q1."""

    def __init__(self, stack: ExitStack) -> None:
        self.socket = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        self.socket.bind(("p1", ETHERTYPE))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, PRIORITY)
        with inside(FAR):
            there = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        self._there = stack.enter_context(there)
        self._there.bind(("q1", ETHERTYPE))
        self._there.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._there.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        self._there.settimeout(0.1)

    @staticmethod
    def best_effort() -> socket.socket:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.bind(("p1", ETHERTYPE))
        return sock

    def arrivals(self) -> dict[int, int]:
        """By number of the frame."""
        found = {}
        while True:
            try:
                frame, ancillary, _, _ = self._there.recvmsg(128, 64)
            except TimeoutError:
                return found
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
            (number,) = struct.unpack_from("=I", frame, 14)
            assert number not in found
            found[number] = seconds * NS_PER_S + nanoseconds + tai_offset_ns()


@pytest.fixture
def sender(ports) -> Iterator[Sender]:
    with ExitStack() as stack:
        yield Sender(stack)


def frame(number: int) -> bytes:
    return HEADER + struct.pack("=I", number).ljust(60, b"\0")


def launched(sender: Sender, launch: LaunchSocket, within_ns: range, batch: int = 100):
    """Send frames, a cycle apart, ahead of their instants, in another order than they are due."""
    due = {}
    for start in range(0, FRAMES, batch):
        begin_ns = (tai_ns() // CYCLE_NS + 20) * CYCLE_NS
        numbers = sorted(range(batch), key=lambda n: n * 7919 % batch)
        for n in numbers:
            phase_ns = within_ns[(n * 7919_77) % len(within_ns)]
            due[start + n] = begin_ns + n * CYCLE_NS + phase_ns
            launch.send(frame(start + n), due[start + n])
        time.sleep((batch + 30) * CYCLE_NS / NS_PER_S)
    launch.drain()
    return due, sender.arrivals()


def assert_on_time(due: dict[int, int], arrived: dict[int, int]) -> None:
    assert arrived.keys() == due.keys()
    off = {n: arrived[n] - due[n] for n in due if not 0 <= arrived[n] - due[n] <= STAMP_NS}
    assert not off, f"{len(off)} of {len(due)}: {list(off.items())[:3]}"


def held_back(sender: Sender) -> list[int]:
    """When frames of class 0 come, which are sent while its gate is shut."""
    with sender.best_effort() as sock:
        for number in range(100):
            sleep_until((tai_ns() // CYCLE_NS + 2) * CYCLE_NS + 100_000)
            sock.send(frame(number))
    found = list(sender.arrivals().values())
    assert len(found) == 100
    return found


def qdiscs() -> list[str]:
    shown = subprocess.run(
        ["tc", "qdisc", "show", "dev", "p1"], check=True, capture_output=True, text=True
    ).stdout
    return sorted(line for line in shown.splitlines() if "etf" in line or "root" in line)


# With gates each time of transmission has to lie within an entry, not at its begin, and so has the
# end of its frame. Whole cycles later than the instant it is in the entry of the instant.
DELTA_WITH_GATES_NS = CYCLE_NS + 1
WITH_OR_WITHOUT_GATES = pytest.mark.parametrize(
    ("with_gates", "delta_ns"), [(False, DELTA_NS), (True, DELTA_WITH_GATES_NS)]
)


@WITH_OR_WITHOUT_GATES
def test_frames_leave_at_their_times(bring, sender, lateness, with_gates: bool, delta_ns: int):
    bring(asked(delta_ns=delta_ns), with_gates=with_gates)
    time.sleep(0.01)
    launch = LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
    due, arrived = launched(sender, launch, range(0, CYCLE_NS, 37))
    assert_on_time(due, arrived)
    lateness.write()
    assert lateness.missed == lateness.refused == 0


def test_gates_go_on_when_launch_times_come_change_and_go(bring, switch, sender, lateness):
    bring(LaunchTime(), with_gates=True)
    time.sleep(0.01)
    running = switch.read()["p1"][GateState].running
    for delta_ns in (DELTA_WITH_GATES_NS, DELTA_WITH_GATES_NS + CYCLE_NS):
        its = asked(delta_ns=delta_ns)
        bring(its, with_gates=True)
        time.sleep(0.005)
        assert switch.read()["p1"][LaunchTime] == its
        assert switch.read()["p1"][GateState].running == running
        launch = LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
        assert_on_time(*launched(sender, launch, range(0, CYCLE_NS, 37)))
        assert all(400_000 <= at % CYCLE_NS <= 400_000 + STAMP_NS for at in held_back(sender))
    bring(LaunchTime(), with_gates=True)
    assert switch.read()["p1"][LaunchTime] == LaunchTime()


def test_launch_times_outlive_gates_that_come_and_go(bring, switch, sender, lateness):
    for with_gates in (False, True, False):
        applied = bring(asked(), with_gates=with_gates)
        assert switch.read()["p1"][LaunchTime] == asked()
        assert applied.steps, "one object changes"
        assert not bring(asked(), with_gates=with_gates).steps, "it is what was asked"
    applied.undo()
    assert switch.read()["p1"][LaunchTime] == asked()
    assert switch.read()["p1"][GateState].taprio is not None
    bring(LaunchTime(), with_gates=False)
    (root,) = qdiscs()
    assert root.startswith("qdisc noqueue 0: root")


def test_a_device_without_launch_time_is_refused_and_nothing_changes(bring, switch):
    for with_gates in (False, True):
        before = qdiscs()
        with pytest.raises(AgentError) as refused:
            bring(asked("hardware"), with_gates=with_gates)
        assert "Specified device does not support ETF offload" in str(refused.value)
        assert qdiscs() == before
        bring(asked(), with_gates=with_gates)
        assert switch.read()["p1"][LaunchTime] == asked()


def test_without_etf_a_talker_does_not_start(bring, sender, lateness):
    with pytest.raises(LaunchRefusedError, match="p1: frames of priority 1 meet no etf qdisc"):
        LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
    bring(asked(), with_gates=False)
    LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
    with pytest.raises(LaunchRefusedError):
        LaunchSocket(sender.socket, "p1", 0, lateness)


def test_a_talker_stops_once_the_qdisc_is_gone(bring, sender, lateness):
    bring(asked(), with_gates=False)
    launch = LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
    bring(LaunchTime(), with_gates=False)
    time.sleep(0.6)
    with pytest.raises(LaunchRefusedError, match="meet no etf qdisc"):
        launch.send(frame(0), tai_ns() + CYCLE_NS)


def test_frames_whose_time_has_passed_are_refused_and_counted(bring, sender, lateness):
    bring(asked(), with_gates=False)
    launch = LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
    launch.send(frame(0), tai_ns() - DELTA_NS - 1)
    launch.send(frame(1), tai_ns() + CYCLE_NS)
    time.sleep(0.01)
    launch.drain()
    assert (lateness.refused, lateness.missed) == (1, 0)
    assert sender.arrivals().keys() == {1}


def test_frames_that_miss_their_time_in_the_queue_are_counted(bring, sender, lateness):
    bring(asked(), with_gates=False)
    launch = LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
    for number in range(5):
        launch.send(frame(number), tai_ns() + 50 * CYCLE_NS)
    time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + 200 * CYCLE_NS)
    time.sleep(0.1)
    launch.drain()
    assert (lateness.refused, lateness.missed) == (0, 5)
    assert not sender.arrivals()


def test_a_time_that_no_entry_of_the_gates_holds_is_refused_and_counted(bring, sender, lateness):
    bring(asked(), with_gates=True)
    time.sleep(0.01)
    launch = LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
    begin_ns = (tai_ns() // CYCLE_NS + 20) * CYCLE_NS
    launch.send(frame(0), begin_ns)
    # Its time of transmission, with the delta, is that at which the entry begins.
    launch.send(frame(1), begin_ns + 400_000 - DELTA_NS)
    sleep_until(begin_ns + 2 * NS_PER_S)
    launch.send(frame(2), begin_ns + 3 * NS_PER_S)
    assert (lateness.refused, lateness.missed) == (1, 0)
    sleep_until(begin_ns + 4 * NS_PER_S)
    assert sender.arrivals().keys() == {0, 2}


def test_a_qdisc_that_another_program_removes_or_changes_is_set_again(bring, switch):
    bring(asked(), with_gates=False)
    for command in ("qdisc del dev p1 root", "qdisc del dev p1 parent 7a0:2"):
        subprocess.run(["tc", *command.split()], check=True)
        assert switch.read()["p1"][LaunchTime] != asked()
        bring(asked(), with_gates=False)
        assert switch.read()["p1"][LaunchTime] == asked()


def test_the_root_of_another_program_is_left_alone(bring):
    subprocess.run(["tc", "qdisc", "add", "dev", "p1", "root", "handle", "5:", "prio"], check=True)
    with pytest.raises(AgentError, match="prio 5: was not set by this agent"):
        bring(asked(), with_gates=False)


def test_queues_follow_the_traffic_classes():
    two = TrafficClasses((0, 1, *[0] * 14), (QueueRange(1, 0), QueueRange(1, 1)))
    assert asked().classes == two


STREAMS = 1000
PERIOD_NS = 100 * CYCLE_NS
STEP_NS = PERIOD_NS // STREAMS
LEAD_NS = 5 * CYCLE_NS


def table(base_time_ns: int, shift: int) -> OffsetTable:
    """All streams of the station, in an order of their own, with one instant each."""
    return OffsetTable(
        base_time_ns,
        in_order(
            [
                Transmission(
                    *(f"s{number}", 1, PERIOD_NS, (number * 7919 + shift) % STREAMS * STEP_NS),
                    *(46, PRIORITY, None, ("l1",)),
                )
                for number in range(STREAMS)
            ]
        ),
    )


def send_all(file: OffsetFile, launch: LaunchSocket, until_ns: int) -> dict[int, int]:
    """A program that sends all streams, each when the agent says; when frames are due."""
    due: dict[int, int] = {}
    begin_ns = tai_ns() + LEAD_NS
    departures: list[tuple[int, int, int]] = []

    def next_of(stream: int, earliest_ns: int) -> None:
        found = file.offsets().departure(f"s{stream}", earliest_ns)
        assert found
        heapq.heappush(departures, (found.instant_ns, stream, found.period_begin_ns))

    for stream in range(STREAMS):
        next_of(stream, begin_ns)
    while departures[0][0] < until_ns:
        instant_ns, stream, period_begin_ns = heapq.heappop(departures)
        sleep_until(instant_ns - LEAD_NS)
        due[len(due)] = instant_ns
        launch.send(frame(len(due) - 1), instant_ns)
        next_of(stream, period_begin_ns + 1)
    sleep_until(until_ns + LEAD_NS)
    launch.drain()
    return due


@pytest.fixture
def push(ports, two_classes, tmp_path) -> Iterator[Callable[..., None]]:
    """Ask p1 for offsets of the streams, and the rest as `bring` does."""
    opened = KernelPorts(mechanisms(tmp_path))
    switch = Switch(opened)

    def apply(shift: int, launch: LaunchTime, *, with_gates: bool) -> None:
        gates = two_classes((0x2, 400_000), (0x3, 600_000)) if with_gates else None
        base_time_ns = (tai_ns() // PERIOD_NS + 4) * PERIOD_NS
        offsets = OffsetConfig(table(base_time_ns, shift))
        switch.apply({"p1": PortConfig("p1", (GateConfig(gates), launch, offsets))})

    yield apply
    opened.close()


@WITH_OR_WITHOUT_GATES
def test_1000_streams_leave_at_their_times_also_after_a_push(
    push, sender, tmp_path, with_gates, delta_ns
):
    lateness = Lateness(tmp_path / "all.1")
    bring = partial(push, launch=asked(delta_ns=delta_ns), with_gates=with_gates)
    bring(0)
    begin_ns = tai_ns() + 5 * PERIOD_NS
    sleep_until(begin_ns)
    file = OffsetFile(tmp_path / "offsets.json")
    launch = LaunchSocket(sender.socket, "p1", PRIORITY, lateness)
    moving = threading.Timer(PERIOD_NS / NS_PER_S, bring, [317])
    moving.start()
    due = send_all(file, launch, begin_ns + 12 * PERIOD_NS)
    moving.join()
    phases = {at % PERIOD_NS for at in due.values()}
    assert len(due) > 11 * STREAMS
    assert phases == {step * STEP_NS for step in range(STREAMS)}
    assert_on_time(due, sender.arrivals())
    assert lateness.missed == lateness.refused == 0
