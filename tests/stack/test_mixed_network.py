"""Switches of ours and one that runs no agent, in one network: pushed together, and ended together
where the one that is none of ours dies in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.errors import RolloutError
from cnc.model import Plan
from cnc.planner import plan as compute
from cnc.rollout import push, roll_back, status
from cnc.rollout.history import History, Phase
from cnc.rollout.transaction import Transaction
from cnc.switch.device import Device, DeviceError
from cnc.testbed.lab.rehearsal import Rehearsal, rehearsal
from tests.intent_documents import (
    CLASSES,
    addresses_of,
    defaults_of,
    stream,
    topology,
)
from tests.scale.dying import after_the_decision, before_the_decision, push_and_die
from tests.stack.foreign_switch import PROFILE, USER, ForeignSwitch, reachable

BRIDGE = "br0"
OURS = ("s1", "s3")
FOREIGN = "s2"
# Its commits wait for a confirmation, or stay.
STYLES = ("confirmed", "candidate")


@dataclass(frozen=True)
class Network:
    """t1 ── s1 ── s2 ── s3 ── l1, of which s2 is foreign; and an operator of it."""

    ours: Rehearsal
    foreign: ForeignSwitch
    commit: str
    path: Path
    history: History

    def plan(self, octets: int = 200) -> Plan:
        joins, ends = [("s1", "s2"), ("s2", "s3")], {"t1": "s1", "l1": "s3"}
        document = {
            "name": "mixed",
            "forwarding": "bridged",
            "addresses": {"vlans": [10]},
            "defaults": defaults_of(self.ours),
            "classes": CLASSES,
            **topology(joins, ends, {**addresses_of(self.ours), FOREIGN: ""}),
            "streams": {"motion": stream("t1", "l1", octets=octets, **{"max-latency": "400us"})},
        }
        document["switches"][FOREIGN] |= {
            "management": {"address": "127.0.0.1", "port": self.foreign.port, "user": USER},
            "profile": {**PROFILE, "commit": self.commit},
            "ports": {port: {"number": n} for n, port in enumerate(self.foreign.ports, start=1)},
        }
        return compute(intents.from_document(document, "mixed"))

    def push(self, plan: Plan, **options: Any) -> Any:
        return push(
            plan, connect=self.ours.connect, history=self.history, take_over=True, **options
        )

    def agreeing(self, plan: Plan) -> set[str]:
        """The switches that agree with a plan, of those that answer."""
        found = [*status(plan, connect=self.ours.connect)]
        apart = {each.port.node for each in found if not each.agrees}
        return {each.port.node for each in found} - apart


@pytest.fixture(scope="module")
def ours() -> Iterator[Rehearsal]:
    with rehearsal(OURS, ("t1", "l1", "s2"), bridge=BRIDGE) as started:
        yield replace(started, connect=replace(started.connect, timeout_s=10.0))


@pytest.fixture(scope="module", params=STYLES)
def network(
    request: pytest.FixtureRequest, ours: Rehearsal, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Network]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    foreign = ForeignSwitch(folder / FOREIGN, ("s1", "s3"))
    path = ours.connect.identity.with_name("history.sqlite")
    with reachable([foreign], ours.connect), History(path) as history:
        yield Network(ours, foreign, request.param, path, history)


@contextmanager
def at_step(
    name: str, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> Iterator[None]:
    """`act` before or after the foreign switch is told this step, once."""
    step = getattr(Device, name)
    done: list[str] = []

    def told(device: Device, *its: Any, **named: Any) -> Any:
        is_first = device.name == FOREIGN and not done
        if is_first:
            done.append(name)
        if is_first and not after:
            act()
        try:
            return step(device, *its, **named)
        finally:
            if is_first and after:
                act()

    with monkeypatch.context() as patch:
        patch.setattr(Device, name, told)
        yield


def commits(network: Network) -> str:
    """How the foreign switch is told to have a change act."""
    return "commit_confirmed" if network.commit == "confirmed" else "commit"


def test_one_push_configures_switches_of_ours_and_the_foreign_one(network: Network) -> None:
    network.push(network.plan(octets=300))
    plan = network.plan()
    report = network.push(plan)
    assert {each.port.node for each in report.changes} == {*OURS, FOREIGN}
    assert network.agreeing(plan) == {*OURS, FOREIGN}
    assert not network.push(plan).changes


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_switches_of_ours_go_back_when_the_foreign_one_dies_at_its_commit(
    network: Network, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, new = network.plan(), network.plan(octets=400)
    network.push(former)
    dies = at_step(commits(network), network.foreign.kill, monkeypatch, after=after)
    with dies, pytest.raises(RolloutError, match="rollback of s2 not confirmed") as failed:
        network.push(new)
    stays = network.commit == "candidate"
    assert ("it may run the new lists from" in str(failed.value)) == stays
    network.foreign.start()
    assert {*OURS} <= network.agreeing(former)
    assert network.history.rollouts()[0].phase is Phase.ROLLED_BACK
    network.push(former)
    assert network.agreeing(former) == {*OURS, FOREIGN}


@pytest.mark.parametrize("doubted", ["s1", FOREIGN])
def test_all_go_back_when_one_does_not_run_what_was_committed(
    network: Network, doubted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, new = network.plan(), network.plan(octets=400)
    network.push(former)
    verify = Transaction._verify

    def doubt(its: Transaction, device: Device) -> None:
        verify(its, device)
        if device.name == doubted:
            raise DeviceError(device.name, "doubted by the test")

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "_verify", doubt)
        with pytest.raises(RolloutError, match="no switch was changed"):
            network.push(new)
    assert network.agreeing(former) == {*OURS, FOREIGN}


def test_the_next_push_takes_back_what_a_dead_controller_had_not_decided(network: Network) -> None:
    former, new = network.plan(), network.plan(octets=400)
    network.push(former)
    push_and_die(new, network.ours.connect, network.path, before_the_decision)
    assert not network.push(former).changes
    assert network.agreeing(former) == {*OURS, FOREIGN}
    assert network.history.rollouts()[0].phase is Phase.ROLLED_BACK


def test_after_the_decision_an_operator_brings_all_to_one_plan(network: Network) -> None:
    former, new = network.plan(), network.plan(octets=400)
    network.push(former)
    push_and_die(new, network.ours.connect, network.path, after_the_decision)
    if network.commit == "candidate":  # it alone has kept the change
        with pytest.raises(RolloutError, match="was not confirmed everywhere"):
            network.push(former)
        roll_back(connect=network.ours.connect, history=network.history, take_over=True)
    assert not network.push(former).changes
    assert network.agreeing(former) == {*OURS, FOREIGN}
