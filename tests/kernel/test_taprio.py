"""What the kernel's dump says after the agent's changes, and what it says when it refuses."""

from __future__ import annotations

import socket
import struct
import subprocess
from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from agent.kernel.link import WAKE_UP_PROBE
from agent.mechanisms.classification.model import DscpState
from agent.mechanisms.gates import taprio
from agent.mechanisms.gates.model import GateState, TaprioMode
from agent.model import AgentError, Clock
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import configured

RTMGRP_TC = 8
HOUR_NS = 3600 * 10**9
CLOSED_THEN_OPEN = (0x1, 400_000), (0x3, 600_000)
OPEN_THEN_CLOSED = (0x3, 300_000), (0x1, 700_000)


class QdiscEvents:
    """The kernel's own announcements; sent before the change that causes them returns.

    Of the ports that are there: the interface with which an agent measures wake-ups comes and goes.
    """

    def __enter__(self):
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, RTMGRP_TC))
        self._socket.setblocking(False)
        self._ports = {index for index, name in socket.if_nameindex() if name != WAKE_UP_PROBE}
        return self

    def __exit__(self, *_):
        self._socket.close()

    def any(self) -> bool:
        while True:
            try:
                message = self._socket.recv(65536)
            except BlockingIOError:
                return False
            # After struct nlmsghdr; in struct tcmsg behind the family and its padding.
            (index,) = struct.unpack_from("=i", message, 20)
            if index in self._ports:
                return True


def config(port, wanted):
    return {port: configured(port, wanted)}


@pytest.mark.reference
def test_the_dump_equals_the_request(kernel, two_classes):
    wanted = replace(
        two_classes(*CLOSED_THEN_OPEN, base_time_ns=123_000_000),
        priority_map=(0, 1, 2, 2, 1, 0, *[0] * 10),
        queues=(QueueRange(2, 0), QueueRange(1, 2), QueueRange(5, 3)),
    )
    kernel.apply(config("p1", wanted))
    assert kernel.read()["p1"][GateState].taprio == wanted
    assert kernel.read()["p1"].root_qdisc == "taprio"


def test_a_list_of_256_entries_is_set_and_read_back(kernel, two_classes):
    later_ns = kernel.ports.now_ns(Clock.TAI) + HOUR_NS
    wanted = two_classes(*((i % 4, 1000 + i) for i in range(256)), base_time_ns=later_ns)
    kernel.apply(config("p1", wanted))
    assert kernel.read()["p1"][GateState].taprio == wanted


def test_frame_lengths_count_what_the_wire_adds(kernel, two_classes):
    kernel.apply(config("p1", two_classes(*CLOSED_THEN_OPEN)))
    shown = subprocess.run(
        ["tc", "-d", "qdisc", "show", "dev", "p1", "root"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "overhead 24" in shown.stdout


def test_the_first_schedule_is_pending_until_its_base_time(kernel, two_classes, eventually):
    base_time_ns = kernel.ports.now_ns(Clock.TAI) + 500_000_000
    wanted = two_classes(*CLOSED_THEN_OPEN, base_time_ns=base_time_ns)
    kernel.apply(config("p1", wanted))
    state = kernel.read()["p1"]
    assert (state[GateState].running, state[GateState].pending) == (None, wanted.schedule)
    eventually(lambda: kernel.read()["p1"][GateState].running == wanted.schedule)
    assert kernel.read()["p1"][GateState].pending is None
    assert kernel.ports.now_ns(Clock.TAI) >= base_time_ns


@pytest.mark.reference
def test_a_new_schedule_leaves_the_running_one_alone_until_its_base_time(
    kernel, two_classes, eventually
):
    first = two_classes(*CLOSED_THEN_OPEN)
    kernel.apply(config("p1", first))
    eventually(lambda: kernel.read()["p1"][GateState].running == first.schedule)
    base_time_ns = kernel.ports.now_ns(Clock.TAI) // 10**9 * 10**9 + 2 * 10**9
    second = two_classes(*OPEN_THEN_CLOSED, base_time_ns=base_time_ns)
    kernel.apply(config("p1", second))
    state = kernel.read()["p1"]
    assert (state[GateState].running, state[GateState].pending) == (first.schedule, second.schedule)
    eventually(lambda: kernel.read()["p1"][GateState].running == second.schedule)
    # The kernel changes over when the old list's last entry begins, not at its end.
    assert kernel.ports.now_ns(Clock.TAI) >= base_time_ns - first.schedule.entries[-1].interval_ns


def test_another_priority_map_is_set_although_the_kernel_cannot_change_it_in_place(
    kernel, two_classes
):
    first = two_classes(*CLOSED_THEN_OPEN)
    second = replace(first, priority_map=(1, 0, *[1] * 14))
    kernel.apply(config("p1", first))
    kernel.apply(config("p1", second))
    assert kernel.read()["p1"][GateState].taprio == second


def test_the_same_configuration_again_causes_no_qdisc_event(kernel, two_classes, eventually):
    wanted = two_classes(*CLOSED_THEN_OPEN)
    with QdiscEvents() as events:
        kernel.apply(config("p1", wanted))
        assert events.any()
    eventually(lambda: kernel.read()["p1"][GateState].running is not None)
    whole_cycles_later = replace(wanted, schedule=replace(wanted.schedule, base_time_ns=7_000_000))
    with QdiscEvents() as events:
        assert kernel.apply(config("p1", wanted)).steps == ()
        assert kernel.apply(config("p1", whole_cycles_later)).steps == ()
        assert not events.any()


def test_a_port_no_longer_named_loses_our_schedule(kernel, two_classes):
    kernel.apply(config("p1", two_classes(*CLOSED_THEN_OPEN)))
    kernel.apply({})
    assert kernel.read()["p1"][GateState].taprio is None
    assert kernel.read()["p1"].root_qdisc == "noqueue"


def test_a_qdisc_of_somebody_else_is_refused_by_name_and_survives(kernel, two_classes):
    with IPRoute() as ipr:
        index = ipr.link_lookup(ifname="p1")[0]
        ipr.tc("add", "pfifo", index, 0x10000, limit=100)
    with pytest.raises(AgentError, match=r"port p1: its root qdisc pfifo 1: was not set by"):
        kernel.apply(config("p1", two_classes(*CLOSED_THEN_OPEN)))
    kernel.apply({})
    assert kernel.read()["p1"].foreign_qdisc == "pfifo 1:"


def test_every_reason_is_told_at_once(kernel, two_classes):
    with IPRoute() as ipr:
        ipr.link("add", ifname="single", kind="dummy", num_tx_queues=1)
    wanted = two_classes(*CLOSED_THEN_OPEN)
    with pytest.raises(AgentError) as refusal:
        kernel.apply({**config("single", wanted), **config("p9", wanted)})
    assert "port single: needs 2 TX queues, has 1" in str(refusal.value)
    assert "port p9: no such interface; this switch has p1, p2" in str(refusal.value)


@pytest.mark.reference
def test_the_kernels_own_words_reach_the_operator_and_the_old_schedule_stays(kernel, two_classes):
    first = two_classes(*CLOSED_THEN_OPEN)
    kernel.apply(config("p1", first))
    too_short = replace(two_classes((0x1, 10), (0x3, 999_990)), priority_map=(1, *[0] * 15))
    ifindex = kernel.read()["p1"].ifindex
    with (
        IPRoute(ext_ack=True) as ipr,
        pytest.raises(AgentError, match=r"port p1: .* Invalid interval .*\(EINVAL\)"),
    ):
        taprio.change(ipr, "p1", ifindex, first, too_short)
    assert kernel.read()["p1"][GateState].taprio == first


@pytest.mark.parametrize("in_place", [True, False])
def test_undo_restores_the_old_schedule(kernel, two_classes, in_place):
    first = two_classes(*CLOSED_THEN_OPEN)
    second = two_classes(*OPEN_THEN_CLOSED)
    if not in_place:
        second = replace(second, queues=(QueueRange(2, 0), QueueRange(1, 2)))
    kernel.apply(config("p1", first))
    applied = kernel.apply({**config("p1", second), **config("p2", second)})
    assert [step.target.port for step in applied.steps] == ["p1", "p2"]
    applied.undo()
    assert kernel.read()["p1"][GateState].taprio == first
    assert kernel.read()["p2"][GateState].taprio is None


def test_a_failure_on_the_second_port_restores_the_first(kernel, two_classes, monkeypatch):
    """No request passes validation and is refused, so the link speed is hidden from it."""
    first = two_classes(*CLOSED_THEN_OPEN)
    kernel.apply(config("p1", first))
    good, bad = two_classes(*OPEN_THEN_CLOSED), two_classes((0x1, 40), (0x3, 999_960))
    monkeypatch.setattr(kernel.ports._ethtool, "speed_bps", lambda _: 10**12)
    with pytest.raises(AgentError, match="port p2: the kernel refused the schedule: Invalid int"):
        kernel.apply({"p1": configured("p1", good, {46: 1}), "p2": configured("p2", bad)})
    state = kernel.read()
    assert state["p1"][GateState].taprio == first
    assert state["p1"][DscpState].priorities == {}
    assert state["p2"][GateState].taprio is None


def test_full_offload_is_handed_to_the_driver_and_read_back(kernel, two_classes, offloading_port):
    running = replace(two_classes(*CLOSED_THEN_OPEN), mode=TaprioMode.FULL_OFFLOAD)
    kernel.apply(config(offloading_port, running))
    state = kernel.read()[offloading_port]
    assert (state[GateState].taprio, state[GateState].running, state[GateState].pending) == (
        running,
        running.schedule,
        None,
    )


def test_an_offloaded_schedule_is_pending_by_the_clock(kernel, two_classes, offloading_port):
    """The kernel shows it as operational at once: the hardware keeps it until its base time."""
    base_time_ns = kernel.ports.now_ns(Clock.TAI) + HOUR_NS
    waiting = two_classes(*CLOSED_THEN_OPEN, base_time_ns=base_time_ns)
    kernel.apply(config(offloading_port, replace(waiting, mode=TaprioMode.FULL_OFFLOAD)))
    state = kernel.read()[offloading_port]
    assert (state[GateState].running, state[GateState].pending) == (None, waiting.schedule)


def test_the_probe_finds_taprio_and_changes_nothing(kernel):
    with QdiscEvents() as events:
        assert kernel.ports.capabilities() == {}
        assert not events.any()
