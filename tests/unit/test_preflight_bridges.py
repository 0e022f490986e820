"""What `cnc doctor` and a push find at bridges that are there and in the way of streams."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lxml import etree

from cnc.data_tree.tree import BridgeReport, ForeignEntry
from cnc.mechanisms.forwarding.preflight import examine_bridge, examine_rings
from cnc.model import NO_FORWARDING, BridgeForwarding, Network, PortRef, StreamAddress
from cnc.rollout.preflight import Finding, Verdict
from cnc.testbed.lab.spanning_tree import spanning_tree
from tests.bridged_networks import ring
from tests.unit.places import bridge_report, reported_bridge

CAMERA = StreamAddress("91:e0:f0:00:fe:01", 10)
ALONE = StreamAddress("02:00:00:00:00:0a", 10)
DESIRED = BridgeForwarding({CAMERA: ("s2",)}, {10: ("s2", "t1")}, (), {CAMERA: "camera"})
BRIDGE = BridgeReport(("s2", "s3", "t1"), NO_FORWARDING)
ANSWER = """
<data xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">
  <bridges xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge"
           xmlns:t="urn:tsn-control-plane:yang:tsn-linux"><bridge>
    <name>br0</name>
    <component>
      <name>br0</name><bridge-port>p1</bridge-port><bridge-port>p2</bridge-port>
      <t:port>
        <t:interface>p1</t:interface><t:spanning-tree-state>blocking</t:spanning-tree-state>
      </t:port>
      <t:port>
        <t:interface>p2</t:interface><t:spanning-tree-state>forwarding</t:spanning-tree-state>
      </t:port>
      <t:foreign-vlans><t:interface>br0</t:interface><t:vids>1</t:vids></t:foreign-vlans>
      <t:foreign-vlans><t:interface>p2</t:interface><t:vids>1,20-22</t:vids></t:foreign-vlans>
      <t:foreign-entries>
        <t:address>02-00-00-00-00-0A</t:address><t:interface>p1</t:interface><t:vids>1</t:vids>
      </t:foreign-entries>
      <t:foreign-entries>
        <t:address>02-00-00-00-00-0A</t:address><t:interface>p2</t:interface>
        <t:vids>10-12,20</t:vids>
      </t:foreign-entries>
    </component>
  </bridge></bridges>
</data>
"""


def found(desired: BridgeForwarding = DESIRED, **options: object) -> list[Finding]:
    report = bridge_report(replace(BRIDGE, **options))
    return [
        each
        for each in examine_bridge(PortRef("s1", "br0"), desired, report)
        if each.verdict is not Verdict.OK
    ]


def test_what_the_spanning_tree_and_others_do_is_read():
    report = reported_bridge(etree.fromstring(ANSWER))
    assert report.held_back == {"p1": "blocking"}
    assert report.foreign_vlans == {"br0": {1}, "p2": {1, 20, 21, 22}}
    (entries,) = report.foreign_entries.values()
    assert [*report.foreign_entries] == [ALONE.destination_mac]
    assert [each.port for each in entries] == ["p1", "p2"]
    assert [n for n in range(4096) if entries[1].has(n)] == [10, 11, 12, 20]


def test_a_port_that_the_spanning_tree_blocks_is_a_warning_with_the_way_out():
    (blocked,) = found(held_back={"s2": "blocking"})
    assert blocked.verdict is Verdict.WARNING
    assert blocked.text == "spanning tree keeps s2 blocking: no frame of a stream passes there"
    assert blocked.hint == (
        "let the ring end for ordinary VLANs alone (bridge vlan del dev s2 vid 1), and then turn "
        "the protocol off: ip link set br0 type bridge stp_state 0"
    )


@pytest.mark.parametrize("state", ["listening", "learning"])
def test_a_port_that_is_about_to_forward_is_a_warning_to_wait(state):
    (waiting,) = found(held_back={"t1": state})
    assert waiting.text == f"spanning tree keeps t1 {state}: no frame of a stream passes there"
    assert waiting.hint == "wait until the port forwards, and run cnc doctor again"


def test_a_blocked_port_that_no_stream_uses_is_not_worth_a_word():
    assert found(held_back={"s3": "blocking"}) == []


def test_a_member_of_a_stream_vlan_that_others_made_prevents_a_change():
    (foreign,) = found(foreign_vlans={"s2": frozenset({1, 10}), "t1": frozenset({1})})
    assert foreign.verdict is Verdict.FAILED
    assert foreign.text == "VLAN 10 is for streams, and s2 is a member without the agent"
    assert foreign.hint == (
        "remove it on the switch: bridge vlan del dev s2 vid 10; or choose another VLAN for "
        "streams in the intent (addresses)"
    )


def test_a_bridge_that_is_itself_in_a_stream_vlan_prevents_a_change():
    (foreign,) = found(foreign_vlans={"br0": frozenset({10})})
    assert "bridge vlan del dev br0 vid 10 self" in (foreign.hint or "")


def test_a_default_pvid_that_is_a_stream_vlan_prevents_a_change():
    everywhere = dict.fromkeys(("br0", *BRIDGE.ports), frozenset({10}))
    (foreign,) = found(foreign_vlans=everywhere)
    assert foreign.text == "VLAN 10 is for streams, and all ports are members without the agent"
    assert "ip link set br0 type bridge vlan_default_pvid 1" in (foreign.hint or "")


def test_a_vlan_that_streams_have_left_may_be_anybodys():
    left = BridgeForwarding({CAMERA: ("s2",)}, {10: ("s2", "t1"), 20: ()}, ())
    assert found(left, foreign_vlans={"s2": frozenset({20})}) == []


def at(port: str, *vlan_ids: int) -> ForeignEntry:
    return ForeignEntry(port, tuple(range(each, each + 1) for each in vlan_ids))


def test_an_entry_of_others_for_the_address_of_a_stream_prevents_a_change():
    alone = BridgeForwarding({ALONE: ("s2",)}, {10: ("s2", "t1")}, (), {ALONE: "motion"})
    (foreign,) = found(alone, foreign_entries={ALONE.destination_mac: (at("s3", 10),)})
    assert foreign.verdict is Verdict.FAILED
    assert foreign.text == (
        "has filtering entries that the agent has not made: for motion (02:00:00:00:00:0a, VLAN "
        "10) at s3"
    )
    assert foreign.hint == (
        "remove it on the switch: bridge fdb del 02:00:00:00:00:0a dev s3 master vlan 10; or "
        "choose another address for the stream in the intent (destination-mac, addresses)"
    )
    itself = found(alone, foreign_entries={ALONE.destination_mac: (at("br0", 1, 10),)})
    assert "bridge fdb del 02:00:00:00:00:0a dev br0 self vlan 10;" in (itself[0].hint or "")


def test_an_entry_of_others_for_a_group_is_in_the_way_at_the_ports_of_the_stream_only():
    mac = CAMERA.destination_mac
    assert found(foreign_entries={mac: (at("s3", 10), at("br0", 10))}) == []
    (foreign,) = found(foreign_entries={mac: (at("s3", 10), at("s2", 10))})
    assert foreign.text.endswith(f"for camera ({mac}, VLAN 10) at s2")
    assert f"bridge mdb del dev br0 port s2 grp {mac} vid 10" in (foreign.hint or "")


def test_entries_of_others_for_other_addresses_and_vlans_are_nobodys_business():
    mac = CAMERA.destination_mac
    others = {mac: (at("s2", 1, 20),), "02:00:00:00:00:63": (at("s2", 10),)}
    assert found(foreign_entries=others) == []


# --- rings of ordinary VLANs ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def network() -> Network:
    """A ring of switches with end stations."""
    return ring().network


def bridges(network: Network, **without: str) -> dict[str, BridgeReport]:
    """Every port is a member of VLAN 1 but the one of each switch that `without` names."""
    ports: dict[str, list[str]] = {name: [] for name in network.bridges}
    for port in network.links:
        if port.node in ports:
            ports[port.node].append(port.port)
    return {
        name: BridgeReport(
            tuple(its),
            NO_FORWARDING,
            foreign_vlans={
                port: frozenset({1} if without.get(name) != port else {}) for port in (name, *its)
            },
        )
        for name, its in ports.items()
    }


def test_a_ring_of_the_ordinary_vlan_is_a_warning_at_the_cable_that_closes_it(network):
    (warning,) = examine_rings(network, bridges(network))
    assert warning.verdict is Verdict.WARNING
    assert warning.text.startswith("VLAN 1 goes around a ring that the cable at ")
    assert (warning.hint or "").startswith("streams pass the cable in VLANs of their own; take")


def test_vlans_that_go_around_the_same_ring_are_one_warning(network):
    there = {
        name: replace(each, foreign_vlans=dict.fromkeys(each.ports, frozenset(range(1, 4095))))
        for name, each in bridges(network).items()
    }
    (warning,) = examine_rings(network, there)
    assert warning.text.startswith("VLAN 1 (and 4093 others) goes around a ring")


def cut(network: Network) -> PortRef:
    """The end of a cable of the ring that a spanning tree leaves out."""
    tree = spanning_tree(network)
    return next(port for port in sorted(network.links) if port not in tree)


def test_a_vlan_that_ends_at_one_port_of_the_ring_goes_around_no_more(network):
    port = cut(network)
    assert list(examine_rings(network, bridges(network, **{port.node: port.port}))) == []


def test_a_port_that_the_spanning_tree_blocks_ends_the_ring(network):
    port, there = cut(network), bridges(network)
    there[port.node] = replace(there[port.node], held_back={port.port: "blocking"})
    assert list(examine_rings(network, there)) == []


def test_a_port_that_is_in_no_bridge_ends_the_ring(network):
    port, there = cut(network), bridges(network)
    others = tuple(each for each in there[port.node].ports if each != port.port)
    there[port.node] = replace(there[port.node], ports=others)
    assert list(examine_rings(network, there)) == []


def test_a_switch_that_does_not_answer_is_no_part_of_a_ring(network):
    there = bridges(network)
    del there[cut(network).node]
    assert list(examine_rings(network, there)) == []
