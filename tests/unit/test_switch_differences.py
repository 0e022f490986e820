"""What an operator reads when a port no longer does what is configured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.model import GateEntry, GateSchedule, Taprio, TaprioMode
from agent.model import Clock
from agent.switch import differences
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import altered, configured, port

SCHEDULE = GateSchedule(7, 1_000_000, (GateEntry(1, 400_000), GateEntry(3, 600_000)))
OTHER = replace(SCHEDULE, cycle_time_ns=2_000_000)
TAPRIO = Taprio(
    (0,) * 16, (QueueRange(1, 0), QueueRange(1, 1)), TaprioMode.SOFTWARE, Clock.TAI, SCHEDULE
)
WANTED = {"p1": configured("p1", TAPRIO, {46: 7})}
AGREEING = altered(port("p1"), taprio=TAPRIO, running=SCHEDULE, dscp_priorities={46: 7})
EMPTY = altered(port("p1"), dscp_priorities={46: 7})


def differences_of(desired, states):
    return differences(MECHANISMS, desired, states)


def running(taprio):
    return altered(AGREEING, taprio=taprio, running=taprio.schedule)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (EMPTY, "the gate control list is gone; the root qdisc is noqueue"),
        (
            replace(EMPTY, foreign_qdisc="pfifo 5:"),
            "the root qdisc pfifo 5: was not set by this agent",
        ),
        (
            running(replace(TAPRIO, schedule=OTHER)),
            (
                "another gate control list: 2 entries, cycle 2000000 ns, base time 7 ns "
                "instead of 2 entries, cycle 1000000 ns, base time 7 ns"
            ),
        ),
        (
            running(replace(TAPRIO, clock=Clock.MONOTONIC, priority_map=(1,) * 16)),
            "taprio with another clock, priority map",
        ),
        (
            running(replace(TAPRIO, max_sdu_octets=(0, 300))),
            "other frame size limits: (0, 300)",
        ),
        (altered(AGREEING, dscp_priorities={}), "DSCP 46 to priority 7 is missing"),
        (
            altered(AGREEING, dscp_priorities={46: 3}),
            "DSCP 46 to priority 7 is missing, DSCP 46 to priority 3 is not configured",
        ),
        (
            altered(EMPTY, dscp_priorities={}),
            (
                "DSCP 46 to priority 7 is missing; the gate control list is gone; "
                "the root qdisc is noqueue"
            ),
        ),
    ],
)
def test_each_difference_is_named(state, words):
    assert differences_of(WANTED, {"p1": state}) == {"p1": words}


def test_a_port_that_agrees_has_none():
    moved = replace(TAPRIO, schedule=replace(SCHEDULE, base_time_ns=5_000_007))
    assert differences_of(WANTED, {"p1": AGREEING}) == {}
    assert differences_of(WANTED, {"p1": running(moved)}) == {}


def test_a_port_that_is_absent_has_none():
    assert differences_of(WANTED, {}) == {}


def test_gates_on_a_port_nobody_configured_are_named():
    differences = differences_of({}, {"p1": altered(AGREEING, dscp_priorities={})})
    assert differences["p1"].startswith("a gate control list that is not configured: 2 entries")
