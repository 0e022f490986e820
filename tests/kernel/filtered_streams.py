"""What tests of stream filters have of the bridge br0, its filters and the frames of a talker.

talker q1 ══ p1 ┬ br0 ┬ p2 ══ q2 ┬ br1 ┬ q3 ══ p3 listener
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.kernel.ports import KernelPorts
from agent.mechanisms import mechanisms
from agent.mechanisms.stream_filters.model import (
    Address,
    FilterCounters,
    Gate,
    GateEntry,
    GateList,
    RunningGate,
    Setting,
    StreamFilter,
    StreamFilterConfig,
    StreamFilterState,
)
from agent.model import PortConfig
from agent.switch import Switch
from cnc.talker import be_punctual, sleep_until, tai_ns
from tests.kernel.conftest import FAR, inside
from tests.kernel.two_bridges import (
    EXPERIMENTAL,
    PAYLOAD,
    STREAM,
    TALKER,
    VLAN_ID,
    asked,
    bridges,  # noqa: F401
    forwarded,
)

CYCLE_NS, HALF_NS = 1_000_000, 500_000
OPEN, CLOSED = Setting(is_open=True), Setting(is_open=False)
HANDLE = 7
AT_P1 = Address("p1", HANDLE, STREAM, VLAN_ID)
MAC_HEADER, TAG, FCS = 14, 4, 4


@pytest.fixture
def state_dir(tmp_path) -> Iterator[Path]:
    """The directory of the agent; what it mounts there is gone afterwards."""
    yield tmp_path
    if os.path.ismount(tmp_path / "bpf"):
        subprocess.run(["umount", tmp_path / "bpf"], check=True)


@pytest.fixture
def switch(bridges, state_dir) -> Iterator[Switch]:
    """The switch of br0."""
    opened = KernelPorts(mechanisms(state_dir))
    yield Switch(opened)
    opened.close()


@pytest.fixture
def set_clock() -> Iterator[Callable[[int], None]]:
    """Sets the clock by so many nanoseconds; it is right again afterwards."""
    steps = []

    def step(by_ns: int) -> None:
        steps.append(by_ns)
        time.clock_settime_ns(
            time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME) + by_ns
        )

    yield step
    time.clock_settime_ns(
        time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME) - sum(steps)
    )


def half_open(gate: int = 1, base_ns: int = 0, *, closed_first: bool = False) -> Gate:
    """Open in one half of each millisecond."""
    settings = (CLOSED, OPEN) if closed_first else (OPEN, CLOSED)
    entries = tuple(GateEntry(each, HALF_NS) for each in settings)
    return Gate(gate, OPEN, GateList(base_ns, CYCLE_NS, entries))


def a_filter(gate: Gate, **details) -> StreamFilter:
    return StreamFilter(
        **{"id": 1, "handle": HANDLE, "priority": None, "max_sdu_octets": 0}
        | {"gate": gate}
        | details
    )


def filtered(
    *filters: StreamFilter, addresses=(AT_P1,), places=frozenset()
) -> dict[str, PortConfig]:
    """The bridge forwards the stream from p1 to p2, with these stream filters."""
    (forwarding,) = forwarded("br0", "p1", "p2", to="p2")["br0"].parts
    wanted = StreamFilterConfig(frozenset(filters), frozenset(addresses), places)
    return asked("br0", forwarding, wanted)


def send(instants_ns, sdu_octets: int = 46, *, to: str = STREAM, pcp: int = 5) -> None:
    """Frames of the talker with a tag, at these instants of TAI; None: at once."""
    header = bytes.fromhex((to + TALKER).replace("-", ""))
    header += struct.pack("!HHH", 0x8100, pcp << 13 | VLAN_ID, EXPERIMENTAL)
    frame = header + PAYLOAD.ljust(sdu_octets, b"\0")
    be_punctual(go_first=False)
    with inside(FAR), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as talker:
        talker.bind(("q1", 0))
        for instant_ns in instants_ns:
            if instant_ns is not None:
                sleep_until(instant_ns)
            talker.send(frame)
    time.sleep(0.002)


def phases(count: int, first_ns: int | None = None) -> list[int]:
    """Instants that go through a cycle in steps of 100 us, half a step away from where it changes,
    from the beginning of a cycle to come."""
    start_ns = (tai_ns() // CYCLE_NS + 20) * CYCLE_NS if first_ns is None else first_ns
    return [start_ns + 50_000 + number * 100_000 for number in range(count)]


def counters(switch: Switch, number: int = 1) -> FilterCounters:
    return switch.read()["br0"][StreamFilterState].counters[number]


def running(switch: Switch) -> RunningGate:
    return switch.read()["br0"][StreamFilterState].running[1]
