"""The paths of an end station in a kernel: endpoints, rules, routes and settings, and what a
connection makes of them."""

from __future__ import annotations

import itertools
import subprocess
import time
from pathlib import Path

import pytest

from agent.datastore.desired import desired_ports
from agent.mechanisms.multipath.source_routes import PROTOCOL, TABLES
from agent.model import AgentError
from agent.switch import differences
from tests.kernel.conftest import FAR, inside
from tests.kernel.two_uplinks import (
    STATION,
    UPLINKS,
    agent,
    applied_until,
    apply,
    default_routes,
    ip,
    sent_octets,
    transfer,
    tree,
    two_uplinks,
    until,
)

FULL_MESH = ["10.1.0.2 id 1 subflow fullmesh dev w1", "10.2.0.2 id 2 subflow fullmesh dev w2"]
SYSCTLS = (
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "ipv4/tcp_no_metrics_save",
    "ipv4/tcp_congestion_control",
    "mptcp/enabled",
)
AS_FOUND = ["add_addr_accepted 0 subflows 2"]


@pytest.fixture
def station():
    with two_uplinks():
        yield


@pytest.fixture
def record(tmp_path):
    return tmp_path / "multipath.json"


@pytest.fixture
def switch(station, record):
    with agent(record) as made:
        yield made


def endpoints():
    return ip("mptcp", "endpoint")


def rules():
    return [line for line in ip("rule") if f"proto {PROTOCOL}" in line]


def routes():
    listed = ip("route", "show", "table", "all", "proto", str(PROTOCOL))
    return [" ".join(line.split()) for line in listed]


def table(uplink):
    return TABLES + int(ip("-o", "link", "show", "dev", uplink)[0].partition(":")[0])


def sysctl(name):
    with inside(STATION):
        return Path("/proc/sys/net", name).read_text().split()


def test_every_address_of_a_path_has_an_endpoint_a_rule_and_the_routes_of_its_port(switch):
    apply(switch, tree())
    assert endpoints() == FULL_MESH
    assert ip("mptcp", "limits") == ["add_addr_accepted 8 subflows 8"]
    assert sorted(rules()) == [
        f"20000:\tfrom 10.{number}.0.2 lookup {table(uplink)} proto {PROTOCOL}"
        for number, uplink in enumerate(UPLINKS, start=1)
    ]
    first = table("w1")
    assert {line for line in routes() if f"table {first}" in line} == {
        f"default via 10.1.0.1 dev w1 table {first} metric 100",
        f"10.1.0.0/24 dev w1 table {first} scope link src 10.1.0.2",
    }


def test_a_path_is_announced_to_peers(switch):
    configured = tree()
    configured["tsn-multipath:multipath"]["path"][1]["announce"] = True
    apply(switch, configured)
    assert endpoints() == [FULL_MESH[0], "10.2.0.2 id 2 signal dev w2"]


def test_what_is_in_force_already_is_not_touched(switch):
    configured = tree("w2", default_mode="reliability", tuning={"maximum-buffer": 12_000_000})
    apply(switch, configured)
    assert apply(switch, configured).steps == ()


def test_settings_are_what_is_configured_and_what_was_found_returns(switch):
    before = {each: sysctl(each) for each in SYSCTLS}
    tuning = {"maximum-buffer": 12_000_000, "no-metrics-save": True, "congestion-control": "reno"}
    apply(switch, tree(tuning=tuning, enabled=False))
    assert {each: sysctl(each) for each in SYSCTLS} == {
        "ipv4/tcp_rmem": [*before["ipv4/tcp_rmem"][:2], "12000000"],
        "ipv4/tcp_wmem": [*before["ipv4/tcp_wmem"][:2], "12000000"],
        "ipv4/tcp_no_metrics_save": ["1"],
        "ipv4/tcp_congestion_control": ["reno"],
        "mptcp/enabled": ["0"],
    }
    apply(switch, {})
    assert {each: sysctl(each) for each in before} == before
    assert (ip("mptcp", "limits"), endpoints(), rules(), routes()) == (AS_FOUND, [], [], [])


def test_a_setting_of_another_program_since_stays(switch, record):
    apply(switch, tree())
    ip("mptcp", "limits", "set", "subflows", "5")
    apply(switch, {})
    assert ip("mptcp", "limits") == ["add_addr_accepted 0 subflows 5"]
    assert not record.exists()


def test_endpoints_and_rules_of_others_stay(switch):
    ip("mptcp", "endpoint", "add", "10.9.0.9", "id", "7", "signal")
    ip("rule", "add", "from", "10.1.0.2", "lookup", "main", "priority", "30000")
    apply(switch, tree())
    apply(switch, {})
    assert endpoints() == ["10.9.0.9 id 7 signal"]
    assert "30000:\tfrom 10.1.0.2 lookup main" in ip("rule")


def test_a_path_whose_endpoint_another_program_has_made_is_refused_by_name(switch):
    ip("mptcp", "endpoint", "add", "10.2.0.2", "id", "7", "subflow")
    with pytest.raises(AgentError, match=r"port w2: another program .* 10.2.0.2 \(id 7\)"):
        apply(switch, tree())
    assert endpoints() == ["10.2.0.2 id 7 subflow"]
    assert (rules(), routes()) == ([], [])


@pytest.mark.parametrize(
    ("leaves", "reason"),
    [
        ({"default_mode": "low-latency"}, "mode low-latency needs .* this kernel has: default"),
        ({"scheduler": "redundant"}, "scheduler redundant is not available; .* has: default"),
        (
            {"tuning": {"congestion-control": "swift"}},
            "congestion-control swift is not available; this kernel has: .*cubic",
        ),
    ],
)
def test_what_the_kernel_has_not_is_refused_with_what_it_has(switch, leaves, reason):
    with pytest.raises(AgentError, match=reason):
        apply(switch, tree(**leaves))
    assert (endpoints(), rules(), ip("mptcp", "limits")) == ([], [], AS_FOUND)


def test_a_setting_that_the_kernel_refuses_leaves_all_as_it_was(switch):
    with pytest.raises(AgentError, match="maximum-receive-buffer 2147483648"):
        apply(switch, tree(tuning={"maximum-buffer": 2**31}))
    assert (endpoints(), rules(), ip("mptcp", "limits")) == ([], [], AS_FOUND)


def test_a_path_without_an_address_is_refused(switch):
    ip("addr", "flush", "dev", "w2")
    with pytest.raises(AgentError, match="port w2: it has no IP address"):
        apply(switch, tree())


def test_what_another_program_takes_from_a_path_is_told_and_set_again(switch):
    apply(switch, tree())
    ip("mptcp", "endpoint", "delete", "id", "2")
    ip("rule", "delete", "from", "10.1.0.2")
    ip("mptcp", "limits", "set", "subflows", "1")
    mechanisms, wanted = switch.ports.mechanisms, wanted_of(switch, tree())
    told = differences(mechanisms, wanted, switch.read())
    assert "10.1.0.2 has no rule" in told["w1"]
    assert "subflows is 1, configured is 8" in told["w2"]
    apply(switch, tree())
    assert sorted(line.split()[0] for line in endpoints()) == ["10.1.0.2", "10.2.0.2"]
    assert differences(mechanisms, wanted, switch.read()) == {}


def wanted_of(switch, configured):
    return desired_ports(configured, switch.read())


def test_another_agent_knows_what_a_killed_one_has_made(station, record):
    with agent(record) as first:
        apply(first, tree())
    with agent(record) as second:
        assert apply(second, tree()).steps == ()
        apply(second, {})
    assert (endpoints(), rules(), routes(), ip("mptcp", "limits")) == ([], [], [], AS_FOUND)


RELIABLE = tree("w2", default_mode="reliability", tuning={"maximum-buffer": 12_000_000})


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, RELIABLE), (tree(), RELIABLE), (RELIABLE, {})],
    ids=["first", "change", "removal"],
)
def test_whenever_an_agent_is_killed_the_next_one_sets_all_or_leaves_nothing(
    station, record, before, after
):
    buffers = sysctl("ipv4/tcp_rmem")
    for moment in itertools.count():
        with agent(record) as first:
            apply(first, before)
        was_killed = applied_until(moment, record, after)
        with agent(record) as second:
            apply(second, RELIABLE)
            assert sorted(" ".join(each.split()[3:]) for each in endpoints()) == [
                "subflow backup fullmesh dev w2",
                "subflow fullmesh dev w1",
            ]
            assert (len(rules()), len(routes())) == (2, 4)
            assert sysctl("ipv4/tcp_rmem")[2] == "12000000"
        with agent(record) as first:
            apply(first, before)
        applied_until(moment, record, after)
        with agent(record) as second:
            apply(second, {})
        assert (endpoints(), rules(), routes(), ip("mptcp", "limits")) == ([], [], [], AS_FOUND)
        assert sysctl("ipv4/tcp_rmem") == buffers
        if not was_killed:
            break
    assert moment > 1


def test_settings_of_an_agent_that_was_killed_before_its_paths_return(station, record):
    with agent(record) as first:
        apply(first, tree())
    for line in rules():
        ip("rule", "delete", "from", line.split()[2])
    ip("mptcp", "endpoint", "flush")
    with agent(record) as second:
        apply(second, {})
    assert ip("mptcp", "limits") == AS_FOUND


def test_a_table_follows_the_main_table_after_a_link_was_down(switch):
    apply(switch, tree())
    second = table("w2")
    ip("link", "set", "dev", "w2", "down")
    ip("link", "set", "dev", "w2", "up")
    default_routes()
    assert not any(f"default via 10.2.0.1 dev w2 table {second}" in line for line in routes())
    switch.read()
    switch.ports.observe()
    assert any(f"default via 10.2.0.1 dev w2 table {second}" in line for line in routes())


def test_a_gateway_outside_of_the_prefix_is_copied_as_it_is(switch):
    ip("route", "add", "10.77.0.0/16", "via", "10.66.0.1", "dev", "w2", "onlink")
    apply(switch, tree())
    (copied,) = (line for line in routes() if line.startswith("10.77.0.0/16"))
    assert copied == f"10.77.0.0/16 via 10.66.0.1 dev w2 table {table('w2')} onlink"


def test_a_connection_uses_both_paths_when_they_come_and_one_when_they_go(switch):
    with transfer() as running:
        assert until(lambda: running.octets)
        assert running.subflows == 1
        apply(switch, tree())
        assert until(lambda: running.subflows == 2)
        before = sent_octets("w2")
        assert until(lambda: sent_octets("w2") - before > 1_000_000)
        apply(switch, tree("w2", default_mode="single-path"))
        assert until(lambda: running.subflows == 1)
        octets = running.octets
        assert until(lambda: running.octets - octets > 10_000_000)
        assert [line.split()[0] for line in endpoints()] == ["10.1.0.2"]
        assert len(rules()) == 2


def test_a_new_connection_has_one_subflow_in_mode_single_path(switch):
    apply(switch, tree(default_mode="single-path"))
    with transfer() as running:
        assert until(lambda: running.octets > 10_000_000)
        assert running.subflows == 1


def test_a_backup_carries_nothing_until_the_mode_changes(switch):
    apply(switch, tree("w2", default_mode="reliability"))
    with transfer() as running:
        assert until(lambda: running.subflows == 2)
        time.sleep(0.2)
        before, octets = sent_octets("w2"), running.octets
        assert until(lambda: running.octets - octets > 10_000_000)
        assert sent_octets("w2") - before < 100_000
        apply(switch, tree())
        assert until(lambda: sent_octets("w2") - before > 1_000_000)


@pytest.mark.virtual_time
def test_a_buffer_for_both_paths_lets_a_connection_fill_long_ones(switch):
    """Of 54 and 100 Mb/s, each with a round trip of 100 ms."""
    for number, rate in ((1, "54mbit"), (2, "100mbit")):
        for namespace, name in ((STATION, f"w{number}"), (FAR, f"f{number}")):
            long = ["netem", "rate", rate, "delay", "50ms", "limit", "10000"]
            tc = ["tc", "-n", namespace, "qdisc", "replace", "dev", name, "root", *long]
            subprocess.run(tc, check=True)
    carried_bps = {}
    for octets in (262_144, 12_000_000):
        apply(switch, tree(tuning={"maximum-buffer": octets}))
        with transfer() as running:
            assert until(lambda: running.subflows == 2)
            time.sleep(3)
            before = running.octets
            time.sleep(3)
            carried_bps[octets] = (running.octets - before) * 8 / 3
    assert carried_bps[262_144] < 40_000_000
    assert carried_bps[12_000_000] > 125_000_000
