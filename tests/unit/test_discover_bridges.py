"""The draft of a network whose switches bridge, and of one of which only some do."""

from __future__ import annotations

import dataclasses

import pytest
from lxml import etree

from cnc.data_tree.tree import BridgeReport
from cnc.discover import as_yaml
from cnc.discover.asking import View
from cnc.model import NO_FORWARDING, Forwarding
from cnc.switch.topology import InterfaceReport, topology_report
from tests.unit.test_discover import accepted, drafted, hears, links, mac, read, view

ANSWER = """
<data xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">
  <bridges xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge"><bridge>
    <name>br0</name>
    <component>
      <name>br0</name><bridge-port>p1</bridge-port><bridge-port>p2</bridge-port>
      <vlan-filtering xmlns="urn:tsn-control-plane:yang:tsn-linux">false</vlan-filtering>
      <multicast-snooping xmlns="urn:tsn-control-plane:yang:tsn-linux">true</multicast-snooping>
    </component>
  </bridge></bridges>
</data>
"""


def with_bridge(
    seen: View, *ports: str, name: str = "br0", filters: bool = True, snoops: bool = True
) -> View:
    """`seen` with these ports in a bridge, which has the MAC address of the first, as in Linux."""
    report = seen.report
    bridge = BridgeReport(ports, NO_FORWARDING, filters, snoops)
    address = report.interfaces[ports[0]].phys_address
    interfaces = {**report.interfaces, name: InterfaceReport(name, "up", address, None)}
    report = dataclasses.replace(
        report, interfaces=interfaces, bridges={**report.bridges, name: bridge}
    )
    return dataclasses.replace(seen, report=report)


def pair(first: View | None = None, second: View | None = None) -> list[View]:
    """s1/p1 ── p2/s2; each an end station at p3, too."""
    one = view(1, hears("p1", 2, 2), hears("p3", 8, "eth0", system_name="talker"))
    two = view(2, hears("p2", 1, 1), hears("p3", 9, "eth0", system_name="listener"))
    return [first or with_bridge(one, "p1", "p3"), second or with_bridge(two, "p2", "p3")]


def remarks_of(*views: View) -> tuple[str, ...]:
    """What is said of the first switch, apart from ports without a cable."""
    found = drafted(*views).switches[0].remarks
    return tuple(each for each in found if "no neighbour is heard" not in each)


def test_switches_whose_cables_end_at_bridges_are_drafted_as_bridged():
    made = drafted(*pair())
    network = accepted(made).network
    assert network.forwarding is Forwarding.BRIDGED
    assert {each.bridge_device for each in network.bridges.values()} == {"br0"}
    assert links(made)[0] == "s1/p1 - s2/p2"
    assert made.remarks == ()
    assert remarks_of(*pair()) == ()


def test_a_bridge_is_no_port_without_a_neighbour():
    assert drafted(*pair()).switches[0].remarks == ("up, but no neighbour is heard: p2",)


def test_the_port_is_found_though_its_bridge_has_the_same_mac_address():
    one, two = pair(view(1, hears("p1", 2, 2)))
    assert links(drafted(one, two))[0] == "s1/p1 - s2/p2"
    assert two.report.interfaces["br0"].phys_address == mac(2, 2)


def test_the_example_stream_fits_a_bridged_draft():
    head, _, example = as_yaml(drafted(*pair())).partition("# streams:")
    uncommented = "".join(line.removeprefix("# ") + "\n" for line in example.splitlines()[:-1])
    assert "motion" in read(f"{head}streams:{uncommented}").streams


def test_switches_without_a_bridge_are_drafted_as_routed():
    made = drafted(view(1, hears("p1", 2, 2)), view(2, hears("p2", 1, 1)))
    assert accepted(made).network.forwarding is Forwarding.ROUTED
    assert not any("bridge" in each for switch in made.switches for each in switch.remarks)


def test_a_bridge_that_no_cable_ends_at_does_not_make_a_switch_bridge():
    containers = with_bridge(view(1, hears("p1", 2, 2)), "p3", name="docker0")
    made = drafted(containers, view(2, hears("p2", 1, 1)))
    assert accepted(made).network.forwarding is Forwarding.ROUTED


def test_a_bridge_of_another_name_is_stated_in_the_draft():
    one = with_bridge(view(1, hears("p1", 2, 2)), "p1", name="switch0")
    bridges = accepted(drafted(*pair(one))).network.bridges
    assert (bridges["s1"].bridge_device, bridges["s2"].bridge_device) == ("switch0", "br0")


def test_of_several_bridges_the_one_with_most_cables_is_drafted_and_the_others_are_told():
    one = view(1, hears("p1", 2, 2), hears("p2", 7, "eth0"), hears("p3", 8, "eth0"))
    both = with_bridge(with_bridge(one, "p1", "p3"), "p2", name="br1")
    assert accepted(drafted(*pair(both))).network.bridges["s1"].bridge_device == "br0"
    assert remarks_of(*pair(both)) == ("p2 is a port of br1: streams pass br0 only",)


def test_a_cable_beside_the_bridge_is_told_with_the_cure():
    one = view(1, hears("p1", 2, 2), hears("p3", 8, "eth0"))
    assert remarks_of(*pair(with_bridge(one, "p1"))) == (
        "p3 is no port of br0, streams cannot pass: ip link set p3 master br0",
    )


@pytest.mark.parametrize(
    ("setting", "told", "cure"),
    [
        ("filters", "VLAN filtering of br0 is off, streams", "vlan_filtering"),
        (
            "snoops",
            "multicast snooping of br0 is off, streams to group addresses",
            "mcast_snooping",
        ),
    ],
)
def test_a_bridge_that_streams_cannot_use_is_told_with_the_cure(setting, told, cure):
    unusable = with_bridge(view(1, hears("p1", 2, 2)), "p1", **{setting: False})
    command = f"ip link set br0 type bridge {cure} 1"
    assert remarks_of(*pair(unusable)) == (f"{told} cannot pass: {command}",)
    assert accepted(drafted(*pair(unusable))).network.forwarding is Forwarding.BRIDGED


def test_where_only_some_switches_bridge_the_draft_says_who_does_not():
    routes = view(1, hears("p1", 2, 2))
    made = drafted(*pair(routes))
    assert made.remarks == ("s2 bridges and s1 does not: drafted as bridged, which all have to be",)
    assert remarks_of(*pair(routes)) == (
        (
            "no port with a cable is a port of a bridge: make one, with VLAN filtering, before "
            "streams pass here"
        ),
    )
    assert "#   - s2 bridges and s1 does not" in as_yaml(made)


def test_a_bridge_whose_name_no_intent_can_have_is_told_and_not_stated():
    made = drafted(*pair(with_bridge(view(1, hears("p1", 2, 2)), "p1", name="br:x")))
    assert accepted(made).network.bridges["s1"].bridge_device == "br0"
    assert "its bridge br:x has a name that an intent cannot have: rename it" in (
        made.switches[0].remarks
    )


def test_without_lldp_the_bridge_with_most_ports_is_drafted():
    alone = with_bridge(with_bridge(view(1, lldp=False), "p1", "p2"), "p3", name="br1")
    network = accepted(drafted(alone)).network
    assert network.forwarding is Forwarding.BRIDGED
    assert network.bridges["switch-10-0-0-1"].bridge_device == "br0"


def test_bridges_are_read_with_their_ports_and_settings():
    assert topology_report(etree.fromstring(ANSWER)).bridges == {
        "br0": BridgeReport(("p1", "p2"), NO_FORWARDING, filters_vlans=False)
    }
