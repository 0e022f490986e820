"""Launch times of a port: what is asked, what is refused, what is reported, without a kernel."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from agent.kernel.sched_etf import OFFLOAD
from agent.mechanism import Refused, ReportContext
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.model import GateConfig, GateState
from agent.mechanisms.launch_time.desired import LAUNCH_TIME, configured, operational
from agent.mechanisms.launch_time.model import Discarded, LaunchTime
from agent.memory_ports import MemoryPorts
from agent.model import AgentError, PortConfig
from agent.root_qdisc import CLASSES, ROOT, ChildQdisc
from agent.switch import Switch
from agent.traffic_classes import QueueRange
from tests.unit.test_switch import BARE, TAPRIO

BRIDGE_PORT = "ieee802-dot1q-bridge:bridge-port"


def asked(*priorities, mode="software", delta_ns=300_000, **bridge_port):
    leaves = {"mode": mode, "delta-ns": delta_ns, "priority": list(priorities)}
    return configured({LAUNCH_TIME: leaves, BRIDGE_PORT: bridge_port}, None)


def etf(queue, delta_ns=300_000, flags=0):
    options = (("clockid", time.CLOCK_TAI), ("delta_ns", delta_ns), ("flags", flags))
    return ChildQdisc(queue, "etf", options)


def classes(number, **by_priority):
    return {"traffic-class-table": {"number-of-traffic-classes": number, **by_priority}}


@pytest.fixture
def switch():
    return Switch(MemoryPorts(MECHANISMS, [BARE]))


def apply(switch, launch, taprio=None):
    return switch.apply({"p1": PortConfig("p1", (GateConfig(taprio), launch))})


def test_each_priority_has_the_etf_of_its_queue():
    its = asked(5, 3)
    assert its.queues == (etf(3), etf(5))
    assert its.classes.queues == tuple(QueueRange(1, queue) for queue in range(8))
    assert its.by_priority == {3: etf(3), 5: etf(5)}


def test_all_queues_of_a_class_get_an_etf():
    taprio = {"queue": [{"traffic-class": 0, "offset": 0}, {"traffic-class": 1, "offset": 2}]}
    taprio["queue"][1]["count"] = 2
    its = asked(6, **{"traffic-class": classes(2), "tsn-linux:taprio": taprio})
    assert its.queues == (etf(2), etf(3))


def test_hardware_is_asked_of_the_device():
    assert asked(5, mode="hardware").queues == (etf(5, flags=OFFLOAD),)


def test_a_priority_in_the_class_of_best_effort_is_refused():
    with pytest.raises(Refused, match="priority 2 has traffic class 0, which is that of priority"):
        asked(2, **{"traffic-class": classes(2)})


def test_without_gates_the_port_gets_a_root_for_its_queues(switch):
    (step,) = apply(switch, asked(5)).steps
    assert [each.place for each in step.after] == [CLASSES, ROOT + 1 + 5]
    assert switch.read()["p1"].root_qdisc == "mqprio"
    assert apply(switch, asked(5)).steps == ()
    apply(switch, LaunchTime())
    assert switch.read()["p1"].root_qdisc == "noqueue"


def test_with_gates_one_object_changes_once(switch):
    its = asked(
        1, **{"traffic-class": classes(2, **{f"priority{p}": int(p == 1) for p in range(8)})}
    )
    applied = apply(switch, its, TAPRIO)
    (step,) = (each for each in applied.steps if each.after[0].place <= ROOT)
    assert [each.place for each in step.after] == [CLASSES, ROOT, ROOT + 2]
    state = switch.read()["p1"]
    assert (state[GateState].taprio, state[LaunchTime]) == (TAPRIO, its)
    applied.undo()
    assert switch.read()["p1"][LaunchTime] == LaunchTime()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tx_queues": 4}, "needs 8 TX queues, has 4"),
        ({"foreign_qdisc": "prio 5:"}, "its root qdisc prio 5: was not set by this agent"),
    ],
)
def test_a_port_that_cannot_have_them_is_refused(changes, reason):
    with pytest.raises(AgentError, match=reason):
        apply(Switch(MemoryPorts(MECHANISMS, [replace(BARE, **changes)])), asked(5))


def test_what_the_kernel_has_is_reported_by_priority():
    state = BARE.with_part(asked(5, 3)).with_part(Discarded({5: 7}))
    leaves = {"mode": "software", "delta-ns": 300_000}
    assert operational(state, ReportContext(lambda _clock: 0)) == {
        LAUNCH_TIME: {
            "kernel": [
                {"priority": 3, **leaves, "discarded-frames": "0"},
                {"priority": 5, **leaves, "discarded-frames": "7"},
            ]
        }
    }
    assert operational(BARE, ReportContext(lambda _clock: 0)) == {}


def test_a_difference_names_what_the_kernel_has_and_what_is_configured(switch):
    apply(switch, asked(5))
    (change,) = apply(switch, asked(5, delta_ns=1_000)).changes
    assert change.difference == (
        "launch time: priority 5 software, delta 300000 ns, "
        "configured is priority 5 software, delta 1000 ns"
    )
