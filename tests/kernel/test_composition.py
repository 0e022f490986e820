"""Several mechanisms change one kernel object, and no frame leaves its window.

The mechanisms are those of `tests.kernel.toy_mechanisms`: one adds a qdisc below a running taprio,
two share the actions of one filter. Whatever is added, changed, removed, or refused half-way: of
1,000 frames that are sent then 1,000 arrive, each while the gate of its class is open.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest
from pyroute2 import IPRoute

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.model import GateState, Taprio
from agent.model import AgentError
from agent.root_qdisc import HANDLE
from agent.switch import Switch
from cnc.talker import sleep_until, tai_ns
from cnc.talker.clock import tai_offset_ns
from tests.kernel.conftest import FAR, SO_RCVBUFFORCE, SO_TIMESTAMPNS, inside
from tests.kernel.toy_mechanisms import (
    STREAM_ETHERTYPE,
    TOYS,
    Counted,
    Priority,
    QueueLimit,
    asking,
)
from tests.stack.recording_kernel import configured

FRAMES = 1000
CYCLE_NS = 1_000_000
GATES = next(each for each in MECHANISMS if each.name == "gates")
NS_PER_S = 1_000_000_000
WINDOWS = (0x1, 200_000), (0x2, 200_000), (0x1, 600_000)

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def switch(ports) -> Iterator[Switch]:
    """The product's decider with the gates and the toys."""
    opened = KernelPorts([GATES, *TOYS])
    yield Switch(opened)
    opened.close()


@pytest.fixture
def gates(switch, two_classes, eventually) -> Taprio:
    """Those of p1, which run: class 1 is open from 200 to 400 µs of each millisecond."""
    taprio = two_classes(*WINDOWS)
    switch.apply({"p1": configured("p1", taprio)})
    eventually(lambda: switch.read()["p1"][GateState].running == taprio.schedule)
    return taprio


@dataclass(frozen=True)
class Arrival:
    number: int
    phase_ns: int  # in the cycle

    def is_in_window(self, class_: int) -> bool:
        """Whether the gate of the class is open; the stamp is up to 1 µs after the frame left."""
        if class_ == 1:
            return 200_000 <= self.phase_ns < 401_000
        return not 201_000 <= self.phase_ns < 400_000


@pytest.fixture
def bridge(ports) -> None:
    """What comes in by p2 leaves by p1."""
    with IPRoute() as ipr:
        ipr.link("add", ifname="br0", kind="bridge")
        (index,) = ipr.link_lookup(ifname="br0")
        for name in ports:
            (port,) = ipr.link_lookup(ifname=name)
            ipr.link("set", index=port, master=index)
        ipr.link("set", index=index, state="up")


Send = Callable[..., list[Arrival]]


def opened(namespace: str | None, stack: ExitStack, port: str) -> socket.socket:
    with ExitStack() as there:
        if namespace:
            there.enter_context(inside(namespace))
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(STREAM_ETHERTYPE))
    stack.enter_context(opened)
    opened.bind((port, STREAM_ETHERTYPE))
    return opened


@pytest.fixture
def send(ports) -> Send:
    """Send frames of one priority, one a cycle and each a little later in it; what arrived at q1.

    `out_of` is p1 of the switch itself, or q2, from where they cross the switch. `midway` is called
    when half of them are sent.
    """

    def run(out_of: str, priority: int, midway: Callable[[], object] | None = None):
        with ExitStack() as stack:
            receiver = opened(FAR, stack, "q1")
            receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
            receiver.settimeout(0.1)
            sender = opened(FAR if out_of.startswith("q") else None, stack, out_of)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
            sender.setblocking(False)
            start_ns = (tai_ns() // CYCLE_NS + 3) * CYCLE_NS
            header = bytes.fromhex("020000000201020000000202") + STREAM_ETHERTYPE.to_bytes(2)
            for number in range(FRAMES):
                if number == FRAMES // 2 and midway:
                    midway()
                sleep_until(start_ns + number * CYCLE_NS + number * 7919 % CYCLE_NS)
                with suppress(BlockingIOError):  # gates that stand still keep its buffer full
                    sender.send(header + struct.pack("=I", number).ljust(60, b"\0"))
            return list(arrivals(receiver))

    return run


def arrivals(receiver: socket.socket) -> Iterator[Arrival]:
    offset_ns = tai_offset_ns()
    while True:
        try:
            frame, ancillary, _, _ = receiver.recvmsg(128, 64)
        except TimeoutError:
            return
        seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
        arrived_ns = seconds * NS_PER_S + nanoseconds + offset_ns
        yield Arrival(struct.unpack_from("=I", frame, 14)[0], arrived_ns % CYCLE_NS)


def assert_all_in(arrived: list[Arrival], class_: int) -> None:
    """Every frame is there, once, and left while the gate of its class was open."""
    assert sorted(each.number for each in arrived) == list(range(FRAMES))
    outside = [each for each in arrived if not each.is_in_window(class_)]
    assert not outside, f"{len(outside)} of {FRAMES}: {outside[:3]}"


LIMITED, OTHER_LIMIT = QueueLimit({1: 500}), QueueLimit({1: 800})


def next_cycle() -> None:
    """A root that was set once more runs from the next cycle on."""
    time.sleep(2 * CYCLE_NS / NS_PER_S)


def test_a_child_is_added_changed_and_removed_below_running_gates(switch, gates, send):
    asked = configured("p1", gates)
    assert_all_in(send("p1", 1), 1)
    for limit in (LIMITED, OTHER_LIMIT, QueueLimit()):
        (step,) = switch.apply({"p1": asking(asked, limit)}).steps
        assert [change.port for change in step.changes] == ["p1"]
        assert switch.read()["p1"][QueueLimit] == limit
        next_cycle()
        assert_all_in(send("p1", 1), 1)
        assert_all_in(send("p1", 0), 0)


def test_a_child_that_keeps_its_kind_is_changed_without_any_frame_noticing(switch, gates, send):
    asked = configured("p1", gates)
    switch.apply({"p1": asking(asked, LIMITED)})
    next_cycle()
    change = {"p1": asking(asked, OTHER_LIMIT)}
    assert_all_in(send("p1", 1, midway=lambda: switch.apply(change)), 1)
    assert switch.read()["p1"][QueueLimit] == OTHER_LIMIT


def test_gates_and_their_children_change_together_and_are_undone_together(
    switch, gates, two_classes, send
):
    before = switch.read()["p1"]
    other = two_classes((0x1, 400_000), (0x2, 200_000), (0x1, 400_000))
    applied = switch.apply({"p1": asking(configured("p1", other), LIMITED)})
    assert len(applied.steps) == 1, "one object is replaced once"
    applied.undo()
    next_cycle()
    after = switch.read()["p1"]
    assert (after[GateState].running, after[QueueLimit]) == (gates.schedule, QueueLimit())
    assert after[GateState].taprio == before[GateState].taprio
    assert_all_in(send("p1", 1), 1)


def test_two_actions_of_one_filter_come_and_go_while_the_other_stays(switch, gates, bridge, send):
    asked = configured("p1", gates)
    assert_all_in(send("q2", 0), 0)
    for parts, class_ in (
        ([Counted(is_on=True)], 0),
        ([Counted(is_on=True), Priority(1)], 1),
        ([Counted(is_on=True), Priority(2)], 0),  # skb priority 2 leads to class 0
        ([Priority(1)], 1),
        ([], 0),
    ):
        (step,) = switch.apply({"p1": asked, "p2": asking(configured("p2"), *parts)}).steps
        assert len(step.after) == len(parts)
        state = switch.read()["p2"]
        assert (state[Counted].is_on, state[Priority].value is not None) == (
            Counted(is_on=True) in parts,
            any(isinstance(part, Priority) for part in parts),
        )
        assert_all_in(send("q2", 0), class_)


NO_SUCH_QUEUE = QueueLimit({1: 500, 9: 500})  # a veth of the tests has eight


def test_after_a_second_object_was_refused_the_first_is_as_it_was(switch, gates, bridge, send):
    before = switch.read()
    first = asking(configured("p2"), Counted(is_on=True), Priority(1))
    second = asking(configured("p1", gates), NO_SUCH_QUEUE)
    with pytest.raises(AgentError, match="port p1: the kernel refused pfifo on transmit queue 9"):
        switch.apply({"p1": second, "p2": first})
    next_cycle()
    after = switch.read()
    for kind in (QueueLimit, Counted, Priority):
        assert [after[name][kind] for name in after] == [before[name][kind] for name in before]
    assert after["p1"][GateState].running == gates.schedule
    assert_all_in(send("q2", 0), 0)
    assert_all_in(send("p1", 1), 1)


def test_a_child_grafted_alone_stops_the_gates(switch, gates, send):
    """Why the root is set once more: what the kernel does otherwise."""
    ifindex = switch.read()["p1"].ifindex
    with IPRoute() as ipr:
        parent = HANDLE | 2
        ipr.tc("replace", "pfifo", ifindex, handle=0x7FF_0000, parent=parent, limit=500)
    next_cycle()
    assert len(send("p1", 1)) < FRAMES
