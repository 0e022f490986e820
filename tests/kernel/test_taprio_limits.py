"""How much a port takes, and what else the kernel says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates import taprio
from agent.mechanisms.gates.limits import SOFTWARE_LIST_MAX
from agent.mechanisms.gates.model import GateLimits, GateOperation, GateState, TaprioMode
from agent.model import AgentError, Clock, OperStatus
from agent.switch import Switch
from tests.stack.recording_kernel import configured

HOUR_NS = 3600 * 10**9
INTERVAL_NS = 100_000


def alternating(count):
    return [(index % 4, INTERVAL_NS) for index in range(count)]


@pytest.fixture
def run_and_wait(kernel, eventually):
    """Two lists on p1, the first running, the second waiting, set past what the agent refuses."""

    def put(first, second):
        index = kernel.read()["p1"].ifindex
        with IPRoute(ext_ack=True) as ipr:
            taprio.change(ipr, "p1", index, None, first)
            eventually(lambda: kernel.read()["p1"][GateState].running == first.schedule)
            taprio.change(ipr, "p1", index, first, second)

    return put


@pytest.fixture
def fresh_kernel(kernel):
    opened = Switch(KernelPorts(MECHANISMS))
    yield opened
    opened.ports.close()


@pytest.mark.reference
def test_two_lists_of_the_longest_kind_are_shown_to_an_agent_that_has_just_started(
    kernel, two_classes, run_and_wait, fresh_kernel
):
    first = two_classes(*alternating(SOFTWARE_LIST_MAX))
    later_ns = kernel.ports.now_ns(Clock.TAI) + HOUR_NS
    second = two_classes(*alternating(SOFTWARE_LIST_MAX)[::-1], base_time_ns=later_ns)
    kernel.apply({"p2": configured("p2", first)})
    run_and_wait(first, second)
    ports = fresh_kernel.read()
    assert (ports["p1"][GateState].running, ports["p1"][GateState].pending) == (
        first.schedule,
        second.schedule,
    )
    assert ports["p2"][GateState].taprio == first


def test_a_longer_list_would_hide_its_port_and_all_behind_it(
    kernel, two_classes, run_and_wait, fresh_kernel
):
    """Why the agent refuses it. If this fails, the kernel shows more: raise the limit."""
    longer = SOFTWARE_LIST_MAX + 10
    first = two_classes(*alternating(longer))
    later_ns = kernel.ports.now_ns(Clock.TAI) + HOUR_NS
    second = two_classes(*alternating(longer), base_time_ns=later_ns)
    kernel.apply({"p2": configured("p2", two_classes((0x1, 400_000), (0x3, 600_000)))})
    run_and_wait(first, second)
    ports = fresh_kernel.read()
    assert (ports["p1"][GateState].taprio, ports["p2"][GateState].taprio) == (None, None)


def test_a_list_that_is_too_long_is_refused(kernel, two_classes):
    with pytest.raises(AgentError, match=r"port p1: admin-control-list has 431 entries; the kerne"):
        kernel.apply({"p1": configured("p1", two_classes(*alternating(SOFTWARE_LIST_MAX + 1)))})


def test_hold_and_release_are_refused_with_the_name_of_the_driver(kernel, two_classes):
    asking = two_classes((0x1, 400_000, GateOperation.HOLD), (0x3, 600_000, GateOperation.RELEASE))
    with pytest.raises(AgentError) as refusal:
        kernel.apply({"p1": configured("p1", asking)})
    assert str(refusal.value).splitlines() == [
        (
            "port p1: gate control entries 0, 1: frame preemption: the driver of p1 (veth) has no "
            "MAC merge layer, IEEE 802.3 clause 99; ethtool --show-mm p1"
        ),
        (
            "port p1: gate control entries 0, 1: set-and-hold-mac and set-and-release-mac need the "
            "mode full-offload; in the mode software the kernel ignores them"
        ),
    ]


def test_the_operations_reach_the_kernel_and_are_read_back(kernel, two_classes, offloading_port):
    """The driver of this port takes anything, so it is handed over past what the agent refuses."""
    asking = two_classes((0x1, 400_000, GateOperation.HOLD), (0x3, 600_000, GateOperation.RELEASE))
    offloaded = replace(asking, mode=TaprioMode.FULL_OFFLOAD)
    with IPRoute(ext_ack=True) as ipr:
        index = kernel.read()[offloading_port].ifindex
        taprio.change(ipr, offloading_port, index, None, offloaded)
    assert kernel.read()[offloading_port][GateState].taprio == offloaded


def test_a_driver_that_names_no_limit_has_none(kernel, two_classes, offloading_port):
    offloaded = replace(two_classes((0x1, 400_000), (0x3, 600_000)), mode=TaprioMode.FULL_OFFLOAD)
    kernel.apply({offloading_port: configured(offloading_port, offloaded)})
    state = kernel.read()[offloading_port]
    assert state.driver == "netdevsim"
    assert state[GateState].limits == GateLimits()
    assert [count.tx_overruns for count in state[GateState].counters] == [None, None]


def test_software_gates_are_refused_where_hardware_forwards_past_them(
    kernel, two_classes, switch_ports
):
    first, second = switch_ports
    wanted = two_classes((0x1, 400_000), (0x3, 600_000))
    with pytest.raises(AgentError) as refusal:
        kernel.apply({first: configured(first, wanted)})
    switch_id = kernel.read()[first].switch_id
    assert str(refusal.value) == (
        f"port {first}: the hardware of switch {switch_id} (driver netdevsim) forwards frames from "
        f"{second} to {first}, which pass no gates of mode software; use full-offload, if the "
        f"driver has it, or take {first} out of br0, so that the kernel forwards"
    )
    assert kernel.read()[first][GateState].taprio is None

    offloaded = replace(wanted, mode=TaprioMode.FULL_OFFLOAD)
    kernel.apply({first: configured(first, offloaded)})
    assert kernel.read()[first][GateState].taprio == offloaded
    kernel.apply({})
    with IPRoute() as ipr:
        ipr.link("set", index=kernel.read()[second].ifindex, master=0)
    kernel.apply({first: configured(first, wanted), second: configured(second, wanted)})
    assert {kernel.read()[name][GateState].taprio for name in switch_ports} == {wanted}


def test_a_port_tells_who_and_how_it_is(kernel):
    state = kernel.read()["p1"]
    assert (state.driver, state.mac_address) == ("veth", "02:00:00:00:01:01")
    assert (state.oper_status, state.mac_merge) == (OperStatus.UP, None)
    assert state.statistics["in-octets"] >= 0
    with IPRoute() as ipr:
        ipr.link("set", index=state.ifindex, state="down")
    assert kernel.read()["p1"].oper_status is OperStatus.DOWN
