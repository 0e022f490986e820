"""The agent on a real sysrepo: filtering entries reach the bridge, in one change with gates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingState,
    ForwardingTable,
    Member,
)
from agent.mechanisms.gates.model import GateState
from tests.stack.filtering_entries import PORTS, bridges, entry, registration, switch
from tests.stack.sysrepo_client import gated

BRIDGES = "/ieee802-dot1q-bridge:bridges"
TO_ONE, TO_GROUP = "02-00-00-00-00-02", "91-E0-F0-00-FE-01"

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture
def kernel():
    return switch()


def interfaces(*ports):
    return {"ietf-interfaces:interfaces": {"interface": [gated(name) for name in ports]}}


def table(kernel):
    return kernel.states["br0"][ForwardingState].table


def test_entries_reach_the_bridge(client, kernel):
    client.merge(bridges(entry(TO_ONE, "p2"), entry(TO_GROUP, "p2", "p3")))
    one, group = Address(TO_ONE, 10), Address(TO_GROUP, 10)
    assert table(kernel) == ForwardingTable(
        frozenset({Entry(one, "p2"), Entry(group, "p2"), Entry(group, "p3")}),
        frozenset(Member(10, name) for name in PORTS),
    )


def test_gates_and_entries_of_one_commit_are_one_change(client, kernel):
    client.merge(interfaces("p1") | bridges(entry(TO_ONE, "p2")))
    assert sorted(kernel.log) == ["apply br0", "apply p1"]
    assert client.read("/tsn-linux:agent")["tsn-linux:agent"]["last-change"]["ports"] == 2
    client.delete(BRIDGES)
    assert table(kernel) == ForwardingTable()
    assert kernel.states["p1"][GateState].taprio is not None


def test_entries_that_are_refused_refuse_the_gates_of_their_commit(client, kernel):
    why = client.refusal(interfaces("p1") | bridges(entry(TO_ONE, "p9")))
    assert "port br0: p9 is no port of this bridge; its ports: p1, p2, p3" in why
    assert kernel.states["p1"][GateState].taprio is None


def test_gates_that_are_refused_refuse_the_entries_of_their_commit(client, kernel):
    kernel.gates_refused = "no taprio here"
    assert "no taprio here" in client.refusal(interfaces("p1") | bridges(entry(TO_ONE, "p2")))
    assert table(kernel) == ForwardingTable()


def test_a_restarted_agent_finds_nothing_to_do(client, kernel, agent):
    client.merge(interfaces("p1") | bridges(entry(TO_ONE, "p2")))
    agent.close()
    done = list(kernel.log)
    Datastore(kernel).close()
    assert kernel.log == done


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bridges(members=["p1"], bridge="br7"), "port br7: no such interface"),
        (bridges(members=["p1"], bridge="p1"), "port p1: it is no bridge"),
        (bridges(entry(TO_ONE, "p1", "p2")), "by p1, p2: the bridge forwards to an individual"),
        (bridges(entry(TO_ONE, "p2"), members=["p1"]), "p2, which has no VLAN registration entry"),
        (bridges(entry("01-80-C2-00-00-0E", "p2")), "01-80-C2-00-00-0E is reserved"),
        (bridges(entry("FF-FF-FF-FF-FF-FF", "p2")), "is the address of no station"),
        (
            bridges(entry(TO_ONE, None)),
            f"a port-map of {TO_ONE} in VLAN 10 has no tsn-linux:interface",
        ),
        (bridges(entry(TO_ONE)), f"the entry of {TO_ONE} in VLAN 10 names no port"),
        (bridges(entry(TO_ONE, "p2", "p2")), "p2 is named twice for"),
        (bridges(entry(TO_ONE, "p2", vlan_id=4095)), "vids is one VLAN, 1 to 4094"),
        (bridges(entry(TO_ONE, "p2", vlan_id="10-12")), "vids is one VLAN, 1 to 4094"),
    ],
)
def test_what_the_bridge_cannot_do_is_refused_with_the_reason(client, kernel, data, why):
    assert why in client.refusal(data)
    assert table(kernel) == ForwardingTable()


@pytest.mark.parametrize(
    ("of", "leaf", "value", "why"),
    [
        ("bridge", "bridge-type", "provider-bridge", "a bridge of Linux is a customer-vlan-bridge"),
        ("component", "type", "d-bridge-component", "a bridge of Linux is one c-vlan-component"),
        ("component", "name", "c1", "the component of a bridge has the name of the bridge"),
        ("filtering-entry", "database-id", 2, "a bridge of Linux has one filtering database"),
        ("vlan-registration-entry", "database-id", 2, "a bridge of Linux has one filtering data"),
        ("filtering-entry", "entry-type", "dynamic", "the kernel makes dynamic entries"),
        ("vlan-registration-entry", "entry-type", "dynamic", "the kernel makes dynamic entries"),
        (
            "port-map",
            "static-filtering-entries",
            {"control-element": "filter"},
            "control-element forward",
        ),
    ],
)
def test_what_a_bridge_of_linux_is_not_is_refused(  # noqa: PLR0917
    client, kernel, of, leaf, value, why
):
    data = bridges(entry(TO_ONE, "p2"))
    (bridge,) = data["ieee802-dot1q-bridge:bridges"]["bridge"]
    (component,) = bridge["component"]
    database = component["filtering-database"]
    nodes = {"bridge": bridge, "component": component}
    nodes |= {name: rows[0] for name, rows in database.items()}
    nodes["port-map"] = nodes["filtering-entry"]["port-map"][0]
    nodes[of][leaf] = value
    assert why in client.refusal(data)
    assert table(kernel) == ForwardingTable()


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("vlan_filtering", "ip link set br0 type bridge vlan_filtering 1"),
        ("multicast_snooping", f"{TO_GROUP} in VLAN 10 is one; ip link set br0 type bridge mcast"),
    ],
)
def test_options_of_the_bridge_that_are_off_are_named_with_the_cure(client, kernel, option, why):
    state = kernel.states["br0"]
    off = replace(state.as_bridge, **{option: False})
    kernel.states["br0"] = replace(state, as_bridge=off)
    assert why in client.refusal(bridges(entry(TO_GROUP, "p2", "p3")))


def test_what_others_have_made_is_neither_taken_nor_changed(client, kernel):
    foreign = ForwardingTable(
        frozenset({Entry(Address(TO_ONE, 10), "p1")}), frozenset({Member(20, "p3")})
    )
    state = kernel.states["br0"]
    kernel.states["br0"] = state.with_part(ForwardingState(foreign=foreign))
    why = client.refusal(bridges(entry(TO_ONE, "p2")))
    assert f"there is an entry for {TO_ONE} in VLAN 10 at p1 that the agent has not made" in why
    database = bridges()["ieee802-dot1q-bridge:bridges"]
    database["bridge"][0]["component"][0]["filtering-database"]["vlan-registration-entry"] = [
        registration("p1", vlan_id=20)
    ]
    why = client.refusal({"ieee802-dot1q-bridge:bridges": database})
    assert "p3: a member of VLAN 20 that the agent has not made" in why


def test_the_operational_datastore_has_the_entries_of_the_kernel(client, kernel):
    client.merge(bridges(entry(TO_GROUP, "p2", "p3")))
    (bridge,) = client.read(BRIDGES)["ieee802-dot1q-bridge:bridges"]["bridge"]
    (component,) = bridge["component"]
    assert bridge["address"] == "02-00-00-00-00-09"
    assert component["bridge-port"] == list(PORTS)
    assert component["tsn-linux:vlan-filtering"] is True
    (shown,) = component["filtering-database"]["filtering-entry"]
    assert shown["status"] == "mgmt"
    ports = [(row["port-ref"], row["tsn-linux:interface"]) for row in shown["port-map"]]
    assert ports == [(2, "p2"), (3, "p3")]
    kernel.states["br0"] = kernel.states["br0"].with_part(ForwardingState())
    (bridge,) = client.read(BRIDGES)["ieee802-dot1q-bridge:bridges"]["bridge"]
    assert "filtering-entry" not in bridge["component"][0]["filtering-database"]


def test_the_operational_datastore_has_the_states_of_ports_and_the_vlans_of_others(client, kernel):
    state = kernel.states["br0"]
    others = ForwardingTable(
        frozenset(Entry(Address(TO_ONE, each), "p1") for each in (1, 2)),
        frozenset(Member(each, "p2") for each in (1, 20, 21, 22)),
    )
    blocked = replace(state.as_bridge, port_states={"p1": "forwarding", "p2": "blocking"})
    kernel.states["br0"] = replace(state, as_bridge=blocked).with_part(
        ForwardingState(foreign=others)
    )
    (bridge,) = client.read(BRIDGES)["ieee802-dot1q-bridge:bridges"]["bridge"]
    (component,) = bridge["component"]
    assert {
        row["interface"]: row["spanning-tree-state"] for row in component["tsn-linux:port"]
    } == {
        "p1": "forwarding",
        "p2": "blocking",
    }
    assert component["tsn-linux:foreign-vlans"] == [{"interface": "p2", "vids": "1,20-22"}]
    assert component["tsn-linux:foreign-entries"] == [
        {"address": TO_ONE, "interface": "p1", "vids": "1-2"}
    ]
