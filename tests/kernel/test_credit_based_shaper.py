"""Frames of a class with a credit leave at its idle slope, below gates that go on."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.cbs.desired import configured
from agent.mechanisms.cbs.model import Shapers
from agent.mechanisms.gates.frame_lengths import WIRE_OVERHEAD_OCTETS
from agent.mechanisms.gates.model import GateConfig, GateState
from agent.model import AgentError, PortConfig
from agent.switch import Switch
from cnc.talker.clock import tai_offset_ns
from tests.kernel.conftest import FAR, SO_RCVBUFFORCE, SO_TIMESTAMPNS, inside

ETHERTYPE = 0x88B5
HEADER = bytes.fromhex("020000000201020000000202") + ETHERTYPE.to_bytes(2, "big")
OCTETS = 1_000
NS_PER_S = 1_000_000_000
CYCLE_NS = 1_000_000
OPEN = ((0x3, CYCLE_NS),)
SHUT_AT_FIRST = ((0x1, 400_000), (0x3, 600_000))

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def switch(ports) -> Iterator[Switch]:
    opened = KernelPorts(MECHANISMS)
    yield Switch(opened)
    opened.close()


@pytest.fixture
def bring(switch: Switch, two_classes) -> Callable[..., Shapers]:
    """Ask p1 for gates, and for an idle slope of class 1; 0: none."""

    def apply(slope_bps: int, entries: Sequence[tuple[int, int]] | None = OPEN) -> Shapers:
        table = {"number-of-traffic-classes": 2, **{f"priority{p}": int(p == 1) for p in range(8)}}
        row = {"traffic-class": 1, "admin-idle-slope": str(slope_bps)}
        bridge_port = {
            "traffic-class": {"traffic-class-table": table},
            "ieee802-dot1q-cbsa-bridge:cbsa": {"cbsa-parameter-table": [row]},
        }
        its = configured({"ieee802-dot1q-bridge:bridge-port": bridge_port}, switch.read()["p1"])
        gates = two_classes(*entries) if entries else None
        switch.apply({"p1": PortConfig("p1", (GateConfig(gates), its))})
        time.sleep(0.01)
        return its

    return apply


@pytest.fixture
def burst(ports) -> Iterator[Callable[..., list[int]]]:
    """Sends frames back to back by p1, does something while they wait, and has when each came to
    the other end."""
    with inside(FAR):
        there = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        there.bind(("q1", ETHERTYPE))
    there.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    there.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    there.settimeout(0.1)

    def send(
        frames: int, priority: int = 1, meanwhile: Callable[[], object] = lambda: None
    ) -> list[int]:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as here:
            here.bind(("p1", ETHERTYPE))
            here.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
            for number in range(frames):
                here.send(HEADER + struct.pack("=I", number).ljust(OCTETS - len(HEADER), b"\0"))
        meanwhile()
        found = []
        while len(found) < frames:
            frame, ancillary, _, _ = there.recvmsg(64, 64)
            assert struct.unpack_from("=I", frame, 14) == (len(found),)
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
            found.append(seconds * NS_PER_S + nanoseconds + tai_offset_ns())
        return found

    yield send
    there.close()


def gap_ns(slope_bps: int) -> int:
    """Between the first bits of two frames, preambles and gaps included."""
    return (OCTETS + WIRE_OVERHEAD_OCTETS) * 8 * NS_PER_S // slope_bps


@pytest.mark.parametrize("slope_bps", [3_000_000, 20_000_000])
def test_a_class_sends_at_its_idle_slope(bring, burst, slope_bps: int):
    bring(slope_bps)
    came = burst(200)
    gaps_ns = [later - before for before, later in pairwise(came)][1:]
    mean_ns = sum(gaps_ns) / len(gaps_ns)
    print(
        f"{slope_bps} bit/s: gaps {min(gaps_ns)} to {max(gaps_ns)} ns, expected {gap_ns(slope_bps)}"
    )
    assert mean_ns == pytest.approx(gap_ns(slope_bps), rel=0.001)
    assert sorted(gaps_ns)[len(gaps_ns) // 2] == pytest.approx(gap_ns(slope_bps), rel=0.001)


def test_other_classes_are_not_held_up(bring, burst):
    bring(3_000_000)
    came = burst(50, priority=0)
    assert came[-1] - came[0] < 20 * gap_ns(3_000_000)


def test_what_is_asked_is_read_back_changed_in_place_and_taken_away(bring, switch, burst):
    for slope_bps in (20_000_000, 40_000_000, 0):
        its = bring(slope_bps, SHUT_AT_FIRST)
        state = switch.read()["p1"]
        assert state[Shapers] == its
        assert state[GateState].running is not None
        came = burst(40)
        assert all(at % CYCLE_NS >= 400_000 for at in came), "the gates stand still"
    assert state[Shapers] == Shapers()


def test_gates_change_above_a_class_that_keeps_its_slope(bring, switch, burst):
    its = bring(20_000_000)
    bring(20_000_000, SHUT_AT_FIRST)
    assert switch.read()["p1"][Shapers] == its
    came = burst(40)
    assert all(at % CYCLE_NS >= 400_000 for at in came)
    assert (came[-1] - came[1]) / 38 >= gap_ns(20_000_000) * 0.999


def test_frames_that_wait_leave_by_a_slope_that_changes_meanwhile(bring, burst):
    bring(3_000_000)
    came = burst(40, meanwhile=lambda: bring(6_000_000))
    assert (came[-1] - came[-11]) / 10 == pytest.approx(gap_ns(6_000_000), rel=0.001)


def test_frames_that_wait_are_lost_as_a_class_loses_its_shaper(bring, burst):
    bring(3_000_000)
    with pytest.raises(TimeoutError):
        burst(40, meanwhile=lambda: bring(0))


def test_a_port_without_gates_is_refused(bring, switch):
    with pytest.raises(AgentError, match="credit-based-shaper needs gates on this port"):
        bring(20_000_000, None)
    assert switch.read()["p1"][Shapers] == Shapers()
