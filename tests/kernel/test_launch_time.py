"""Frames leave at the time that their program states, with gates and without."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.model import GateConfig, GateState
from agent.mechanisms.launch_time.desired import configured as launch_configured
from agent.mechanisms.launch_time.model import LaunchTime
from agent.model import AgentError, PortConfig
from agent.switch import Switch
from agent.traffic_classes import QueueRange, TrafficClasses
from cnc.talker import LaunchRefusedError, LaunchSocket, sleep_until, tai_ns
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


@pytest.mark.parametrize("with_gates", [False, True])
def test_frames_leave_at_their_times(bring, sender, lateness, with_gates: bool):
    bring(asked(), with_gates=with_gates)
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
    for its in (asked(), asked(delta_ns=500_000)):
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
