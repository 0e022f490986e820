"""A push that gives a stream another way: both ways beside each other, then the former one removed.

Real agents and NETCONF servers, of three bridges and of the end station that sends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cnc import app
from cnc import intent as intents
from cnc.data_tree.tree import TalkerReport
from cnc.errors import PlanRejected, RolloutError
from cnc.mechanisms.stream_filters.model import StreamFilters, normal
from cnc.model import NS_PER_S, BridgeForwarding, Plan
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.rollout import left_over, push, status
from cnc.rollout.events import Listener, Step, StepBegun, ignore
from cnc.rollout.history import History, Phase
from cnc.rollout.rollout import Report
from cnc.switch.device import Device, Managed
from cnc.switch.payload import edit_config
from cnc.switch.rollout_id import RolloutId
from cnc.testbed.lab.rehearsal import Rehearsal, rehearsal
from tests.intent_documents import CLASSES, addresses_of, defaults_of, stream, topology
from tests.unit.asked import asked, bridge_forwarding

SWITCHES = ("s1", "s2", "s3")
TALKER = "t1"
BRIDGE = "br0"
CABLE = ("s1", "s2")
MS = 1_000_000
Forwardings = dict[str, BridgeForwarding]


@dataclass
class Network:
    """t1 ── s1 ── s2 ── l1, with s3 ── l3 at both s1 and s2, and an operator of it.

    The stream motion goes from t1 to l1, and by s3 where the operator forgets the cable between s1
    and s2; torque goes from t1 to l3 in any case.
    """

    running: Rehearsal
    history: History
    steps: list[Step] = field(default_factory=list)

    def document(self, *, cable: bool = True, managed: bool = True, **keys: Any) -> dict[str, Any]:
        joins = [CABLE] if cable else []
        joins += [("s2", "s3"), ("s1", "s3")]
        addresses = addresses_of(self.running)
        if not managed:
            del addresses[TALKER]
        return {
            "name": "hitless",
            "forwarding": "bridged",
            "addresses": {"vlans": [10]},
            "defaults": defaults_of(self.running),
            "classes": CLASSES,
            **topology(joins, {TALKER: "s1", "l1": "s2", "l3": "s3"}, addresses),
            "streams": {"motion": stream(TALKER, "l1"), "torque": stream(TALKER, "l3")},
            **keys,
        }

    def plan(self, former: Plan | None = None, **keys: Any) -> Plan:
        return compute(intents.from_document(self.document(**keys), "hitless"), keep=former)

    def push(self, plan: Plan, listener: Listener = ignore, **options: Any) -> Report:
        """Push, and note the steps; the listener sees each first."""

        def note(event: StepBegun) -> None:
            listener(event)
            self.steps.append(event.step)

        connect, history = self.running.connect, self.history
        return push(
            plan, connect=connect, history=history, take_over=True, listener=note, **options
        )

    def forwards(self) -> Forwardings:
        """What the bridges do."""
        found = {}
        for name in SWITCHES:
            with self.session(name) as device:
                report = device.state([BRIDGE]).bridge(BRIDGE)
                assert report
                found[name] = unordered(report.forwarding)
        return found

    def published(self) -> TalkerReport:
        """What the station tells its talkers."""
        with self.session(TALKER) as device:
            return device.state(["eth0"]).ports["eth0"][TalkerReport]

    def session(self, node: str) -> Device:
        is_station = node == TALKER
        bridges = frozenset[str]() if is_station else frozenset({BRIDGE})
        management = self.running.managements[node]
        managed = Managed(node, management, is_end_station=is_station, bridges=bridges)
        return Device(managed, self.running.connect)

    def clear(self) -> None:
        """Whatever another test left there: no switch knows of streams."""
        for name in SWITCHES:
            rollout_id = RolloutId.of_this_controller()
            nothing = BridgeForwarding({}, dict.fromkeys((10, 20), ()), ())
            with self.session(name) as device:
                before = device.stored([BRIDGE]).ports
                device.edit(edit_config({BRIDGE: asked(nothing)}, 0, before, rollout_id))
                device.commit_confirmed(30, "clear")
                device.confirm("clear")

    def cnc(self, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
        connect = self.running.connect
        environment = os.environ | {
            "CNC_IDENTITY": str(connect.identity),
            "CNC_KNOWN_HOSTS": str(connect.known_hosts),
            "CNC_STATE_DIR": str(directory),
            "XDG_CONFIG_HOME": str(directory),
        }
        return subprocess.run(
            [sys.executable, "-m", "cnc", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def running() -> Iterator[Rehearsal]:
    ports = (*SWITCHES, TALKER, "l1", "l3", "eth0")
    with rehearsal((*SWITCHES, TALKER), ports, bridge=BRIDGE) as started:
        yield started


@pytest.fixture
def network(running: Rehearsal, tmp_path: Path) -> Iterator[Network]:
    with History(tmp_path / "history.sqlite") as history:
        network = Network(running, history)
        network.clear()
        yield network


@pytest.fixture
def former(network: Network) -> Plan:
    """A plan that runs, by the cable between s1 and s2."""
    plan = network.plan()
    report = network.push(plan)
    time.sleep((report.all_start_in_ns + MS) / NS_PER_S)
    network.steps.clear()
    return plan


def does(plan: Plan) -> Forwardings:
    """What bridges do by a plan."""
    return {name: unordered(bridge_forwarding(plan, name)) for name in SWITCHES}


def unordered(its: BridgeForwarding) -> BridgeForwarding:
    """As it is read back, filters in an order that does not depend on when streams came."""
    return its.having(
        StreamFilters(tuple(sorted(map(normal, its[StreamFilters].filters), key=str)))
    )


def at(step: Step, look: Callable[[], None], visit: int = 1) -> Listener:
    """A listener that looks when a step begins for this time."""
    visits: list[Step] = []

    def listen(event: StepBegun) -> None:
        visits.append(event.step)
        if event.step is step and visits.count(step) == visit:
            look()

    return listen


def test_both_ways_are_there_until_the_last_frame_has_come_by_the_former(
    network: Network, former: Plan
):
    new = network.plan(former, cable=False)
    address, before = new.addresses["motion"], former.addresses["motion"]
    seen: list[tuple[Forwardings, TalkerReport]] = []
    report = network.push(
        new, at(Step.WAIT, lambda: seen.append((network.forwards(), network.published())))
    )
    ((both, told),) = seen
    assert {name: its.entries.get(before) for name, its in both.items()} == {
        "s1": ("s2",),
        "s2": ("l1",),
        "s3": None,
    }
    assert {name: its.entries[address] for name, its in both.items()} == {
        "s1": ("s3",),
        "s2": ("l1",),
        "s3": ("s2",),
    }
    assert both["s1"].vlans == {10: ("s2", "s3", "t1")}
    # The talker changes with the gates, from the one to the other.
    assert told.running
    assert told.pending
    motion, torque = told.running.configuration.streams
    moved, kept = told.pending.configuration.streams
    assert (motion.address, moved.address) == (before, address)
    assert torque.address == kept.address
    assert told.pending.base_time_ns == report.base_time_ns

    assert network.forwards() == does(new)
    assert network.published().pending is None
    assert report.former_ways
    assert (report.former_ways.streams, report.former_ways.left) == (("motion",), None)
    removal, first, _ = network.history.rollouts()
    assert (removal.number, first.number) == (report.former_ways.removed_by, report.number)
    assert (removal.phase, removal.what) == (Phase.DONE, "removes the previous paths of 1 stream")
    assert {name: set(its.after) for name, its in removal.switches.items()} == {
        "s1": {BRIDGE},
        "s2": {BRIDGE},
    }
    assert all(port.agrees for port in status(new, connect=network.running.connect))
    assert not network.push(new).changes


def test_the_way_back_is_the_same_move_in_reverse(network: Network, former: Plan):
    new = network.plan(former, cable=False)
    network.push(new)
    assert app.former_rollout(network.history).number == 1
    seen: list[Forwardings] = []
    report = network.push(
        former, at(Step.WAIT, lambda: seen.append(network.forwards())), what="rollback"
    )
    assert all(new.addresses["motion"] in its.entries for its in seen[0].values())
    assert former.addresses["motion"] in seen[0]["s1"].entries
    assert report.former_ways
    assert network.forwards() == does(former)
    assert all(port.agrees for port in status(former, connect=network.running.connect))
    assert network.history.running_plan("hitless") == former


def test_what_a_controller_leaves_that_ends_in_between_is_named_and_removed_by_the_next_push(
    network: Network, former: Plan
):
    new = network.plan(former, cable=False)

    def end() -> None:
        raise KeyboardInterrupt

    with pytest.raises(
        KeyboardInterrupt, match="previous paths of 1 stream are left: the next push"
    ):
        network.push(new, at(Step.CONNECT, end, visit=2))
    left = left_over(network.history, "hitless")
    assert left
    assert left.rollout == 2
    ports = status(new, connect=network.running.connect, left=left)
    differing = {str(each.port): each for each in ports if not each.agrees}
    assert set(differing) == {"s1/br0", "s2/br0"}
    what = f"({former.addresses['motion'].destination_mac}, VLAN 10)"
    assert differing["s1/br0"].verdict == (
        f"differs: frames of the previous path of motion, left by rollout 2 {what} leave by s2: "
        "the filtering entry is not in the plan, VLAN 10 is registered, but not planned, at s2, "
        f"frames of the previous path of motion, left by rollout 2 {what} at t1 are filtered, "
        "which is not planned"
    )
    assert differing["s1/br0"].hints == (
        "push again: that removes what rollout 2 left; it carries no frame",
    )
    report = network.push(new)
    assert {str(each.port) for each in report.changes} == {"s1/br0", "s2/br0"}
    assert network.forwards() == does(new)
    assert left_over(network.history, "hitless") is None


def test_a_removal_that_fails_leaves_the_new_plan_and_says_why(network: Network, former: Plan):
    new = network.plan(former, cable=False)

    def fail() -> None:
        raise RolloutError("s2 does not answer", hint=None)

    report = network.push(new, at(Step.CONNECT, fail, visit=2))
    assert report.former_ways
    assert report.former_ways.removed_by is None
    assert "s2 does not answer" in (report.former_ways.left or "")
    assert network.history.running_plan("hitless") == new
    third = network.plan(new, cable=False, addresses={"vlans": [20]})
    network.push(third)
    assert network.forwards() == does(third)


def test_a_push_that_is_taken_back_leaves_nothing_of_the_new_way(network: Network, former: Plan):
    new = network.plan(former, cable=False)

    def fail() -> None:
        raise RolloutError("the operator's machine fails", hint=None)

    with pytest.raises(RolloutError, match="no switch was changed"):
        network.push(new, at(Step.VERIFY, fail))
    assert network.forwards() == does(former)
    assert left_over(network.history, "hitless") is None
    assert Step.WAIT not in network.steps


def test_too_many_entries_for_both_ways_are_refused_before_any_change(
    network: Network, former: Plan
):
    document = network.document(cable=False)
    document["switches"]["s1"]["filtering-entries-max"] = 2
    new = compute(intents.from_document(document, "hitless"), keep=former)
    with pytest.raises(PlanRejected, match="s1: needs 3 filtering entries until the streams"):
        network.push(new)
    assert network.steps == []
    assert network.forwards() == does(former)


def test_a_push_says_beforehand_which_streams_may_lose_frames(
    network: Network, former: Plan, tmp_path: Path
):
    new = network.plan(former, cable=False, managed=False)
    file = tmp_path / "new.json"
    planfile.dump(new, file)
    why = "no push reaches its talker t1, which has no `management`: the stream keeps its address"
    words = ("push", "--take-over", str(file))
    dry = network.cnc(tmp_path, *words, "--dry-run", "--json")
    assert json.loads(dry.stdout)["exposed"] == [{"stream": "motion", "why": why}]
    told = network.cnc(tmp_path, *words)
    assert told.returncode == 0
    before, _, after = told.stdout.partition("all switches confirmed")
    assert "frames may be lost until the base time" in before
    assert why in " ".join(before.split())
    assert "previous paths" not in after
    assert network.forwards() == does(new)


def test_a_command_says_what_became_of_the_former_ways(
    network: Network, former: Plan, tmp_path: Path
):
    file = tmp_path / "new.json"
    planfile.dump(network.plan(former, cable=False), file)
    told = network.cnc(tmp_path, "push", "--take-over", str(file), "--json")
    document = json.loads(told.stdout)
    assert document["former_ways"] == {"streams": ["motion"], "removed_by": 3, "left": None}
    assert "exposed" not in document
    back = network.cnc(tmp_path, "rollback", "--take-over")
    assert "to rollout 1 of hitless" in back.stdout
    assert "the previous paths of 1 stream are removed, by rollout 5" in back.stdout
    assert network.forwards() == does(former)
