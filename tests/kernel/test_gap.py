"""A change of the schedule is not felt by the streams that stay; see `tests.kernel.gap`."""

from __future__ import annotations

import dataclasses
import itertools
import socket
from collections.abc import Iterator

import pytest
from pyroute2 import IPRoute

from agent.mechanisms.gates import taprio
from agent.mechanisms.gates.model import GateState, Taprio
from agent.switch import Switch
from cnc import intent as intents
from cnc.model import PortRef
from cnc.planner import plan as compute
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.endpoint import sleep_until, tai_ns
from cnc.testbed.traffic.recording import flows
from tests.kernel.conftest import FAR, inside
from tests.kernel.gap import (
    LINE3,
    SAME_STEP_NS,
    STEP_NS,
    bring,
    changing_plans,
    observe,
)
from tests.stack.recording_kernel import configured

MS = 1_000_000
HOUR_NS = 3_600_000 * MS

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    intent = intents.load(LINE3)
    with lab(intent, timed_wires=True) as found:
        bring(found, compute(intent))
        yield found


def test_pushing_the_plan_that_runs_touches_no_port_and_is_felt_by_no_frame(running: Lab):
    kept = compute(running.intent)
    found = observe(running, flows(kept), [kept] * 3, SAME_STEP_NS)
    assert not any(one.touched for one in found.pushes)
    assert found.sound, found


def test_adding_a_stream_and_taking_it_away_is_felt_by_no_frame_of_the_others(running: Lab):
    kept = compute(running.intent)
    plans = list(itertools.islice(changing_plans(kept), 2))
    found = observe(running, flows(kept), plans, STEP_NS)
    changed = {PortRef("s1", "s2"), PortRef("s2", "s3"), PortRef("s3", "l2")}
    assert [one.touched for one in found.pushes] == [changed, changed]
    assert found.sound, found


@pytest.fixture
def closed_class(ports, kernel: Switch, two_classes, eventually) -> Taprio:
    """The gates of p1, which run: class 1 is closed for 300 ms, open for 200 ms, and so on."""
    gates: Taprio = two_classes((0x1, 300 * MS), (0x3, 200 * MS))
    kernel.apply({"p1": configured("p1", gates)})
    eventually(lambda: kernel.read()["p1"][GateState].running == gates.schedule)
    return gates


def wait_ns(gates: Taprio, phase_ns: int) -> int:
    """How long a frame of class 1 waits that is sent when this phase of the cycle comes next."""
    with inside(FAR):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.bind(("10.0.1.2", 5000))
        receiver.settimeout(10)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 1)
        sleep_until(next_ns(gates, phase_ns))
        sent_ns = tai_ns()
        sender.sendto(b"frame", ("10.0.1.2", 5000))
        receiver.recv(64)
        return tai_ns() - sent_ns


def next_ns(gates: Taprio, phase_ns: int) -> int:
    """When the next instant of this phase is."""
    cycle_ns = gates.schedule.cycle_time_ns
    return ((tai_ns() - phase_ns) // cycle_ns + 1) * cycle_ns + phase_ns


def test_the_kernel_opens_all_gates_from_a_replacement_to_the_end_of_the_running_entry(
    kernel: Switch, closed_class: Taprio
):
    """Why a list must be replaced while every gate that matters is open.

    setup_first_end_time() of sch_taprio.c, 6.12, forgets the running entry; the gates move on as
    before when the next one is due.
    """
    assert wait_ns(closed_class, 100 * MS) > 199 * MS
    later_ns = next_ns(closed_class, 0) + HOUR_NS
    waiting = dataclasses.replace(
        closed_class, schedule=dataclasses.replace(closed_class.schedule, base_time_ns=later_ns)
    )
    ifindex = kernel.read()["p1"].ifindex
    sleep_until(next_ns(closed_class, 50 * MS))
    with IPRoute(ext_ack=True) as ipr:
        taprio.change(ipr, "p1", ifindex, closed_class, waiting)
    assert wait_ns(closed_class, 100 * MS) < MS
    assert wait_ns(closed_class, 100 * MS) > 199 * MS
