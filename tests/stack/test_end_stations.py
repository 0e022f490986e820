"""A talker's end station as a member of rollouts: real agents and NETCONF servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.data_tree.tree import GatesReport, KernelSchedule, PortReport, TalkerReport
from cnc.errors import RolloutError
from cnc.mechanisms.launch_time.model import KernelLaunch, LaunchMode, LaunchReport
from cnc.model import (
    EndStation,
    Plan,
    PortRef,
    TalkerStreams,
    TalkerTable,
)
from cnc.planner import plan as compute
from cnc.rollout import doctor, push, status
from cnc.rollout.events import Step, StepBegun
from cnc.rollout.history import History, Outcome
from cnc.rollout.preflight import Verdict
from cnc.switch.device import Device
from cnc.testbed.lab.rehearsal import Rehearsal, rehearsal
from tests.intent_documents import ROUTED_CLASSES, addresses_of, defaults_of, stream, topology
from tests.unit.asked import desired_ports

SWITCHES = ("s1", "s2")
PORTS = ("s1", "s2", "t1", "l1", "eth0")


def from_us(earliest_us: int, **keys: Any) -> dict[str, Any]:
    """A stream with this place at the earliest."""
    window = {"earliest": f"{earliest_us}us"}
    return stream("t1", "l1", window=window, **{"max-latency": "100us", **keys})


@dataclass(frozen=True)
class Network:
    """t1 ── s1 ── s2 ── l1, and an operator of it; l1 has no agent."""

    running: Rehearsal
    history: History

    def plan(
        self,
        moved_us: int,
        *,
        managed: bool = True,
        frames: int = 1,
        gates: bool = False,
        launch: dict[str, str] | None = None,
    ) -> Plan:
        """With the stream "moved" at this place at the earliest, of so many frames in a period;
        the port of t1 has `gates` or none, and these keys of a `launch` time."""
        addresses = addresses_of(self.running)
        if not managed:
            del addresses["t1"]
        document = {
            "name": "stations",
            "defaults": defaults_of(self.running),
            "classes": ROUTED_CLASSES,
            **topology([("s1", "s2")], {"t1": "s1", "l1": "s2"}, addresses),
            "streams": {"kept": from_us(300), "moved": from_us(moved_us, frames=frames)},
        }
        if gates:
            document["end-stations"]["t1"]["gates"] = "software"
        if launch:
            document["end-stations"]["t1"] |= launch
        return compute(intents.from_document(document, "stations"))

    def port(self) -> PortReport:
        """What the port of t1 runs."""
        with self.station() as device:
            return device.state(["eth0"]).ports["eth0"]

    def push(self, plan: Plan, **options: Any) -> Any:
        connect = self.running.connect
        return push(plan, connect=connect, history=self.history, take_over=True, **options)

    def station(self) -> Device:
        return Device(EndStation("t1", self.running.managements["t1"]), self.running.connect)

    def published(self) -> TalkerTable | None:
        """What the talkers of t1 are told, or will be from a base time on."""
        with self.station() as device:
            return device.state(["eth0"]).ports["eth0"][TalkerReport].newest

    def stored(self) -> TalkerTable | None:
        with self.station() as device:
            ports = device.stored(["eth0"]).ports
        return ports["eth0"].get(TalkerTable) if "eth0" in ports else None


@pytest.fixture(scope="module")
def running() -> Iterator[Rehearsal]:
    with rehearsal([*SWITCHES, "t1"], PORTS) as started:
        yield started


@pytest.fixture
def network(running: Rehearsal, tmp_path: Path) -> Iterator[Network]:
    with History(tmp_path / "history.sqlite") as history:
        yield Network(running, history)


def told(plan: Plan) -> TalkerStreams:
    return desired_ports(plan, "t1")["eth0"][TalkerStreams]


def test_a_push_tells_the_talkers_when_to_send(network: Network):
    plan = network.plan(0)
    report = network.push(plan)
    assert network.published() == TalkerTable(report.base_time_ns, told(plan))
    assert network.stored() == TalkerTable(report.base_time_ns, told(plan))
    kept = network.history.rollout(report.number)
    assert {name: change.outcome for name, change in kept.switches.items()} == dict.fromkeys(
        ("s1", "s2", "t1"), Outcome.SAVED
    )


def test_a_push_tells_the_talkers_how_many_frames_a_period_has(network: Network):
    network.push(network.plan(0))
    plan = network.plan(0, frames=3)
    assert [each.frames for each in told(plan).streams] == [1, 3]
    report = network.push(plan)
    assert network.published() == TalkerTable(report.base_time_ns, told(plan))
    assert network.stored() == TalkerTable(report.base_time_ns, told(plan))
    assert not network.push(plan).changes


def test_a_stream_that_moves_is_brought_its_offset_by_the_push_itself(network: Network):
    network.push(network.plan(0))
    moved = network.plan(600)
    report = network.push(moved)
    (change,) = (each for each in report.changes if each.port.node == "t1")
    assert "moved moves from" in change.why
    assert "kept" not in change.why
    assert network.published() == TalkerTable(report.base_time_ns, told(moved))


def test_a_station_that_knows_its_offsets_is_not_sent_them_again(network: Network):
    plan = network.plan(0)
    network.push(plan)
    assert not network.push(plan).changes


def test_a_change_that_is_taken_back_leaves_the_talkers_what_they_knew(network: Network):
    before = network.plan(0)
    network.push(before)
    published, stored = network.published(), network.stored()
    committed = []

    def fail(event: object) -> None:
        if isinstance(event, StepBegun) and event.step is Step.VERIFY:
            committed.append(network.published())
            raise RolloutError("the operator's machine fails", hint=None)

    with pytest.raises(RolloutError, match="no switch was changed"):
        network.push(network.plan(600), listener=fail)
    (seen,) = committed
    assert seen
    assert seen.configuration != told(before)
    assert (network.published(), network.stored()) == (published, stored)


def test_the_table_begins_with_the_gates(network: Network):
    network.push(network.plan(0))
    network.push(network.plan(600))
    with Device(network.plan(600).intent.network.bridges["s1"], network.running.connect) as s1:
        newest = s1.state(["s2"]).ports["s2"][GatesReport].newest
    published = network.published()
    assert newest
    assert published
    assert newest.base_time_ns == published.base_time_ns


def test_a_rollback_brings_the_offsets_before(network: Network):
    before, after = network.plan(0), network.plan(600)
    network.push(before)
    network.push(after)
    network.push(before, what="rollback")
    published = network.published()
    assert published
    assert published.configuration == told(before)


def test_a_plan_without_the_talkers_streams_ends_them(network: Network):
    plan = network.plan(0)
    network.push(plan)
    silent = compute(intents.from_document({**plan.intent.document, "streams": {}}, "stations"))
    network.push(silent)
    published = network.published()
    assert published
    assert published.configuration == TalkerStreams()


def test_the_list_of_a_station_with_gates_comes_in_the_push_that_tells_its_talkers(
    network: Network,
):
    plan = network.plan(0, gates=True)
    report = network.push(plan)
    port = network.port()
    assert port[GatesReport].newest == KernelSchedule(
        report.base_time_ns, plan.gates[PortRef("t1", "eth0")]
    )
    assert port[TalkerReport].newest
    assert port[TalkerReport].newest.base_time_ns == report.base_time_ns
    assert not network.push(plan).changes
    (shown,) = (
        each for each in status(plan, connect=network.running.connect) if each.port.node == "t1"
    )
    assert shown.agrees
    assert shown.intended == plan.gates[PortRef("t1", "eth0")]
    visits = doctor.visit(plan.intent, connect=network.running.connect)
    assert not [
        each
        for each in doctor.diagnose(plan, visits)
        if each.switch == "t1" and each.verdict is Verdict.FAILED
    ]


def test_a_list_of_a_station_is_taken_back_with_all_others(network: Network):
    network.push(network.plan(600, gates=True))
    network.push(network.plan(600))  # its gates are no more, by the history
    assert network.port()[GatesReport].newest is None
    committed = []

    def fail(event: object) -> None:
        if isinstance(event, StepBegun) and event.step is Step.VERIFY:
            committed.append(network.port()[GatesReport].newest)
            raise RolloutError("the operator's machine fails", hint=None)

    with pytest.raises(RolloutError, match="no switch was changed"):
        network.push(network.plan(0, gates=True), listener=fail)
    assert committed[0]
    assert network.port()[GatesReport].newest is None


@pytest.mark.parametrize("gates", [False, True])
def test_a_launch_time_comes_changes_and_goes_with_the_plans(network: Network, gates: bool):
    def shown() -> dict[int, KernelLaunch]:
        return dict(network.port()[LaunchReport].by_priority)

    network.push(network.plan(0, gates=gates))
    software = network.plan(0, gates=gates, launch={"launch-time": "software"})
    (change,) = network.push(software).changes
    # Beside gates it is whole cycles of the list, and 1 ns.
    delta_ns = 1_000_001 if gates else 500_000
    delta = "1 ms" if gates else "500 µs"
    assert change.why == f"launch time: none becomes software, delta {delta}, priorities 6"
    assert shown() == {6: KernelLaunch(LaunchMode.SOFTWARE, delta_ns)}
    assert not network.push(software).changes
    (port,) = (
        each for each in status(software, connect=network.running.connect) if each.port.node == "t1"
    )
    assert port.agrees
    hardware = {"launch-time": "hardware", "launch-delta": "200us"}
    # taprio would refuse a frame at the begin of an entry: the delta is that of the device.
    network.push(network.plan(50, gates=gates, launch=hardware))
    assert shown() == {6: KernelLaunch(LaunchMode.HARDWARE, 200_000)}
    network.push(software, what="rollback")
    assert shown() == {6: KernelLaunch(LaunchMode.SOFTWARE, delta_ns)}
    network.push(network.plan(0, gates=gates))
    assert shown() == {}


def test_a_launch_time_is_taken_back_with_all_others(network: Network):
    network.push(network.plan(600))

    def fail(event: object) -> None:
        if isinstance(event, StepBegun) and event.step is Step.VERIFY:
            assert network.port()[LaunchReport].by_priority
            raise RolloutError("the operator's machine fails", hint=None)

    with pytest.raises(RolloutError, match="no switch was changed"):
        network.push(network.plan(0, launch={"launch-time": "software"}), listener=fail)
    assert not network.port()[LaunchReport].by_priority


def test_status_tells_of_a_launch_time_that_is_not_there(network: Network):
    network.push(network.plan(0))
    with_launch = network.plan(0, launch={"launch-time": "software"})
    ports = status(with_launch, connect=network.running.connect)
    (port,) = (each for each in ports if each.port.node == "t1")
    assert not port.agrees
    assert "launch time of priority 6 is none, expected software, delta 500 µs" in port.verdict


def test_status_and_doctor_include_the_station(network: Network):
    plan = network.plan(0)
    network.push(plan)
    connect = network.running.connect
    (port,) = (each for each in status(plan, connect=connect) if each.port.node == "t1")
    assert port.agrees
    assert port.verdict in {"pending", "talkers know their offsets"}
    visits = doctor.visit(plan.intent, connect=connect)
    findings = [each for each in doctor.diagnose(plan, visits) if each.switch == "t1"]
    assert findings
    assert not [each for each in findings if each.verdict is Verdict.FAILED]


def test_status_tells_of_offsets_that_nobody_pushed(network: Network):
    network.push(network.plan(0))
    ports = status(network.plan(600), connect=network.running.connect)
    (port,) = (each for each in ports if each.port.node == "t1")
    assert not port.agrees
    assert "other offsets are published: moved" in port.verdict


def test_a_station_without_an_address_is_left_alone(network: Network):
    network.push(network.plan(0))
    published = network.published()
    report = network.push(network.plan(600, managed=False))
    assert {each.port.node for each in report.changes} <= set(SWITCHES)
    assert network.published() == published
