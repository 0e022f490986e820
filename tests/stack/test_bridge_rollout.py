"""Bridges as members of rollouts: real agents and NETCONF servers, ports and bridges in memory."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.data_tree.counters import RECOVERY_COUNTERS
from cnc.data_tree.state import SwitchState
from cnc.errors import RolloutError
from cnc.mechanisms.composition import within
from cnc.mechanisms.frer.model import Generation, Recovery, SequenceFunctions
from cnc.mechanisms.stream_filters.model import StreamFilters, normal
from cnc.model import BridgeForwarding, Parts, Plan, StoredBridge
from cnc.planner import plan as compute
from cnc.rollout import doctor, follow, push, status
from cnc.rollout.events import Step, StepBegun
from cnc.rollout.history import History, Outcome
from cnc.rollout.preflight import Verdict
from cnc.switch.device import Device, Managed, StoredSwitch
from cnc.switch.payload import desired_nodes, edit_config
from cnc.switch.rollout_id import RolloutId
from cnc.switch.subscription import Subscription
from cnc.testbed.lab.rehearsal import Rehearsal, rehearsal
from cnc.watch.condition import Event, Kind
from cnc.watch.following import Follower
from cnc.watch.observation import Observation
from cnc.watch.observer import Observer
from tests.intent_documents import (
    CLASSES,
    ROUTED_CLASSES,
    addresses_of,
    defaults_of,
    stream,
    topology,
)
from tests.unit.asked import asked, bridge_forwarding

SWITCHES = ("s1", "s2", "s3")
PORTS = ("s1", "s2", "s3", "t1", "l1", "l2")
BRIDGE = "br0"
# The two streams, and who listens to them.
Listeners = dict[str, list[str]]
BOTH: Listeners = {"camera": ["l1", "l2"], "motion": ["l1"]}


@dataclass(frozen=True)
class Network:
    """t1 ── s1 ── s2 ── l1, with s3 ── l2 at both s1 and s2; and an operator of it."""

    running: Rehearsal
    history: History

    def plan(
        self,
        listeners: Listeners | None = None,
        *,
        vlan: int = 10,
        bridge: str = BRIDGE,
        forwarding: str = "bridged",
        twice: dict[str, Any] | None = None,
        policing: str = "",
    ) -> Plan:
        """`twice` are keys of a stream from t1 to l1 by both ways, beside the others."""
        joins = [("s1", "s2"), ("s2", "s3"), ("s1", "s3")]
        ends = {"t1": "s1", "l1": "s2", "l2": "s3"}
        streams = {name: stream("t1", *its) for name, its in (listeners or BOTH).items()}
        if twice:
            streams["twice"] = stream("t1", "l1") | {"paths": 2} | twice
        document = {
            "name": "bridges",
            "forwarding": forwarding,
            **({"policing": policing} if policing else {}),
            "defaults": defaults_of(self.running),
            **topology(joins, ends, addresses_of(self.running)),
            "streams": streams,
        }
        if forwarding == "bridged":
            document |= {"addresses": {"vlans": [vlan]}, "classes": CLASSES}
        else:
            document["classes"] = ROUTED_CLASSES
        if bridge != BRIDGE:
            for switch in document["switches"].values():
                switch["bridge"] = bridge
        return compute(intents.from_document(document, "bridges"))

    def push(self, plan: Plan, **options: Any) -> Any:
        connect = self.running.connect
        return push(plan, connect=connect, history=self.history, take_over=True, **options)

    def session(self, switch: str) -> Device:
        node = Managed(switch, self.running.managements[switch], bridges=frozenset({BRIDGE}))
        return Device(node, self.running.connect)

    def state(self, switch: str) -> SwitchState:
        with self.session(switch) as device:
            return device.state([BRIDGE])

    def stored(self, switch: str) -> StoredSwitch:
        with self.session(switch) as device:
            return device.stored([BRIDGE])

    def forwards(self, switch: str) -> BridgeForwarding:
        """What the bridge of the switch does."""
        report = self.state(switch).bridge(BRIDGE)
        assert report
        return report.forwarding

    def configured(self, switch: str) -> BridgeForwarding:
        stored = self.stored(switch).ports[BRIDGE][StoredBridge].forwarding
        assert stored
        return stored

    def edit(self, switch: str, told: BridgeForwarding) -> None:
        """As another client configures a bridge, beside what is there."""
        rollout_id = RolloutId.of_this_controller()
        with self.session(switch) as device:
            before = device.stored([BRIDGE]).ports
            device.edit(edit_config({BRIDGE: asked(told)}, 0, before, rollout_id))
            device.commit_confirmed(30, "another client")
            device.confirm("another client")


@pytest.fixture(scope="module")
def running() -> Iterator[Rehearsal]:
    with rehearsal(SWITCHES, PORTS, bridge=BRIDGE) as started:
        yield started


@pytest.fixture
def network(running: Rehearsal, tmp_path: Path) -> Iterator[Network]:
    with History(tmp_path / "history.sqlite") as history:
        network = Network(running, history)
        for name in SWITCHES:  # which know nothing of streams, whatever another test left there
            network.edit(name, BridgeForwarding({}, dict.fromkeys((10, 20, 99), ()), ()))
        yield network


def told(plan: Plan) -> dict[str, BridgeForwarding]:
    """What bridges are told by a plan, as it is read back."""
    told = ((name, bridge_forwarding(plan, name)) for name in SWITCHES)
    return {
        name: its.having(StreamFilters(tuple(map(normal, its[StreamFilters].filters))))
        for name, its in told
    }


def test_a_push_brings_filtering_entries_and_gates_as_one_change(network: Network):
    plan = network.plan()
    report = network.push(plan)
    assert {name: network.forwards(name) for name in SWITCHES} == told(plan)
    assert {name: network.configured(name) for name in SWITCHES} == told(plan)
    kept = network.history.rollout(report.number)
    assert {name: change.outcome for name, change in kept.switches.items()} == dict.fromkeys(
        SWITCHES, Outcome.SAVED
    )
    assert kept.switches["s1"].after[BRIDGE] == asked(told(plan)["s1"])
    assert all(port.agrees for port in status(plan, connect=network.running.connect))


def test_a_plan_that_runs_is_not_sent_again(network: Network):
    plan = network.plan()
    network.push(plan)
    again = network.push(plan)
    assert not again.changes
    assert again.compares_forwarding


def test_a_stream_that_loses_a_listener_leaves_by_fewer_ports(network: Network):
    network.push(network.plan())
    fewer = network.plan(BOTH | {"camera": ["l1"]})
    report = network.push(fewer)
    why = {str(each.port): each.why for each in report.changes}
    assert "frames of camera (" in why["s1/br0"]
    assert "leave by s2 instead of s2 and s3" in why["s1/br0"]
    assert {name: network.forwards(name) for name in SWITCHES} == told(fewer)


def test_a_port_that_streams_come_back_to_takes_their_priority_from_the_pcp_again(network: Network):
    network.push(network.plan())
    network.push(network.plan({"motion": ["l1"]}))
    plan = network.plan()
    network.push(plan)
    assert network.configured("s3").trusting == told(plan)["s3"].trusting == ("s1",)


def test_a_stream_that_ends_leaves_no_entry_behind(network: Network):
    network.push(network.plan())
    network.push(network.plan({"motion": ["l1"]}))
    assert network.forwards("s3").entries == {}
    assert len(network.forwards("s2").entries) == 1


def test_streams_that_move_to_another_vlan_leave_none_behind(network: Network):
    network.push(network.plan())
    moved = network.plan(vlan=20)
    network.push(moved)
    assert {name: network.configured(name) for name in SWITCHES} == told(moved)
    assert set(network.forwards("s1").vlans) == {20}


def test_a_change_that_is_taken_back_leaves_bridges_as_they_were(network: Network):
    before = network.plan({"motion": ["l1"]})
    network.push(before)
    committed = []

    def fail(event: object) -> None:
        if isinstance(event, StepBegun) and event.step is Step.VERIFY:
            committed.append(network.forwards("s3").entries)
            raise RolloutError("the operator's machine fails", hint=None)

    with pytest.raises(RolloutError, match="no switch was changed"):
        network.push(network.plan(), listener=fail)
    assert committed[0]
    assert {name: network.forwards(name) for name in SWITCHES} == told(before)
    assert {name: network.configured(name) for name in SWITCHES} == told(before)


def test_a_rollback_brings_the_entries_before(network: Network):
    before = network.plan({"motion": ["l1"]})
    network.push(before)
    network.push(network.plan())
    network.push(before, what="rollback")
    assert {name: network.forwards(name) for name in SWITCHES} == told(before)


def test_what_another_client_configured_in_its_own_vlan_stays(network: Network):
    plan = network.plan(policing="off")
    network.push(plan)
    (address, *_) = plan.addresses.values()
    others = BridgeForwarding({replace(address, vlan_id=99): ("l1",)}, {99: ("l1", "s1")}, ("s1",))
    network.edit("s2", others)
    assert not network.push(plan).changes
    network.push(network.plan(vlan=20, policing="off"))
    assert within(network.configured("s2"), others) == others


BY_SWITCH = {"elimination": "switch"}


def test_a_push_has_the_last_switch_take_out_second_copies(network: Network):
    plan = network.plan(twice=BY_SWITCH)
    network.push(plan)
    assert {name: network.forwards(name) for name in SWITCHES} == told(plan)
    assert {name: network.configured(name) for name in SWITCHES} == told(plan)
    address = plan.addresses["twice"]
    assert network.forwards("s1")[SequenceFunctions].by_stream == {address: Generation("t1")}
    (recovery,) = network.forwards("s2")[SequenceFunctions].by_stream.values()
    assert isinstance(recovery, Recovery)
    assert recovery.ports == ("s1", "s3")
    assert all(port.agrees for port in status(plan, connect=network.running.connect))
    path = follow(plan, "twice", connect=network.running.connect)
    assert path.deviations == ()
    assert sum("sequencing" in hop.done for hop in path.hops) == 3
    node = Managed("s2", network.running.managements["s2"], bridges=frozenset({BRIDGE}))

    def ignored(*_: object) -> None: ...

    with Subscription(
        node, network.running.connect, on_received=ignored, on_end=ignored
    ) as session:
        counted = session.counters(["s1", "s3", "l1", BRIDGE])
    none = dict.fromkeys(RECOVERY_COUNTERS, 0)
    assert {port: its.recovery for port, its in counted.items() if its.recovery} == {
        "s1": {address: none},
        "s3": {address: none},
    }


def test_what_takes_out_copies_is_changed_and_removed_with_its_stream(network: Network):
    network.push(network.plan(twice=BY_SWITCH))
    assert not network.push(network.plan(twice=BY_SWITCH)).changes
    slower = network.plan(twice=BY_SWITCH | {"period": "4ms"})
    report = network.push(slower)
    why = {str(each.port): each.why for each in report.changes}
    passed = (
        "passed once from s1, s3 (history 3, reset after 9 ms, 2 ways compared each 2000 ms, at "
        "most 3 copies apart in 30000 ms) otherwise"
    )
    assert passed in why["s2/br0"]
    assert {name: network.forwards(name) for name in SWITCHES} == told(slower)
    network.push(network.plan(policing="off"))
    assert [network.forwards(name)[SequenceFunctions].by_stream for name in SWITCHES] == [
        {},
        {},
        {},
    ]
    left = [network.stored(name).ports[BRIDGE][StoredBridge] for name in SWITCHES]
    assert [each.tables for each in left] == [Parts()] * 3


def test_a_rollback_has_switches_take_out_copies_again(network: Network):
    before = network.plan(twice=BY_SWITCH)
    network.push(before)
    network.push(network.plan(twice={"elimination": "listener"}))
    assert [network.forwards(name)[SequenceFunctions].by_stream for name in SWITCHES] == [
        {},
        {},
        {},
    ]
    network.push(before, what="rollback")
    does = {name: network.forwards(name) for name in SWITCHES}
    assert {name: unordered(its) for name, its in does.items()} == {
        name: unordered(its) for name, its in told(before).items()
    }


def unordered(its: BridgeForwarding) -> BridgeForwarding:
    """With filters in an order that does not depend on when their streams came."""
    return its.having(StreamFilters(tuple(sorted(its[StreamFilters].filters, key=str))))


def test_a_bridge_that_is_not_there_is_refused_before_any_change(network: Network):
    network.push(network.plan({"motion": ["l1"]}))
    before = network.forwards("s1")
    with pytest.raises(
        RolloutError, match=r"s1/br7: the switch has no such bridge[\s\S]*no switch"
    ):
        network.push(network.plan(bridge="br7"))
    assert network.forwards("s1") == before


def test_a_network_that_stops_bridging_forgets_its_streams(network: Network):
    network.push(network.plan())
    network.push(network.plan({"motion": ["l1"]}, forwarding="routed"))
    for name in SWITCHES:
        assert network.forwards(name) == BridgeForwarding({}, {}, ())


def test_doctor_says_that_the_bridges_are_ready(network: Network):
    plan = network.plan()
    visits = doctor.visit(plan.intent, connect=network.running.connect)
    found = doctor.diagnose(plan, visits)
    assert [each.verdict for each in found if each.check == "bridge"] == [Verdict.OK] * 3
    assert not [each for each in found if each.verdict is Verdict.FAILED]


def test_status_tells_of_entries_that_nobody_pushed(network: Network):
    network.push(network.plan({"motion": ["l1"]}))
    ports = status(network.plan(), connect=network.running.connect)
    (bridge,) = (each for each in ports if str(each.port) == "s3/br0")
    assert not bridge.agrees
    assert bridge.verdict.startswith("differs: frames of camera (")
    assert "do not leave by l2: the kernel has no filtering entry" in bridge.verdict


def test_a_stream_is_followed_through_what_the_switches_do(network: Network):
    plan = network.plan()
    network.push(plan)
    connect = network.running.connect
    found = follow(plan, "camera", connect=connect)
    assert found.deviations == ()
    assert found.listeners == ("l1", "l2")
    network.push(network.plan(BOTH | {"camera": ["l1"]}))
    found = follow(plan, "camera", connect=connect)
    assert "l2: gets no frame" in found.deviations
    assert found.deviations[0].startswith("s1: frames do not leave by s3")


def test_a_watch_is_told_of_the_bridge_and_says_what_differs(network: Network):
    plan = network.plan()
    network.push(plan)
    settings = desired_nodes(plan)["s3"]
    node = Managed.of(plan.intent.network.bridges["s3"], settings)
    seen: queue.SimpleQueue[Observation] = queue.SimpleQueue()
    follower = Follower(
        node, settings, connect=network.running.connect, interval_s=0.5, report=seen.put
    )
    observer = Observer(plan, network.history.knows)
    follower.start()
    try:
        quiet = [event for _ in range(3) for event in events_of(observer, seen)]
        assert [event for event in quiet if event.port == BRIDGE] == []
        network.edit("s3", replace(told(plan)["s3"], entries={}))
        found: list[Event] = []
        while {event.kind for event in found} < {Kind.CONFIGURATION, Kind.DRIFT}:
            found += [event for event in events_of(observer, seen) if event.port == BRIDGE]
    finally:
        follower.stop()
        follower.join(10)
    texts = {event.kind: event.text for event in found}
    assert "leave by l2, by a new filtering entry" in texts[Kind.CONFIGURATION]
    assert "do not leave by l2: the kernel has no filtering entry" in texts[Kind.DRIFT]


def events_of(observer: Observer, seen: queue.SimpleQueue[Observation]) -> list[Event]:
    """The events of the next observation."""
    return observer.take(seen.get(timeout=30))
