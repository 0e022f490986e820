"""What the agent decides for single connections, and what a kernel makes of it.

A look of the agent is a call here, as often as the condition that is waited for is asked.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.events import MultipathEvent
from agent.mechanisms.multipath.feeder import millicelsius
from agent.mechanisms.multipath.model import NodeState
from agent.model import AgentError
from agent.switch import Switch
from tests.kernel.conftest import FAR, inside
from tests.kernel.two_uplinks import (
    PORT,
    SERVER,
    STATION,
    Transfer,
    agent,
    apply,
    ip,
    sent_octets,
    transfer,
    tree,
    two_uplinks,
    until,
)

SECOND = "10.2.0.2"
USER = 1001


def asked(*applications: dict[str, Any], path: dict[str, Any] | None = None, **leaves: Any):
    """With w2 as a backup, these applications, and more leaves of `connections`."""
    whole = tree("w2", connections={"application": list(applications), **leaves})
    whole["tsn-multipath:multipath"]["path"][1] |= path or {}
    return whole


def mode(name: str, **more: Any) -> dict[str, Any]:
    """An application that has all connections."""
    return {"name": "all", "mode": name, **more}


class Station:
    """The agent, with what it has reported."""

    def __init__(self, switch: Switch) -> None:
        self.switch, self.events = switch, []

    def look(self) -> None:
        self.events += [
            each for each in self.switch.ports.observe().events if isinstance(each, MultipathEvent)
        ]

    def until(self, wanted: Callable[[], Any], seconds: float = 5.0) -> bool:
        def seen() -> Any:
            self.look()
            return wanted()

        return until(seen, seconds)

    def told(self, name: str) -> list[dict[str, Any]]:
        return [dict(each.leaves) for each in self.events if each.name == name]

    @property
    def node(self) -> NodeState:
        return next(iter(self.switch.read().values()))[NodeState]

    def of(self, running: Transfer):
        """The connection of the transfer, as it is reported after another look."""
        self.look()
        port = running.socket.getsockname()[1]
        return next((each for each in self.node.connections if each.diag.local_port == port), None)

    def second(self, running: Transfer):
        its = self.of(running)
        return next((each for each in its.subflows if each.interface == "w2"), None)


@pytest.fixture
def record(tmp_path) -> Path:
    return tmp_path / "multipath.json"


@pytest.fixture
def station(record) -> Iterator[Station]:
    with two_uplinks(), agent(record) as switch:
        yield Station(switch)


def test_each_user_has_the_mode_that_the_operator_says(station):
    reliable = {"name": "radio", "mode": "reliability", "user": [USER]}
    apply(station.switch, asked(reliable, mode("single-path")))
    with transfer(user=USER) as first, transfer(port=PORT + 1) as other:
        assert station.until(lambda: first.subflows == 2)
        second = station.second(first)
        assert (second.diag.is_backup, second.reason) == (True, "mode reliability")
        octets = other.octets
        assert station.until(lambda: other.octets - octets > 10_000_000)
        assert other.subflows == 1
        its = station.of(first)
        assert (its.application, its.reason) == ("radio", "application radio of the operator")


def test_a_connection_follows_the_mode_of_its_application_within_a_second(station):
    apply(station.switch, asked(mode("single-path")))
    with transfer() as running:
        assert station.until(lambda: running.octets > 1_000_000)
        assert running.subflows == 1
        apply(station.switch, asked(mode("hassle-free")))
        assert station.until(lambda: running.subflows == 2, seconds=1.0)
        before = sent_octets("w2")
        assert station.until(lambda: sent_octets("w2") - before > 1_000_000)
        apply(station.switch, asked(mode("reliability")))
        assert station.until(lambda: station.second(running).diag.is_backup, seconds=1.0)
        time.sleep(0.5)
        before, octets = sent_octets("w2"), running.octets
        assert station.until(lambda: running.octets - octets > 10_000_000)
        assert sent_octets("w2") - before < 100_000
        apply(station.switch, asked(mode("single-path")))
        assert station.until(lambda: running.subflows == 1, seconds=1.0)
        octets = running.octets
        assert station.until(lambda: running.octets - octets > 1_000_000)
        assert station.until(lambda: station.told("subflow-closed"))
    modes = [(each["before"], each["mode"]) for each in station.told("mode-changed")]
    assert modes == [
        ("single-path", "hassle-free"),
        ("hassle-free", "reliability"),
        ("reliability", "single-path"),
    ]
    assert [each["reason"] for each in station.told("subflow-opened")] == ["mode hassle-free"]
    assert [each["reason"] for each in station.told("subflow-closed")] == ["mode single-path"]


def test_a_connection_gets_its_second_path_once_it_is_a_download(station):
    apply(station.switch, asked(mode("download"), download={"small-object": "20000000"}))
    with transfer() as running:
        assert station.until(lambda: running.octets > 15_000_000)
        assert running.subflows == 1
        assert station.until(lambda: running.subflows == 2)
        assert running.octets > 19_000_000
        assert station.second(running).reason == "more than 20000000 octets have come"


def test_a_connection_is_a_download_when_it_lasts_however_much_it_carries(station):
    thresholds = {"small-object": "100000000000", "long-running": 3000}
    apply(station.switch, asked(mode("download"), download=thresholds))
    with transfer() as running:
        assert not station.until(lambda: running.subflows == 2, seconds=2.5)
        assert station.until(lambda: running.subflows == 2, seconds=1.5)
        assert station.second(running).reason == "data have come for more than 3 s"


def test_a_path_beyond_its_data_limit_is_a_backup(station):
    limit = {"data-limit": {"maximum": "10000000", "warning": 50}}
    apply(station.switch, asked(mode("hassle-free"), path=limit))
    with transfer() as running:
        assert station.until(lambda: station.told("path-demoted"))
        assert station.until(lambda: station.second(running).diag.is_backup)
        why = "its data limit of 10000000 octets is exceeded"
        assert station.second(running).reason == why
        time.sleep(0.5)
        before, octets = sent_octets("w2"), running.octets
        assert station.until(lambda: running.octets - octets > 10_000_000)
        assert sent_octets("w2") - before < 100_000
    (near,) = station.told("data-limit-near")
    assert 5_000_000 <= int(near["octets"]) <= 10_000_000
    assert station.told("path-demoted") == [{"interface": "w2", "reason": why}]
    assert station.node.uses["w2"].demoted == why
    apply(station.switch, asked(mode("hassle-free")))
    station.look()
    assert station.told("path-restored") == [{"interface": "w2"}]


def strips_options(device: str) -> None:
    hook = f"type filter hook ingress device {device} priority 0;"
    rules = f"table netdev middlebox {{ chain in {{ {hook} reset tcp option 30; }}; }}"
    subprocess.run(
        ["ip", "netns", "exec", FAR, "nft", "-f", "-"], input=rules, text=True, check=True
    )


def test_between_addresses_where_a_subflow_failed_no_other_one_is_tried_for_a_while(station):
    strips_options("f2")
    apply(station.switch, asked(mode("hassle-free"), **{"retry-after": 20_000}))
    with transfer() as running:
        assert station.until(lambda: station.node.exclusions, seconds=10)
        (excluded,) = station.node.exclusions
        assert (excluded.local, excluded.remote) == (SECOND, SERVER)
        assert running.subflows == 1
        joins = counted("MPJoinSynTx")
        assert not station.until(lambda: counted("MPJoinSynTx") > joins, seconds=10)
        assert station.until(lambda: counted("MPJoinSynTx") > joins, seconds=20)


def test_a_connection_by_a_middlebox_that_strips_options_is_plain_tcp_and_said_to_be(station):
    strips_options("f1")
    apply(station.switch, asked(mode("hassle-free")))
    with transfer() as running:
        assert station.until(lambda: station.told("fall-back"))
        assert station.of(running) is None
        octets = running.octets
        assert station.until(lambda: running.octets - octets > 1_000_000)
    assert station.told("fall-back") == [
        {"local": "10.1.0.2", "remote": SERVER, "remote-port": PORT}
    ]
    with transfer("10.2.0.1", port=PORT + 1) as running:
        assert station.until(lambda: station.of(running))


def counted(name: str) -> int:
    with inside(STATION):
        text = Path("/proc/thread-self/net/netstat").read_text(encoding="ascii")
    names, values = (each.split() for each in text.splitlines() if each.startswith("MPTcpExt"))
    return int(dict(zip(names, values, strict=True))[name])


def test_a_hot_machine_has_one_path(station, tmp_path, monkeypatch):
    zone = tmp_path / "thermal_zone0"
    zone.mkdir()
    (zone / "type").write_text("cpu\n")

    def heat(millicelsius: int) -> None:
        (zone / "temp").write_text(f"{millicelsius}\n")

    monkeypatch.setattr(millicelsius, "__defaults__", (tmp_path,))
    levels = {"zone": "cpu", "stop-level": 45_000, "restart-level": 42_000}
    heat(41_000)
    apply(station.switch, asked(mode("hassle-free"), heat=levels))
    with transfer() as running:
        assert station.until(lambda: station.told("subflow-opened"))
        heat(46_000)
        assert station.until(lambda: running.subflows == 1)
        assert station.node.millicelsius == 46_000
        heat(43_000)
        assert not station.until(lambda: running.subflows == 2, seconds=2)
        heat(41_000)
        assert station.until(lambda: running.subflows == 2)
    assert station.told("subflow-closed")[0]["reason"] == "the machine is hot"


def test_a_killed_agent_leaves_connections_and_the_next_one_knows_them(record):
    with two_uplinks():
        with agent(record) as switch:
            first = Station(switch)
            apply(switch, asked(mode("hassle-free")))
            running_context = transfer()
            running = running_context.__enter__()
            assert first.until(lambda: running.subflows == 2)
        assert running.subflows == 2
        with agent(record) as switch:
            second = Station(switch)
            apply(switch, asked(mode("hassle-free")))
            octets = running.octets
            assert second.until(lambda: running.octets - octets > 10_000_000)
            assert running.subflows == 2
            apply(switch, asked(mode("single-path")))
            assert second.until(lambda: running.subflows == 1)
            running_context.__exit__(None, None, None)


def test_connections_of_the_kernels_path_manager_stay_its_own_and_say_so(station):
    apply(station.switch, tree("w2", default_mode="reliability"))
    with transfer() as running:
        assert station.until(lambda: running.subflows == 2)
        apply(station.switch, asked(mode("single-path")))
        assert station.until(lambda: station.of(running))
        assert station.until(lambda: not station.of(running).is_managed)
        assert running.subflows == 2
    apply(station.switch, tree("w2"))
    assert Path("/proc/sys/net/mptcp/pm_type").read_text().strip() == "0"
    with transfer() as running:
        assert station.until(lambda: running.subflows == 2)


def test_a_path_is_announced_to_a_peer_that_has_begun_a_connection(station):
    whole = asked(mode("hassle-free"))
    whole["tsn-multipath:multipath"]["path"][1]["announce"] = True
    apply(station.switch, whole)
    ip("mptcp", "limits", "set", "subflows", "4", "add_addr_accepted", "4", namespace=FAR)
    with transfer("10.1.0.2", begins=FAR, listens=STATION) as running:
        assert station.until(lambda: running.subflows == 2)


def test_a_mode_that_the_kernel_cannot_do_is_refused_with_what_it_has(station):
    with pytest.raises(AgentError, match=r"application all: mode low-latency .* has: default"):
        apply(station.switch, asked(mode("low-latency")))
    assert Path("/proc/sys/net/mptcp/pm_type").read_text().strip() == "0"


def test_a_tunnel_is_no_path(station):
    tunnel = ["type", "vxlan", "id", "7", "remote", SERVER, "dstport", "4789", "dev", "w1"]
    ip("link", "add", "name", "vx7", *tunnel)
    ip("addr", "add", "10.3.0.2/24", "dev", "vx7")
    with pytest.raises(AgentError, match=r"port vx7: it is a tunnel \(vxlan\)"):
        apply(station.switch, tree(paths=("w1", "vx7")))
