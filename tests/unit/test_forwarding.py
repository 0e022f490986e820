"""Static forwarding of a bridge: what is asked for, compared, refused and reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanism import BRIDGE, Refused
from agent.mechanisms.forwarding import FORWARDING as MECHANISM
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingConfig,
    ForwardingState,
    ForwardingTable,
    Member,
)
from agent.model import PortConfig
from tests.stack import filtering_entries
from tests.stack.filtering_entries import PORTS, bridges, entry, registration
from tests.stack.recording_kernel import port

TO_ONE, TO_GROUP = "02-00-00-00-00-0A", "91-E0-F0-00-FE-01"
ONE, GROUP = Address(TO_ONE, 10), Address(TO_GROUP, 10)
MEMBERS = frozenset(Member(10, name) for name in PORTS)
TABLE = ForwardingTable(
    frozenset({Entry(ONE, "p2"), Entry(GROUP, "p2"), Entry(GROUP, "p3")}), MEMBERS
)
STATE = replace(port("br0", 9), as_bridge=filtering_entries.BRIDGE)


def configured(*entries, **options):
    (bridge,) = bridges(*entries, **options)["ieee802-dot1q-bridge:bridges"]["bridge"]
    return MECHANISM.configured({"name": "br0", BRIDGE: bridge}, None)


def problems(table, state=STATE):
    return list(MECHANISM.problems(PortConfig("br0", (ForwardingConfig(table),)), state))


def test_the_table_is_that_of_the_bridge_whatever_the_case_of_its_addresses():
    given = configured(entry(TO_ONE.lower(), "p2"), entry(TO_GROUP, "p2", "p3"))
    assert given == ForwardingConfig(TABLE)
    assert MECHANISM.configured({"name": "br0"}, None) == ForwardingConfig()


def test_an_address_in_both_cases_is_one_address():
    with pytest.raises(Refused, match=f"p2 is named twice for {TO_ONE} in VLAN 10"):
        configured(entry(TO_ONE, "p2"), entry(TO_ONE.lower(), "p2"))


def test_an_entry_or_a_registration_without_a_port_is_refused():
    with pytest.raises(Refused, match=f"the entry of {TO_ONE} in VLAN 10 names no port"):
        configured(entry(TO_ONE))
    with pytest.raises(Refused, match="the entry of VLAN 10 names no port"):
        MECHANISM.configured(
            {
                "name": "br0",
                BRIDGE: {
                    "component": [
                        {"filtering-database": {"vlan-registration-entry": [registration()]}}
                    ]
                },
            },
            None,
        )


@pytest.mark.parametrize(
    ("kernel", "difference"),
    [
        (TABLE, None),
        (
            ForwardingTable(),
            (
                "p1 is no member of VLAN 10, p2 is no member of VLAN 10, "
                "p3 is no member of VLAN 10, and 3 more differences"
            ),
        ),
        (
            ForwardingTable(TABLE.entries - {Entry(GROUP, "p3")}, MEMBERS),
            f"frames to {GROUP} do not leave by p3",
        ),
        (
            ForwardingTable(TABLE.entries | {Entry(GROUP, "p1")}, MEMBERS | {Member(20, "p1")}),
            (
                f"frames to {GROUP} leave by p1, which is not configured, "
                "p1 is a member of VLAN 20, which is not configured"
            ),
        ),
    ],
)
def test_what_differs_is_named(kernel, difference):
    asked = PortConfig("br0", (ForwardingConfig(TABLE),))
    changes = list(MECHANISM.diff(asked, STATE.with_part(ForwardingState(kernel))))
    assert [change.difference for change in changes] == ([difference] if difference else [])


def test_a_table_that_the_bridge_can_have_has_no_problem():
    assert problems(TABLE) == []
    assert problems(ForwardingTable(), port("p1")) == []


@pytest.mark.parametrize("vlan_id", [0, 4095])
def test_a_vlan_that_is_none_is_refused(vlan_id):
    (problem,) = problems(ForwardingTable(members=frozenset({Member(vlan_id, "p1")})))
    assert problem == f"VLAN {vlan_id} is none that a bridge forwards; choose one of 1 to 4094"


def test_an_entry_of_somebody_else_for_a_group_is_in_the_way_at_its_own_ports_only():
    def foreign(name):
        others = ForwardingTable(frozenset({Entry(GROUP, name)}))
        return STATE.with_part(ForwardingState(foreign=others))

    assert problems(TABLE, foreign("p1")) == []
    (problem,) = problems(TABLE, foreign("p3"))
    assert problem.startswith(f"there is an entry for {GROUP} at p3 that the agent has not made")


def test_a_bridge_reports_its_entries_by_the_numbers_of_its_ports():
    state = STATE.with_part(ForwardingState(TABLE))
    database = MECHANISM.operational_of_bridge(state)["filtering-database"]
    assert database["static-entries"] == 2
    (members,) = database["vlan-registration-entry"]
    assert [row["port-ref"] for row in members["port-map"]] == [1, 2, 3]
    assert configured(*database["filtering-entry"]) == ForwardingConfig(TABLE)
    assert MECHANISM.operational_of_bridge(port("p1")) == {}


def test_a_bridge_reports_the_vlans_that_others_have_made():
    vlans = {"p1": (1, 10, 11, 12, 20), "br0": (1,)}
    members = frozenset(Member(each, name) for name, vlan_ids in vlans.items() for each in vlan_ids)
    state = STATE.with_part(ForwardingState(foreign=ForwardingTable(members=members)))
    assert MECHANISM.operational_of_bridge(state)["tsn-linux:foreign-vlans"] == [
        {"interface": "br0", "vids": "1"},
        {"interface": "p1", "vids": "1,10-12,20"},
    ]
    assert "tsn-linux:foreign-vlans" not in MECHANISM.operational_of_bridge(STATE)


def test_a_bridge_reports_the_entries_that_others_have_made():
    of_port = {Entry(Address(TO_ONE, each), "p1") for each in (1, 10, 11, 12)}
    entries = frozenset({*of_port, Entry(GROUP, "p3"), Entry(GROUP, "br0")})
    state = STATE.with_part(ForwardingState(TABLE, ForwardingTable(entries)))
    vids = str(GROUP.vlan_id)
    assert MECHANISM.operational_of_bridge(state)["tsn-linux:foreign-entries"] == [
        {"address": TO_ONE, "interface": "p1", "vids": "1,10-12"},
        {"address": GROUP.mac, "interface": "br0", "vids": vids},
        {"address": GROUP.mac, "interface": "p3", "vids": vids},
    ]
    assert "tsn-linux:foreign-entries" not in MECHANISM.operational_of_bridge(STATE)
