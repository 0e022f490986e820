"""What the operational tree says, where no sysrepo is needed to tell."""

from __future__ import annotations

import dataclasses

import pytest

from agent.model import Clock, GateEntry, QueueRange, Schedule, Taprio, TaprioMode
from agent.operational import gate_states, interfaces
from tests.stack.recording_kernel import port

SCHEDULE = Schedule(1000, 100, (GateEntry(1, 60), GateEntry(2, 30)))


def published(state, now_ns=0):
    (interface,) = interfaces({state.name: state}, {}, lambda _clock: now_ns)["interfaces"][
        "interface"
    ]
    return interface["ieee802-dot1q-bridge:bridge-port"]


@pytest.mark.parametrize(
    ("now_ns", "states"), [(1000, 1), (1059, 1), (1060, 2), (1089, 2), (1100, 1), (98_761, 2)]
)
def test_the_gates_are_those_of_the_entry_the_cycle_is_in(now_ns, states):
    assert gate_states(SCHEDULE, now_ns) == states


def test_the_last_entry_stays_until_the_cycle_ends():
    assert gate_states(SCHEDULE, 1095) == 2


def test_a_foreign_qdisc_is_named():
    state = port("p1", foreign_qdisc="fq_codel 8001:")
    assert published(state)["tsn-linux:taprio"]["kernel"]["root-qdisc"] == "foreign: fq_codel 8001:"


def test_a_link_of_unknown_speed_publishes_none():
    state = dataclasses.replace(port("p1"), link_speed_bps=None)
    assert "link-speed-bps" not in published(state)["tsn-linux:taprio"]["kernel"]


def test_the_current_time_is_that_of_the_clock_the_schedule_runs_on():
    asked = []
    taprio = Taprio((0,) * 16, (QueueRange(1, 0),), TaprioMode.SOFTWARE, Clock.MONOTONIC, SCHEDULE)
    states = {"p1": dataclasses.replace(port("p1"), taprio=taprio)}
    interfaces(states, {}, lambda clock: asked.append(clock) or 0)
    assert asked == [Clock.MONOTONIC]


def test_an_agent_that_did_not_see_the_change_reports_the_base_time_as_its_time():
    state = dataclasses.replace(port("p1"), running=SCHEDULE)
    gates = published(state, now_ns=5000)["ieee802-dot1q-sched-bridge:gate-parameter-table"]
    assert gates["config-change-time"] == {"seconds": 0, "nanoseconds": 1000}
