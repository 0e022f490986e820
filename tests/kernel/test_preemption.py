"""What a kernel without any MAC merge layer says to preemptable classes, and does afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from agent.mechanisms.gates import taprio
from agent.mechanisms.gates.model import GateConfig, GateState, TaprioMode
from agent.mechanisms.preemption.model import Preemptable
from agent.model import AgentError, PortConfig

LOWER = Preemptable((0,), (0,))
FIRST, SECOND = ((0x1, 400_000), (0x3, 600_000)), ((0x3, 500_000), (0x2, 500_000))

pytestmark = pytest.mark.virtual_time


@pytest.fixture(params=["software", "full-offload"])
def port(request, two_classes, offloading_port):
    """A port, its first and second list, and what the kernel says to preemptable classes there."""
    mode = TaprioMode(request.param)
    lists = [replace(two_classes(*entries), mode=mode) for entries in (FIRST, SECOND)]
    if mode is TaprioMode.SOFTWARE:
        return "p1", *lists, "Preemption only supported with full offload"
    return offloading_port, *lists, "Device does not support preemption"


def asked(name: str, gates: taprio.Taprio | None, its: Preemptable) -> dict[str, PortConfig]:
    return {name: PortConfig(name, (GateConfig(gates), its))}


def test_the_kernels_reason_is_told_and_the_gates_stay(kernel, port):
    name, first, second, reason = port
    kernel.apply(asked(name, first, Preemptable()))
    with pytest.raises(AgentError, match=reason):
        kernel.apply(asked(name, second, LOWER))
    assert kernel.read()[name][GateState].taprio == first
    kernel.apply(asked(name, second, Preemptable()))
    assert kernel.read()[name][GateState].taprio == second


def test_a_port_without_gates_stays_so(kernel, port):
    name, first, _, reason = port
    with pytest.raises(AgentError, match=reason):
        kernel.apply(asked(name, first, LOWER))
    assert kernel.read()[name][GateState].taprio is None


def test_a_taprio_keeps_what_it_has_refused(kernel, port):
    """Why express classes are handed over, too. If this fails, the kernel has been repaired."""
    name, first, second, reason = port
    kernel.apply(asked(name, first, Preemptable()))
    index = kernel.read()[name].ifindex
    with IPRoute(ext_ack=True) as ipr:
        for preemptable in ((0,), None):
            asking = replace(second, preemptable=preemptable)
            with pytest.raises(AgentError, match=reason):
                taprio.change(ipr, name, index, first, asking)
        taprio.change(ipr, name, index, first, replace(second, preemptable=()))
    assert kernel.read()[name][GateState].taprio == second


def test_no_port_of_this_kernel_has_a_mac_merge_layer(kernel, offloading_port):
    states = kernel.read()
    assert {states["p1"].mac_merge, states[offloading_port].mac_merge} == {None}
