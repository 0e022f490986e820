"""Several mechanisms share a kernel object: who stands where, what is kept, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.model import GateEntry, GateSchedule, GateState, Taprio, TaprioMode
from agent.memory_ports import MemoryPorts, rehearsal_ports
from agent.model import AgentError, Clock
from agent.switch import Switch
from agent.traffic_classes import QueueRange
from tests.kernel.toy_mechanisms import (
    COUNTED,
    PRIORITY,
    QUEUE_LIMIT,
    Counted,
    Priority,
    QueueLimit,
    asking,
)
from tests.stack.recording_kernel import configured

GATES = next(each for each in MECHANISMS if each.name == "gates")
SCHEDULE = GateSchedule(0, 1_000_000, (GateEntry(1, 1_000_000),))
TAPRIO = Taprio((0,) * 16, (QueueRange(1, 0),), TaprioMode.SOFTWARE, Clock.TAI, SCHEDULE)
BOTH = asking(configured("p1"), Counted(is_on=True), Priority(5))


@pytest.fixture
def switch() -> Switch:
    ports = MemoryPorts([PRIORITY, COUNTED, QUEUE_LIMIT, GATES], rehearsal_ports(["p1", "p2"]))
    return Switch(ports)


def owners(step):
    return [each.owner for each in step.before], [each.owner for each in step.after]


def test_contributions_stand_in_the_order_of_their_places_whoever_is_registered_first(switch):
    (step,) = switch.apply({"p1": BOTH}).steps
    assert owners(step) == ([], ["counted", "priority"])


def test_a_change_of_one_mechanism_keeps_what_the_others_contribute(switch):
    switch.apply({"p1": BOTH})
    (step,) = switch.apply({"p1": asking(configured("p1"), Counted(is_on=True))}).steps
    assert owners(step) == (["counted", "priority"], ["counted"])
    assert [change.port for change in step.changes] == ["p1"]


def test_an_object_of_two_mechanisms_is_replaced_once_and_undone_once(switch):
    before = switch.read()
    applied = switch.apply({"p1": asking(configured("p1", TAPRIO), QueueLimit({0: 500}))})
    (step,) = applied.steps
    assert owners(step) == ([], ["gates", "limit"])
    assert len(step.changes) == 2
    applied.undo()
    assert switch.read() == before


def test_what_shares_no_object_takes_a_step_of_its_own(switch):
    desired = {"p1": BOTH, "p2": asking(configured("p2", TAPRIO), QueueLimit({0: 500}))}
    assert [step.target.port for step in switch.apply(desired).steps] == ["p1", "p2"]


def test_a_child_whose_root_goes_is_refused_with_the_name_of_its_mechanism(switch):
    limit = QueueLimit({0: 500})
    switch.apply({"p1": asking(configured("p1", TAPRIO), limit)})
    before = switch.read()
    with pytest.raises(AgentError, match=r"^port p1: limit needs gates on this port: a pfifo"):
        switch.apply({"p1": asking(configured("p1"), limit)})
    assert switch.read() == before


def test_two_mechanisms_that_ask_for_one_place_are_both_named():
    def of_rival(change):
        return replace(change, after=tuple(replace(each, owner="rival") for each in change.after))

    rival = replace(COUNTED, diff=lambda *asked: map(of_rival, COUNTED.diff(*asked)))
    switch = Switch(MemoryPorts([COUNTED, rival], rehearsal_ports(["p1"])))
    with pytest.raises(AgentError, match="port p1: counted and rival ask for one place in"):
        switch.apply({"p1": BOTH})


def test_gates_that_agree_stay_as_they_are_when_a_child_changes(switch):
    moved = replace(TAPRIO, schedule=replace(SCHEDULE, base_time_ns=5_000_000))
    switch.apply({"p1": configured("p1", TAPRIO)})
    switch.apply({"p1": asking(configured("p1", moved), QueueLimit({0: 500}))})
    assert switch.read()["p1"][GateState].taprio == TAPRIO
