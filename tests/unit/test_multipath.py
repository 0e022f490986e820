"""The paths of an end station on the agent: read, compared, reported, and kept in memory."""

from __future__ import annotations

import json

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from agent.datastore.desired import desired_ports
from agent.kernel.mptcp_pm import Limits
from agent.mechanisms import MECHANISMS
from agent.mechanisms.multipath.kernel import counters
from agent.mechanisms.multipath.model import (
    EndpointState,
    MultipathConfig,
    MultipathState,
    NodeState,
    RoutedPath,
)
from agent.mechanisms.multipath.settings import NamespaceSettings
from agent.mechanisms.multipath.tree import operational
from agent.memory_ports import MemoryPorts, rehearsal_ports
from agent.model import AgentError
from agent.switch import Switch, differences, problems

FULL_MESH = frozenset({"subflow", "fullmesh"})
BACKUP = FULL_MESH | {"backup"}
SUBFLOW = EndpointState("10.2.0.2", 7, frozenset({"subflow"}), is_ours=False)


def tree(**leaves):
    paths = [{"interface": "eth0"}, {"interface": "wwan0", "backup": True}]
    return {"tsn-multipath:multipath": {"path": paths, **leaves}}


def asked(**leaves):
    return {
        name: config[MultipathConfig] for name, config in desired_ports(tree(**leaves), {}).items()
    }


@pytest.fixture
def station():
    return Switch(MemoryPorts(MECHANISMS, rehearsal_ports(["eth0", "wwan0"])))


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        ("hassle-free", FULL_MESH),
        ("reliability", BACKUP),
        ("low-latency", FULL_MESH),
        ("single-path", None),
    ],
)
def test_the_mode_decides_what_a_backup_is_for(mode, flags):
    paths = asked(**{"default-mode": mode})
    assert paths["wwan0"].path == RoutedPath(flags)
    # Of a path that is none it never changes: the kernel would close first subflows.
    assert paths["eth0"].path == RoutedPath(FULL_MESH)


def test_without_leaves_connections_use_all_that_the_kernel_takes():
    expected = (("add-addr-accepted", "8"), ("enabled", "1"), ("subflows", "8"))
    assert {each.settings for each in asked().values()} == {expected}


def test_a_new_connection_has_no_second_subflow_in_mode_single_path():
    (settings,) = {each.settings for each in asked(**{"default-mode": "single-path"}).values()}
    assert dict(settings)["subflows"] == "0"


def test_a_leaf_of_both_buffers_sets_both():
    values = dict(asked(tuning={"maximum-buffer": 12_000_000})["eth0"].settings)
    assert values["maximum-receive-buffer"] == values["maximum-send-buffer"] == "12000000"


def test_a_station_in_memory_takes_changes_and_loses_its_paths(station):
    for leaves in ({}, {"default-mode": "reliability", "limits": {"subflows": 2}}):
        wanted = desired_ports(tree(**leaves), {})
        station.apply(wanted)
        assert station.apply(wanted).steps == ()
        assert differences(MECHANISMS, wanted, station.read()) == {}
    station.apply({})
    assert {each[MultipathState] for each in station.read().values()} == {MultipathState()}


def test_an_undone_change_leaves_the_paths_of_before(station):
    station.apply(desired_ports(tree(), {}))
    before = station.read()
    station.apply(desired_ports(tree(**{"default-mode": "reliability"}), {})).undo()
    assert station.read() == before


def test_a_path_that_lacks_something_differs_in_these_words(station):
    wanted = desired_ports(tree(), {})
    station.apply(wanted)
    state = station.read()["eth0"]
    part = state[MultipathState]
    lacking = MultipathState(RoutedPath(FULL_MESH, "10.1.0.2 has no rule"), part.settings)
    told = differences(MECHANISMS, wanted, {"eth0": state.with_part(lacking)})
    assert told == {
        "eth0": "its path is 10.1.0.2 has no rule, configured is endpoints with fullmesh and "
        "subflow"
    }


def test_an_endpoint_of_another_program_is_in_the_way(station):
    state = station.read()["wwan0"].with_part(MultipathState(endpoints=(SUBFLOW,)))
    (found,) = problems(station.ports, desired_ports(tree(), {}), station.read() | {"wwan0": state})
    assert found.text.startswith("port wwan0: another program has made the endpoint of 10.2.0.2")


def test_what_the_kernel_has_is_reported_whoever_made_it(station):
    state = station.read()["wwan0"].with_part(MultipathState(endpoints=(SUBFLOW,)))
    node = NodeState(
        settings=(("enabled", "1"), ("scheduler", "default"), ("subflows", "2")),
        counters={"MPJoinSynTx": 3},
    )
    assert operational([state.with_part(node)]) == {
        "tsn-multipath:multipath": {
            "kernel": {
                "available-scheduler": ["default"],
                "enabled": True,
                "scheduler": "default",
                "subflows": 2,
                "counter": [{"name": "MPJoinSynTx", "value": "3"}],
            },
            "path-state": [
                {
                    "interface": "wwan0",
                    "managed": False,
                    "endpoint": [
                        {"address": "10.2.0.2", "id": 7, "flags": "subflow", "managed": False}
                    ],
                }
            ],
        }
    }


def test_a_port_beside_the_paths_of_its_station_has_no_state_of_a_path(station):
    state = station.read()["eth0"].with_part(MultipathState(settings=(("subflows", "8"),)))
    assert operational([state]) == {}


def test_a_machine_without_paths_reports_nothing(station):
    assert operational(station.read().values()) == {}


def test_counters_are_the_columns_of_the_kernels_table():
    table = "TcpExt: SyncookiesSent\nTcpExt: 7\nMPTcpExt: MPJoinSynTx MPFailTx\nMPTcpExt: 3 0\n"
    assert counters(table) == {"MPJoinSynTx": 3, "MPFailTx": 0}
    assert counters("TcpExt: SyncookiesSent\nTcpExt: 7\n") == {}


class PathManager:
    """Limits alone, of which 8 is the most."""

    def __init__(self):
        self._limits = Limits(2, 0)

    def limits(self):
        return self._limits

    def set_limits(self, limits):
        if max(limits.subflows, limits.add_addr_accepted) > 8:
            raise NetlinkError(22, "limit greater than maximum (8)")
        self._limits = limits


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "ipv4").mkdir()
    (tmp_path / "ipv4/tcp_rmem").write_text("4096 131072 6291456\n")
    return NamespaceSettings(tmp_path / "record.json", PathManager(), tmp_path)


def test_a_setting_goes_back_to_what_was_found_before_all_changes(settings):
    for octets in ("9000000", "12000000"):
        settings.set((("maximum-receive-buffer", octets), ("subflows", "8")))
    assert settings.set_by_agent() == (("maximum-receive-buffer", "12000000"), ("subflows", "8"))
    settings.set(())
    assert settings.read() == (
        ("add-addr-accepted", "0"),
        ("maximum-receive-buffer", "6291456"),
        ("subflows", "2"),
    )
    assert not settings.has_record


def test_a_setting_that_the_kernel_lacks_or_refuses_is_named(settings):
    with pytest.raises(AgentError, match="this kernel has no scheduler"):
        settings.set((("scheduler", "default"),))
    with pytest.raises(AgentError, match=r"subflows 9: limit greater than maximum"):
        settings.set((("subflows", "9"),))
    settings.set(())
    assert dict(settings.read())["subflows"] == "2"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"boot-id": "another", "settings": {}}', b"[" * 9_000]
)
def test_a_record_of_another_boot_or_of_none_means_that_nothing_is_set(settings, tmp_path, content):
    (tmp_path / "record.json").write_bytes(content)
    assert settings.set_by_agent() == ()


def test_a_record_that_names_what_is_no_setting_is_ignored(settings, tmp_path):
    settings.set((("subflows", "8"),))
    record = tmp_path / "record.json"
    kept = json.loads(record.read_bytes())
    kept["settings"]["root-password"] = ["", "x"]
    record.write_text(json.dumps(kept))
    assert settings.set_by_agent() == ()
