"""Rollouts to switches that run no agent: Debian's netconfd with the modules of IEEE alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from cnc import discover
from cnc import intent as intents
from cnc.data_tree.tree import BRIDGE, INTERFACES, NETCONF, SCHED, SCHED_BRIDGE, TSN_LINUX
from cnc.errors import RolloutError
from cnc.model import Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import doctor, push, status
from cnc.rollout.history import History, Outcome
from cnc.rollout.preflight import Check, Verdict
from cnc.switch import ConnectOptions
from cnc.switch.device import Device, Managed
from cnc.testbed.lab.switch import write_key_pair
from tests.intent_documents import DEFAULTS, class_of, stream, topology
from tests.stack.foreign_switch import MODULES_OF_2018, PROFILE, USER, ForeignSwitch, reachable

PORTS = {"s1": ("t1", "s2"), "s2": ("l1", "s1")}
CLASSES = {
    "cyclic": class_of(6, "scheduled"),
    "best-effort": class_of(1, "best-effort", priority=0),
}
# How netconfd is started, by the way it takes a change.
STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "confirmed": ("--target=candidate", {"commit": "confirmed"}),
    "candidate": ("--target=candidate", {"commit": "candidate"}),
    "running": ("--target=running", {"commit": "running"}),
    "startup": ("--with-startup=true", {"commit": "confirmed", "has-startup": True}),
}


@dataclass(frozen=True)
class Network:
    """t1 ── s1 ── s2 ── l1, two foreign switches, and an operator of them."""

    switches: Mapping[str, ForeignSwitch]
    profile: str | dict[str, Any]
    connect: ConnectOptions
    history: History

    def plan(self, octets: int = 200) -> Plan:
        document = {
            "name": "foreign",
            "forwarding": "bridged",
            "addresses": {"vlans": [10]},
            "defaults": {**DEFAULTS, "user": USER},
            "classes": CLASSES,
            **topology([("s1", "s2")], {"t1": "s1", "l1": "s2"}, {"s1": "", "s2": ""}),
            "streams": {"motion": stream("t1", "l1", octets=octets)} if octets else {},
        }
        for name, its in self.switches.items():
            document["switches"][name] |= {
                "management": {"address": "127.0.0.1", "port": its.port},
                "profile": self.profile,
                "ports": {port: {"number": n} for n, port in enumerate(its.ports, start=1)},
            }
        return compute(intents.from_document(document, "foreign"))

    def push(self, plan: Plan, **options: Any) -> Any:
        return push(plan, connect=self.connect, history=self.history, **options)

    def agree(self, plan: Plan) -> bool:
        return all(each.agrees for each in status(plan, connect=self.connect))

    def session(self, switch: str, plan: Plan) -> Device:
        management = plan.intent.network.managed[switch].management
        return Device(Managed(switch, management), self.connect)

    def running(self, plan: Plan, switch: str) -> etree._Element:
        """Its running datastore, as the switch has it."""
        with self.session(switch, plan) as device:
            return device._session.get_config("running").data_ele

    @contextmanager
    def dying(self, switch: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """It dies when it is told to have a change act, before it hears of it."""
        step = {"confirmed": "commit_confirmed", "candidate": "commit", "running": "edit_running"}
        name = step[self.profile["commit"]]
        act = getattr(Device, name)

        def die(device: Device, *its: Any, **named: Any) -> None:
            if device.name == switch:
                self.switches[switch].kill()
            act(device, *its, **named)

        with monkeypatch.context() as patch:
            patch.setattr(Device, name, die)
            yield

    def edit(self, switch: str, plan: Plan, leaf: str) -> None:
        """As another client edits the gates of its first port with a list."""
        port = next(ref.port for ref in plan.gates if ref.node == switch)
        table = (
            f'<config xmlns="{NETCONF}"><interfaces xmlns="{INTERFACES}"><interface>'
            f'<name>{port}</name><bridge-port xmlns="{BRIDGE}">'
            f'<gate-parameter-table xmlns="{SCHED_BRIDGE}">{leaf}</gate-parameter-table>'
            "</bridge-port></interface></interfaces></config>"
        )
        with self.session(switch, plan) as device:
            if self.profile["commit"] == "running":
                device._session.edit_config(target="running", config=table)
            else:
                device._session.edit_config(target="candidate", config=table)
                device.commit()


@pytest.fixture(scope="module")
def of_2018(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """The same network of switches with the tree of 2018."""
    folder = tmp_path_factory.mktemp("of-2018")
    connect = controller(folder)
    switches = {n: ForeignSwitch(folder / n, p, modules=MODULES_OF_2018) for n, p in PORTS.items()}
    older = {"gates-tree": "ieee802-dot1q-sched", "commit": "candidate", "writes-limits": False}
    with reachable(switches.values(), connect), History(folder / "history.sqlite") as history:
        yield Network(switches, {**PROFILE, **older}, connect, history)


@pytest.fixture(scope="module", params=STYLES)
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Mapping[str, ForeignSwitch], dict[str, Any], ConnectOptions]]:
    folder = tmp_path_factory.mktemp(request.param)
    connect = controller(folder)
    option, keys = STYLES[request.param]
    switches = {name: ForeignSwitch(folder / name, its, [option]) for name, its in PORTS.items()}
    with reachable(switches.values(), connect):
        yield switches, {**PROFILE, **keys}, connect


def controller(folder: Path) -> ConnectOptions:
    """Who may log in, with a file for the keys of switches."""
    identity = folder / "identity"
    write_key_pair(identity)
    (folder / "known_hosts").touch()
    return ConnectOptions(identity, folder / "known_hosts", 20.0)


@pytest.fixture
def network(started: Any) -> Iterator[Network]:
    *its, connect = started
    with History(connect.identity.with_name("history.sqlite")) as history:
        yield Network(*its, connect, history)


def lists(running: etree._Element) -> dict[str, list[tuple[int, int]]]:
    """The entries of the stored list of each port."""
    found = {}
    for interface in running.iter("{urn:ietf:params:xml:ns:yang:ietf-interfaces}interface"):
        rows = interface.iter(f"{{{SCHED_BRIDGE}}}gate-control-entry")
        entries = [
            (
                int(row.findtext(f"{{{SCHED_BRIDGE}}}gate-states-value")),
                int(row.findtext(f"{{{SCHED_BRIDGE}}}time-interval-value")),
            )
            for row in rows
        ]
        if entries:
            found[interface[0].text] = entries
    return found


def planned(plan: Plan, switch: str) -> dict[str, list[tuple[int, int]]]:
    """The same as the plan has it."""
    return {
        ref.port: [(each.gate_states, each.interval_ns) for each in its.entries]
        for ref, its in plan.gates.items()
        if ref.node == switch
    }


def test_a_push_stores_lists_and_entries_in_the_modules_of_ieee(network: Network) -> None:
    plan = network.plan()
    report = network.push(plan)
    running = network.running(plan, "s1")
    assert lists(running) == planned(plan, "s1")
    seconds = running.find(f".//{{{SCHED_BRIDGE}}}admin-base-time/{{{SCHED_BRIDGE}}}seconds")
    nanoseconds = running.find(
        f".//{{{SCHED_BRIDGE}}}admin-base-time/{{{SCHED_BRIDGE}}}nanoseconds"
    )
    assert int(seconds.text) * 10**9 + int(nanoseconds.text) == report.base_time_ns
    entry = running.find(f".//{{{BRIDGE}}}filtering-entry")
    assert [each.text for each in entry.iter(f"{{{BRIDGE}}}port-ref")] == ["2"]
    assert TSN_LINUX not in etree.tostring(running).decode()
    kept = network.history.rollout(report.number).switches
    assert {name: change.outcome for name, change in kept.items()} == dict.fromkeys(
        PORTS, Outcome.SAVED
    )


def test_a_plan_that_is_stored_is_not_sent_again(network: Network) -> None:
    plan = network.plan()
    network.push(plan)
    assert not network.push(plan).changes
    assert network.agree(plan)


def test_status_says_that_what_is_stored_is_all_that_is_known(network: Network) -> None:
    plan = network.plan()
    network.push(plan)
    said = {each.verdict for each in status(plan, connect=network.connect) if each.intended}
    assert said == {"configured; it does not report what it runs"}


def test_a_list_that_another_client_changes_is_found_and_restored(network: Network) -> None:
    plan = network.plan()
    network.push(plan)
    network.edit("s2", plan, "<gate-enabled>false</gate-enabled>")
    (port,) = [each for each in status(plan, connect=network.connect) if not each.agrees]
    assert port.port == PortRef("s2", "l1")
    assert "by what is stored there" in port.verdict
    network.push(plan)
    assert network.agree(plan)


def test_a_rollback_stores_the_former_lists(network: Network) -> None:
    former, new = network.plan(), network.plan(octets=400)
    network.push(former)
    network.push(new)
    assert lists(network.running(new, "s1")) == planned(new, "s1")
    network.push(former)
    assert lists(network.running(new, "s1")) == planned(former, "s1")


def test_a_plan_without_streams_removes_lists_and_entries(network: Network) -> None:
    plan = network.plan()
    network.push(plan)
    empty = network.plan(octets=0)
    network.push(empty)
    running = network.running(plan, "s1")
    assert lists(running) == {}
    assert running.find(f".//{{{BRIDGE}}}filtering-entry") is None


def test_a_switch_that_dies_in_its_commit_is_named_and_the_others_go_back(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, new = network.plan(), network.plan(octets=400)
    network.push(former)
    with network.dying("s2", monkeypatch), pytest.raises(RolloutError) as failed:
        network.push(new)
    said = str(failed.value)
    assert "rollback of s2 not confirmed" in said
    stays = network.profile["commit"] != "confirmed"
    assert ("does not revert by itself" in said) == stays
    assert lists(network.running(new, "s1")) == planned(former, "s1")
    network.switches["s2"].start()
    network.push(new)
    assert network.agree(new)


def test_a_push_says_what_each_switch_does_not_keep(network: Network) -> None:
    plan = network.plan()
    findings = doctor.diagnose(plan, doctor.visit(plan.intent, connect=network.connect))
    said = {each.switch: each.text for each in findings if each.check is Check.PROFILE}
    assert said.keys() == PORTS.keys()
    assert "a commit that comes late acts there (base times are 15 s ahead at least" in said["s1"]
    assert "it takes the changes of every controller" in said["s1"]
    assert ("is reverted only while the controller lives" in said["s1"]) == (
        network.profile["commit"] != "confirmed"
    )


def test_a_server_that_lacks_what_its_profile_states_is_sent_nothing(network: Network) -> None:
    former = network.plan()
    network.push(former)
    is_running = network.profile["commit"] == "running"
    other = replace(
        network, profile={**network.profile, "commit": "candidate" if is_running else "running"}
    )
    lacking = ":candidate:1.0" if is_running else ":writable-running:1.0"
    with pytest.raises(RolloutError, match=f"its NETCONF server lacks {lacking}"):
        other.push(other.plan(octets=400))
    assert lists(network.running(former, "s1")) == planned(former, "s1")


def test_doctor_finds_the_modules_of_a_server_in_its_hello(network: Network) -> None:
    plan = network.plan()
    network.push(plan)
    findings = doctor.diagnose(plan, doctor.visit(plan.intent, connect=network.connect))
    assert [str(each) for each in findings if each.verdict is Verdict.FAILED] == []
    modules = {each.switch: each.verdict for each in findings if each.check is Check.MODULES}
    assert modules == dict.fromkeys(PORTS, Verdict.OK)


def test_discover_drafts_a_profile_that_a_push_goes_by(network: Network) -> None:
    targets = discover.targets([f"127.0.0.1:{network.switches['s1'].port}"], USER)
    answers = discover.ask(targets, network.connect)
    answers.raise_if_incomplete()
    (node,) = discover.draft(answers, "foreign", USER).switches
    assert node.profile
    assert node.profile["commit"] == (
        "running" if network.profile["commit"] == "running" else "confirmed"
    )
    drafted = replace(network, profile={**node.profile, "validates": False})
    plan = drafted.plan(octets=300)
    drafted.push(plan)
    assert drafted.agree(plan)


def test_lists_are_stored_found_and_rolled_back_in_the_tree_of_2018(of_2018: Network) -> None:
    former, new = of_2018.plan(), of_2018.plan(octets=400)
    of_2018.push(former)
    running = of_2018.running(former, "s1")
    lengths = [each.text for each in running.iter(f"{{{SCHED}}}admin-control-list-length")]
    (gates,) = (its for ref, its in former.gates.items() if ref.node == "s1")
    assert lengths == [str(len(gates.entries))]
    assert running.find(f".//{{{SCHED_BRIDGE}}}gate-parameter-table") is None
    assert of_2018.agree(former)
    assert not of_2018.push(former).changes
    of_2018.push(new)
    assert of_2018.agree(new)
    assert not of_2018.agree(former)
    of_2018.push(former)
    assert of_2018.agree(former)
    of_2018.push(of_2018.plan(octets=0))
    assert of_2018.running(former, "s1").find(f".//{{{SCHED}}}admin-control-list") is None


def test_discover_drafts_the_tree_of_2018(of_2018: Network) -> None:
    targets = discover.targets([f"127.0.0.1:{of_2018.switches['s1'].port}"], USER)
    (node,) = discover.draft(discover.ask(targets, of_2018.connect), "older", USER).switches
    assert node.profile
    assert node.profile["gates-tree"] == "ieee802-dot1q-sched"


def test_a_plan_outlives_a_restart_of_the_switch(network: Network) -> None:
    plan = network.plan()
    network.push(plan)
    network.switches["s1"].kill()
    network.switches["s1"].start()
    assert network.agree(plan)
