"""The paths of an end station beside Debian's NetworkManager and mptcpd, which make endpoints of
multipath TCP, too, and beside systemd-networkd, which removes routes that it takes for left over.
Nothing of theirs is removed, and nothing that they change goes unseen.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.datastore.desired import desired_ports
from agent.model import AgentError
from agent.switch import Switch, differences
from tests.kernel.network_managers import (
    mptcpd,
    network_manager,
    networkd,
    until,
    without_addresses,
)
from tests.kernel.test_multipath import FULL_MESH, endpoints, routes, rules
from tests.kernel.two_uplinks import agent, apply, ip, tree, two_uplinks

THEIRS = ["10.1.0.2 id 1 subflow dev w1", "10.2.0.2 id 2 subflow dev w2"]
REFUSED = (
    r"port w1: another program has made the endpoint of 10.1.0.2 \(id 1\): .*"
    r"nmcli .*mptcp-flags disabled; mptcpd: systemctl disable --now mptcp.*port w2: "
)


@pytest.fixture(autouse=True)
def station():
    with two_uplinks():
        yield


@pytest.fixture
def switch(station, tmp_path):
    with agent(tmp_path / "multipath.json") as made:
        yield made


def main_table():
    return [line for line in ip("route") if "linkdown" not in line]


def told(switch: Switch) -> dict[str, str]:
    """How the kernel differs from what is configured, by port."""
    wanted = desired_ports(tree(), switch.read())
    return dict(differences(switch.ports.mechanisms, wanted, switch.read()))


def test_paths_whose_endpoints_mptcpd_has_made_are_refused_and_its_endpoints_stay(switch: Switch):
    with mptcpd():
        until(lambda: endpoints() == THEIRS)
        limits = ip("mptcp", "limits")
        with pytest.raises(AgentError, match=f"(?s){REFUSED}"):
            apply(switch, tree())
        assert (endpoints(), rules(), routes(), ip("mptcp", "limits")) == (THEIRS, [], [], limits)
    for number in "12":
        ip("mptcp", "endpoint", "delete", "id", number)
    apply(switch, tree())
    assert told(switch) == {}


def test_what_mptcpd_changes_of_the_paths_is_told_and_set_again(switch: Switch):
    apply(switch, tree())
    with mptcpd():
        until(lambda: ip("mptcp", "limits") == ["add_addr_accepted 4 subflows 4"])
        assert endpoints() == FULL_MESH
        limits = "add-addr-accepted is 4, configured is 8; subflows is 4, configured is 8"
        assert told(switch) == {"w1": limits, "w2": limits}
        apply(switch, tree())
        assert told(switch) == {}
        apply(switch, {})
        # It found those of mptcpd when it set its own again.
        assert ip("mptcp", "limits") == ["add_addr_accepted 4 subflows 4"]
        assert (endpoints(), rules(), routes()) == ([], [], [])


def test_paths_whose_endpoints_networkmanager_has_made_are_refused_and_its_endpoints_stay(
    switch: Switch, tmp_path: Path
):
    without_addresses()
    with network_manager(tmp_path):
        until(lambda: endpoints() == THEIRS)
        with pytest.raises(AgentError, match=f"(?s){REFUSED}"):
            apply(switch, tree())
        assert (endpoints(), rules(), routes()) == (THEIRS, [], [])


def test_endpoints_that_networkmanager_takes_over_are_told_and_set_again(
    switch: Switch, tmp_path: Path
):
    apply(switch, tree())
    with network_manager(tmp_path):
        until(lambda: not any("fullmesh" in line for line in endpoints()))
        differs = "its path is endpoints with subflow, configured is endpoints with fullmesh and "
        assert told(switch) == dict.fromkeys(("w1", "w2"), f"{differs}subflow")
        apply(switch, tree())
        assert told(switch) == {}


def test_paths_and_networkmanager_go_together_where_it_makes_no_endpoints(
    switch: Switch, tmp_path: Path
):
    without_addresses()
    with network_manager(tmp_path, "mptcp-flags=1"):  # NM_MPTCP_FLAGS_DISABLED
        until(lambda: sum("default" in line for line in main_table()) == 2)
        before = main_table()
        apply(switch, tree())
        assert told(switch) == {}
        ip("link", "set", "dev", "w2", "down")
        ip("link", "set", "dev", "w2", "up")
        until(lambda: main_table() == before)
        until(lambda: (switch.ports.observe(), len(routes()) == 4)[1])
        assert (endpoints(), told(switch)) == (FULL_MESH, {})
        apply(switch, {})
        assert (endpoints(), rules(), routes(), main_table()) == ([], [], [], before)


def test_rules_and_tables_of_paths_outlast_restarts_of_networkd(switch: Switch):
    without_addresses()
    with networkd():
        apply(switch, tree())
    with networkd():
        assert (endpoints(), len(rules()), len(routes())) == (FULL_MESH, 2, 4)
        assert told(switch) == {}
        ip("link", "set", "dev", "w2", "down")
        ip("link", "set", "dev", "w2", "up")
        until(lambda: len(main_table()) == 4)
        until(lambda: (switch.ports.observe(), len(routes()) == 4)[1])
        assert (endpoints(), told(switch)) == (FULL_MESH, {})
        apply(switch, {})
        assert (endpoints(), rules(), routes(), len(main_table())) == ([], [], [], 4)
