"""Gates on an emulated link reckon with its rate, not with the 10 Gb/s that a veth says."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from agent import main as agent
from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.model import UNKNOWN_LENGTHS, ClassCounters, GateState
from agent.mechanisms.gates.taprio import change
from agent.model import AgentError
from agent.switch import Switch
from tests.kernel.conftest import FAR, NS_PER_S, routes_of
from tests.stack.recording_kernel import configured

pytestmark = pytest.mark.virtual_time

MAC_OCTETS = 14
WIRE_OCTETS = MAC_OCTETS + 24  # around a packet: header, preamble, check sequence, gap
ONE_FIFTH = (0x2, 200_000), (0x1, 800_000)
MBPS = 1_000_000


def emulating(rate_bps: int) -> Switch:
    return Switch(KernelPorts(MECHANISMS, {"p1": rate_bps}))


@pytest.fixture
def run(ports, eventually):
    """Set a taprio on p1, whose link is emulated at a rate, and wait until it runs."""
    with ExitStack() as stack:

        def apply(rate_bps, taprio):
            switch = emulating(rate_bps)
            stack.callback(switch.ports.close)
            emulated = switch.read()["p1"].emulated
            switch.apply({"p1": configured("p1", replace(taprio, emulated=emulated))})
            eventually(lambda: switch.read()["p1"][GateState].running == taprio.schedule)
            return switch

        yield apply


@pytest.fixture
def jumbo_frames(ports):
    with IPRoute() as switch, routes_of(FAR) as far:
        for ipr, name in ((switch, "p1"), (far, "q1")):
            ipr.link("set", index=ipr.link_lookup(ifname=name)[0], mtu=9000)


@pytest.mark.parametrize("rate_bps", [1000 * MBPS, 100 * MBPS])
def test_a_gate_that_is_open_for_a_fifth_passes_a_fifth_of_the_links_rate(
    two_classes, run, payload_bps, rate_bps
):
    run(rate_bps, two_classes(*ONE_FIFTH))
    possible_bps = rate_bps / 5 * 1200 / (1200 + WIRE_OCTETS)
    assert payload_bps(1200, 50, offered_each_ms=100) == pytest.approx(possible_bps, rel=0.01)


def test_a_frame_of_9000_octets_takes_its_time_at_100_megabits(
    two_classes, run, payload_bps, jumbo_frames
):
    """The longest that the kernel has to count: 903,800 octets at the 10 Gb/s of the device."""
    run(100 * MBPS, two_classes((0x2, 8_000_000), (0x1, 2_000_000)))
    frames_a_window = 8_000_000 * 100 * MBPS // NS_PER_S // 8 // (9000 + WIRE_OCTETS)
    possible_bps = frames_a_window * 9000 * 8 * 100
    assert payload_bps(9000, 100, offered_each_ms=5) == pytest.approx(possible_bps, rel=0.01)


@pytest.mark.parametrize("rate_bps", [1000 * MBPS, 100 * MBPS])
def test_octets_are_counted_as_they_are_sent(two_classes, run, passes, rate_bps):
    switch = run(rate_bps, two_classes((0x3, 400_000), (0x3, 600_000)))
    for sdu_octets in (100, 733, 1500):
        assert passes(sdu_octets)
    assert switch.read()["p1"][GateState].counters == (
        ClassCounters(frames=0, octets=0, drops=0),
        ClassCounters(frames=3, octets=100 + 733 + 1500 + 3 * MAC_OCTETS, drops=0),
    )


def test_a_frame_too_long_for_its_window_at_the_links_rate_is_dropped_and_blocks_no_other(
    two_classes, run, passes
):
    """10 us at 1 Gb/s: 1250 octets; the kernel itself would let 12,500 wait for such a window."""
    windowed = two_classes((0x1, 490_000), (0x3, 10_000), (0x1, 500_000))
    switch = run(1000 * MBPS, windowed)
    longest_octets = 1250 - WIRE_OCTETS
    assert not passes(longest_octets + 1)
    assert switch.read()["p1"].statistics["out-discards"] == 1
    assert passes(longest_octets - 20)
    assert switch.read()["p1"][GateState].taprio.max_sdu_octets == ()


def test_a_size_table_that_another_program_has_set_is_drift_and_set_right_in_place(
    two_classes, run, passes
):
    taprio = two_classes((0x3, 400_000), (0x3, 600_000))
    switch = run(1000 * MBPS, taprio)
    asked = replace(taprio, emulated=switch.read()["p1"].emulated)
    assert passes(100)
    with IPRoute() as ipr:
        index = ipr.link_lookup(ifname="p1")[0]
        change(ipr, "p1", index, asked, replace(asked, emulated=None))
    assert switch.read()["p1"][GateState].taprio.emulated == UNKNOWN_LENGTHS
    (step,) = switch.apply({"p1": configured("p1", asked)}).steps
    assert "another size table" in step.changes[0].difference
    assert switch.read()["p1"][GateState].taprio == asked
    assert switch.apply({"p1": configured("p1", asked)}).steps == ()
    assert switch.read()["p1"][GateState].counters[1].frames == 1


def test_an_agent_that_is_told_the_rate_of_no_port_does_not_start(ports):
    assert agent.main(["--emulate", "p1=1000000000,p9=1000000000"]) == agent.BAD_ARGUMENTS


def test_no_rate_is_emulated_on_a_port_whose_driver_knows_its_speed(offloading_port):
    with pytest.raises(AgentError, match="its driver is netdevsim"):
        KernelPorts(MECHANISMS, {offloading_port: 1000 * MBPS})
    with pytest.raises(AgentError, match=r"port p9: .* there is no such interface"):
        KernelPorts(MECHANISMS, {"p9": 1000 * MBPS})
