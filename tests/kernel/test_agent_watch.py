"""The agent watches its kernel: it reports what somebody changed, and mends what stands still."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import ctypes
import signal
import struct
import subprocess
import time
from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from agent.datastore.failed_ports import RETRY_S
from agent.mechanisms.gates.model import GateState
from tests.kernel.agent_notifications import subscribed
from tests.kernel.conftest import FAR, QUEUES, VIRTUAL_TIME
from tests.kernel.test_agent import start  # noqa: F401
from tests.kernel.test_taprio_gates import closed_ns
from tests.stack.recording_kernel import configured
from tests.stack.sysrepo_client import BRIDGE_PORT, HALF_AND_HALF, entry, gated

CYCLES = 100
CYCLE_NS = 1_000_000
# On an emulated processor of a busy machine only that it is reported says something of the agent.
REPORTED_WITHIN_S = 1.0 if VIRTUAL_TIME else 30.0
OTHER_HALF_FIRST = (entry(0, 0b01, 500_000), entry(1, 0b10, 500_000))


@pytest.fixture
def told(client):
    with subscribed() as notifications:
        yield notifications


@pytest.fixture
def agent(start, client, told):
    """An agent whose port p1 runs a schedule in which skb priority 1 is class 1."""
    process = start()
    client.replace(with_priority_1_in_class_1("p1"))
    return process


@pytest.fixture
def runs(kernel, eventually):
    """Waits until p1 runs its schedule, and returns that."""

    def wait():
        eventually(
            lambda: (state := kernel.read().get("p1")) and state[GateState].running is not None
        )
        return kernel.read()["p1"][GateState].running

    return wait


@pytest.fixture
def in_phase(runs, send_both_classes):
    """Whether all frames come through p1, and only through open gates."""

    def check():
        schedule = runs()
        traffic = send_both_classes(CYCLES, CYCLE_NS)
        return len(traffic.frames) == traffic.sent and all(
            closed_ns(frame, schedule) < 1000 for frame in traffic.frames
        )

    return check


@pytest.fixture
def lose_link(kernel, eventually):
    """Takes p1's link away for long enough that its qdisc is deactivated, and gives it back."""

    def lose():
        run("ip", "-n", FAR, "link", "set", "q1", "down")
        eventually(lambda: not kernel.read()["p1"].link_is_up)
        time.sleep(1)  # the kernel deactivates at most one second later (linkwatch)
        run("ip", "-n", FAR, "link", "set", "q1", "up")
        eventually(lambda: kernel.read()["p1"].link_is_up)

    return lose


@pytest.fixture(params=[("p1",), ("-n", FAR, "q1")], ids=["this end", "the far end"])
def first_link(start, client, kernel, eventually, request):
    """Gives p1 a link that it has not had since its agent was started and its list was set."""
    *netns, end = request.param
    neighbour = run("ip", "-4", "neigh", "show", "dev", "p1").split()[:3]
    run("ip", *netns, "link", "set", end, "down")
    eventually(lambda: not kernel.read()["p1"].link_is_up)
    start()
    client.replace(with_priority_1_in_class_1("p1"))
    assert kernel.read()["p1"][GateState].taprio is not None

    def come_up():
        run("ip", *netns, "link", "set", end, "up")
        run("ip", "neigh", "replace", *neighbour, "dev", "p1", "nud", "permanent")
        eventually(lambda: kernel.read()["p1"].link_is_up)

    return come_up


def with_priority_1_in_class_1(name, entries=HALF_AND_HALF, **options):
    port = gated(name, entries, **options)
    port[BRIDGE_PORT]["traffic-class"]["traffic-class-table"] |= {"priority1": 1}
    return port


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def create_p1():
    queues = ("numtxqueues", str(QUEUES), "numrxqueues", str(QUEUES))
    run("ip", "link", "add", "p1", *queues, "type", "veth", "peer", "name", "late")


def set_clock_ahead(seconds):
    now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    time.clock_settime_ns(time.CLOCK_REALTIME, now_ns + round(seconds * 1e9))


def set_tai_offset(seconds):
    timex = bytearray(256)
    adj_tai = 0x80
    struct.pack_into("I", timex, 0, adj_tai)
    struct.pack_into("q", timex, 48, seconds)  # `constant` of struct timex
    libc = ctypes.CDLL(None)
    assert libc.adjtimex((ctypes.c_char * len(timex)).from_buffer(timex)) >= 0


# --- drift is reported, and left ---------------------------------------------------------------


@pytest.mark.reference
def test_a_qdisc_that_somebody_removed_is_reported_and_not_put_back(agent, told, kernel, runs):
    runs()
    removed_s = time.monotonic()
    run("tc", "qdisc", "del", "dev", "p1", "root")
    told_s = told.wait_for("port-drift", interface="p1")
    assert told_s - removed_s < REPORTED_WITHIN_S
    (drift,) = told.named("port-drift")
    assert drift["difference"].startswith("the gate control list is gone")
    assert kernel.read()["p1"][GateState].taprio is None


def test_a_port_that_was_put_right_again_is_reported(agent, told, kernel, runs):
    runs()
    taprio = kernel.read()["p1"][GateState].taprio
    run("tc", "qdisc", "del", "dev", "p1", "root")
    told.wait_for("port-drift", interface="p1")
    kernel.apply({"p1": configured("p1", taprio, {46: 7})})
    told.wait_for("port-restored", interface="p1")


def test_a_list_that_somebody_changed_is_named(agent, told, kernel, runs):
    schedule = runs()
    longer = replace(schedule, cycle_time_ns=2 * CYCLE_NS, entries=schedule.entries * 2)
    taprio = replace(kernel.read()["p1"][GateState].taprio, schedule=longer)
    kernel.apply({"p1": configured("p1", taprio, {46: 7})})
    told.wait_for("port-drift", interface="p1")
    assert "cycle 2000000 ns" in told.named("port-drift")[0]["difference"]


def test_rules_that_somebody_flushed_are_reported(agent, told):
    flushed_s = time.monotonic()
    run("iptables", "-t", "mangle", "-F", "TSN-CLASSIFY")
    told_s = told.wait_for(
        "port-drift", interface="p1", difference="DSCP 46 to priority 7 is missing"
    )
    assert told_s - flushed_s < REPORTED_WITHIN_S


def test_its_own_changes_are_no_drift(agent, told, client):
    for base_time_s in range(1, 20):
        client.replace(gated("p1", base_time_s=base_time_s), gated("p2"))
        client.replace()
    time.sleep(1)
    assert told.named("port-drift") == []


def test_drift_is_found_although_the_kernel_had_to_drop_its_messages(agent, told, runs):
    runs()
    agent.send_signal(signal.SIGSTOP)
    run("tc", "qdisc", "del", "dev", "p1", "root")
    with IPRoute() as ipr:
        index = ipr.link_lookup(ifname="p2")[0]
        for number in range(1000):
            ipr.link("set", index=index, ifalias=f"message {number}")
    agent.send_signal(signal.SIGCONT)
    told.wait_for("port-drift", interface="p1")


# --- links come and go -------------------------------------------------------------------------


@pytest.mark.virtual_time
def test_a_schedule_moves_on_after_the_link_was_lost(agent, told, in_phase):
    assert in_phase()
    run("ip", "-n", FAR, "link", "set", "q1", "down")
    told.wait_for("port-state-change", interface="p1", **{"oper-status": "down"})
    run("ip", "-n", FAR, "link", "set", "q1", "up")
    told.wait_for("port-state-change", interface="p1", **{"oper-status": "up"})
    assert in_phase()
    assert told.named("port-drift") == []


@pytest.mark.virtual_time
def test_a_schedule_moves_on_after_a_loss_that_the_agent_slept_through(agent, in_phase, lose_link):
    assert in_phase()
    agent.send_signal(signal.SIGSTOP)
    lose_link()
    agent.send_signal(signal.SIGCONT)
    time.sleep(1)
    assert in_phase()


def test_a_schedule_that_the_kernel_refused_to_set_anew_is_set_when_it_can_be(
    agent, kernel, runs, lose_link, eventually
):
    """While the link is lost somebody leaves the port one queue, too few for its two classes."""
    runs()
    configured = kernel.read()["p1"][GateState].taprio
    run("ethtool", "-L", "p1", "tx", "1")
    lose_link()
    eventually(lambda: kernel.read()["p1"][GateState].taprio is None)
    run("ethtool", "-L", "p1", "tx", str(QUEUES))
    time.sleep(RETRY_S)
    eventually(lambda: kernel.read()["p1"][GateState].running is not None)
    assert kernel.read()["p1"][GateState].taprio == configured


@pytest.mark.virtual_time
def test_a_list_that_was_set_before_the_first_link_moves_on_without_being_set_anew(
    first_link, in_phase, capfd
):
    first_link()
    time.sleep(2)
    assert "restarting" not in capfd.readouterr().err
    assert in_phase()


def test_an_interface_that_is_created_later_gets_its_configuration(
    agent, told, client, kernel, eventually
):
    wanted = kernel.read()["p1"][GateState].taprio
    run("ip", "link", "del", "p1")
    told.wait_for("port-state-change", interface="p1", **{"oper-status": "not-present"})
    client.replace(with_priority_1_in_class_1("p1"), gated("p2"))
    create_p1()
    eventually(lambda: kernel.read()["p1"][GateState].taprio == wanted)
    assert told.named("port-drift") == []


def test_an_interface_that_vanished_in_drift_is_told_to_be_restored_when_it_is_created_again(
    agent, told, runs
):
    runs()
    run("tc", "qdisc", "del", "dev", "p1", "root")
    told.wait_for("port-drift", interface="p1")
    run("ip", "link", "del", "p1")
    told.wait_for("port-state-change", interface="p1", **{"oper-status": "not-present"})
    create_p1()
    told.wait_for("port-restored", interface="p1")


def test_an_interface_that_is_missing_at_the_start_leaves_the_others_in_force(
    agent, start, client, kernel, eventually
):
    client.replace(with_priority_1_in_class_1("p1"), gated("p2"))
    agent.kill()
    agent.wait()
    run("ip", "link", "set", "p1", "down")
    run("ip", "link", "set", "p1", "name", "away")
    run("tc", "qdisc", "del", "dev", "p2", "root")
    start()
    assert kernel.read()["p2"][GateState].taprio is not None
    run("ip", "link", "set", "away", "name", "p1")
    eventually(lambda: kernel.read()["p1"][GateState].taprio is not None)


def test_a_port_gets_its_configuration_once_a_foreign_qdisc_is_out_of_its_way(
    start, client, kernel, eventually
):
    client.replace(gated("p1"))
    run("tc", "qdisc", "add", "dev", "p1", "root", "handle", "1:", "pfifo")
    start()
    assert kernel.read()["p1"].foreign_qdisc == "pfifo 1:"
    run("tc", "qdisc", "del", "dev", "p1", "root")
    eventually(lambda: kernel.read()["p1"][GateState].running is not None)


@pytest.mark.virtual_time
def test_an_interface_that_was_renamed_away_and_back_does_what_it_did(agent, told, in_phase):
    assert in_phase()
    run("ip", "-n", FAR, "link", "set", "q1", "down")
    run("ip", "link", "set", "p1", "name", "away")
    told.wait_for("port-state-change", interface="p1", **{"oper-status": "not-present"})
    run("ip", "link", "set", "away", "name", "p1")
    run("ip", "-n", FAR, "link", "set", "q1", "up")
    told.wait_for("port-state-change", interface="p1", **{"oper-status": "up"})
    assert in_phase()


# --- clocks are set ----------------------------------------------------------------------------


@pytest.mark.virtual_time
@pytest.mark.parametrize("seconds", [-3600, -0.01, 0.01, 60])
def test_a_schedule_is_in_phase_with_a_clock_that_was_set(agent, told, in_phase, seconds):
    assert in_phase()
    set_clock_ahead(seconds)
    told.wait_for("clock-step", **{"step-ns": round(seconds * 1e9)})
    assert in_phase()


@pytest.mark.virtual_time
def test_a_schedule_is_in_phase_with_a_new_tai_offset(agent, told, in_phase):
    for offset_s, step_s in ((37, 37), (0, -37)):
        set_tai_offset(offset_s)
        told.wait_for("clock-step", **{"tai-offset": offset_s, "step-ns": step_s * 10**9})
        assert in_phase()


@pytest.mark.virtual_time
def test_a_list_that_waits_survives_a_clock_that_was_set_back(agent, told, client, kernel, runs):
    old = runs()
    ahead_s = int(time.clock_gettime(time.CLOCK_TAI)) + 20
    client.replace(with_priority_1_in_class_1("p1", OTHER_HALF_FIRST, base_time_s=ahead_s))
    pending = kernel.read()["p1"][GateState].pending
    assert pending.base_time_ns == ahead_s * 10**9
    set_clock_ahead(-5)
    told.wait_for("clock-step")
    state = kernel.read()["p1"]
    assert (state[GateState].running, state[GateState].pending) == (old, pending)
    time.sleep(26)
    assert kernel.read()["p1"][GateState].running == pending
    assert told.named("port-drift") == []


@pytest.mark.virtual_time
def test_a_clock_set_back_while_no_agent_ran_is_noticed_by_the_next(agent, start, told, in_phase):
    assert in_phase()
    agent.kill()
    agent.wait()
    set_clock_ahead(-3600)
    start()
    assert in_phase()


@pytest.mark.virtual_time
def test_a_link_lost_while_no_agent_ran_is_noticed_by_the_next(agent, start, in_phase, lose_link):
    assert in_phase()
    agent.kill()
    agent.wait()
    lose_link()
    start()
    assert in_phase()
