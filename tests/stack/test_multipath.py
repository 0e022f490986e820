"""The paths of an end station as part of rollouts: a real agent and NETCONF server, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.errors import RolloutError
from cnc.mechanisms.multipath.model import PathReport
from cnc.model import EndStation, Plan
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.rollout.compare import PortStatus
from cnc.rollout.events import Step, StepBegun
from cnc.rollout.history import History
from cnc.switch.device import Device
from cnc.testbed.lab.rehearsal import Rehearsal, rehearsal
from tests.intent_documents import ROUTED_CLASSES, addresses_of, defaults_of, stream, topology

PORTS = ("s1", "t1", "l1", "eth0", "wwan0")
PATHS = ("eth0", "wwan0")
FULL_MESH = frozenset({"subflow", "fullmesh"})
BOTH = {"paths": {"eth0": {}, "wwan0": {"backup": True}}}
RELIABLE = {**BOTH, "mode": "reliability", "scheduler": "default", "max-buffer": "12000000B"}


@dataclass(frozen=True)
class Network:
    """t1 ── s1 ── l1, and a modem of t1, which no switch is at."""

    running: Rehearsal
    history: History

    def plan(self, multipath: dict[str, Any] | None) -> Plan:
        document = {
            "name": "stations",
            "defaults": defaults_of(self.running),
            "classes": ROUTED_CLASSES,
            **topology([], {"t1": "s1", "l1": "s1"}, addresses_of(self.running)),
            "streams": {"scheduled": stream("t1", "l1")},
        }
        document["end-stations"]["t1"]["ports"] = [*PATHS]
        if multipath:
            document["end-stations"]["t1"]["multipath"] = multipath
        return compute(intents.from_document(document, "stations"))

    def push(self, multipath: dict[str, Any] | None, **options: Any) -> Any:
        connect = self.running.connect
        plan = self.plan(multipath)
        return push(plan, connect=connect, history=self.history, take_over=True, **options)

    def station(self) -> Device:
        return Device(EndStation("t1", self.running.managements["t1"]), self.running.connect)

    def reported(self) -> dict[str, PathReport]:
        """What the station says of the ports that it has made paths."""
        with self.station() as device:
            ports = device.state(PATHS).ports
        found = {name: port[PathReport] for name, port in ports.items()}
        return {name: each for name, each in found.items() if each.managed}

    def flags(self) -> dict[str, frozenset[str]]:
        paths = self.reported()
        return {name: each.flags for name, its in paths.items() for each in its.endpoints}

    def status(self, multipath: dict[str, Any] | None) -> dict[str, PortStatus]:
        shown = status(self.plan(multipath), connect=self.running.connect)
        return {each.port.port: each for each in shown if each.port.node == "t1"}


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """With one history: what is asked no more goes where the plan before had it."""
    history = tmp_path_factory.mktemp("history") / "history.sqlite"
    with rehearsal(["s1", "t1"], PORTS) as running, History(history) as kept:
        yield Network(running, kept)


@pytest.fixture
def network(operated: Network) -> Network:
    operated.push(BOTH)
    return operated


def test_a_push_makes_ports_paths_also_those_that_no_switch_is_at(network: Network):
    assert network.flags() == {"eth0": FULL_MESH, "wwan0": FULL_MESH}
    shown = network.status(BOTH)
    assert shown["eth0"].agrees
    assert (shown["wwan0"].agrees, shown["wwan0"].verdict) == (
        True,
        "multipath TCP: hassle-free, backup",
    )


def test_what_a_station_has_already_is_not_sent_again(network: Network):
    assert not network.push(BOTH).changes


def test_a_mode_comes_with_its_settings(network: Network):
    report = network.push(RELIABLE)
    why = {each.port.port: each.why for each in report.changes}
    assert "mode hassle-free becomes reliability" in why["wwan0"]
    assert "maximum-send-buffer the station's own becomes 12000000" in why["wwan0"]
    assert network.flags() == {"eth0": FULL_MESH, "wwan0": FULL_MESH | {"backup"}}
    kernel = network.reported()["eth0"].kernel
    assert (kernel["maximum-receive-buffer"], kernel["scheduler"]) == ("12000000", "default")


def test_status_says_how_a_station_differs(network: Network):
    shown = network.status(RELIABLE)
    assert not shown["wwan0"].agrees
    assert "expected backup fullmesh subflow" in shown["wwan0"].verdict


def test_a_port_that_is_no_path_any_more_goes_alone(network: Network):
    network.push({"paths": {"eth0": {}}})
    assert network.flags() == {"eth0": FULL_MESH}


def test_without_the_key_all_paths_go(network: Network):
    network.push(None)
    assert network.reported() == {}
    assert network.status(None)["eth0"].agrees


def test_paths_that_no_plan_has_asked_for_stay(network: Network, tmp_path: Path):
    with History(tmp_path / "another.sqlite") as of_another:
        Network(network.running, of_another).push(None)
    assert network.reported().keys() == {*PATHS}


def test_a_push_that_fails_leaves_the_paths_of_before(network: Network):
    def fail(event: object) -> None:
        if isinstance(event, StepBegun) and event.step is Step.VERIFY:
            assert network.flags()["wwan0"] == FULL_MESH | {"backup"}
            raise RolloutError("the operator's machine fails", hint=None)

    with pytest.raises(RolloutError, match="no switch was changed"):
        network.push(RELIABLE, listener=fail)
    assert network.flags() == {"eth0": FULL_MESH, "wwan0": FULL_MESH}


def test_a_rollback_brings_the_paths_of_before(network: Network):
    network.push(RELIABLE)
    network.push(BOTH, what="rollback")
    assert network.flags() == {"eth0": FULL_MESH, "wwan0": FULL_MESH}
    assert "maximum-buffer" not in network.reported()["eth0"].kernel


MANAGED = {
    "paths": {"eth0": {}, "wwan0": {"backup": True, "data-limit": "5GB"}},
    "connections": {
        "applications": {
            "mine": {"mode": "single-path", "source": "user", "users": [1002, 1001]},
            "video": {"mode": "on-demand", "remote-ports": [443], "media-rate": "8Mbps"},
        },
        "on-demand": {"threshold": "5s"},
        "heat": {"zone": "cpu", "stop": 80, "restart": 70},
    },
}


def test_a_push_brings_what_single_connections_are_for(network: Network):
    report = network.push(MANAGED)
    why = {each.port.port: each.why for each in report.changes}
    assert "data-limit/maximum the station's own becomes 5000000000" in why["wwan0"]
    video = "mode on-demand source operator remote-port 443 media-rate 8000000"
    assert f"application video the station's own becomes {video}" in why["wwan0"]
    assert network.reported()["eth0"].kernel["path-manager"] == "program"
    assert network.status(MANAGED)["wwan0"].agrees
    assert not network.push(MANAGED).changes


def test_without_the_key_connections_are_the_kernels_again(network: Network):
    network.push(MANAGED)
    network.push(BOTH)
    assert network.reported()["eth0"].kernel.get("path-manager") != "program"
    assert not network.push(BOTH).changes
