"""What a bridge is told of the frames of streams, and what is read of it again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from cnc.data_tree.reply import Reply
from cnc.data_tree.tree import BRIDGE, INTERFACES, NETCONF, TSN_LINUX
from cnc.mechanisms.forwarding.tree import bridge_reports
from cnc.model import (
    NO_GATES,
    BridgeForwarding,
    PortSettings,
    StoredBridge,
    StreamAddress,
)
from cnc.switch.filters import configuration_filter, state_filter
from cnc.switch.payload import edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import asked
from tests.unit.places import reported_bridge, stored_bridge

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
CAMERA = StreamAddress("91:e0:f0:00:fe:01", 10)
MOTION = StreamAddress("02:00:00:00:00:2a", 10)
OTHERS = StreamAddress("02:00:00:00:00:63", 99)

vlan_ids = st.integers(1, 4094)
ports = st.sets(st.sampled_from(["eth0", "eth1", "s2", "l1", "t1"]), min_size=1).map(
    lambda chosen: tuple(sorted(chosen))
)
macs = st.binary(min_size=6, max_size=6).map(lambda octets: octets.hex(":"))


@st.composite
def forwardings(draw: st.DrawFn) -> BridgeForwarding:
    """As a plan has them: entries in VLANs that have members; ports that frames come in by."""
    vlans = draw(st.dictionaries(vlan_ids, ports, min_size=1, max_size=4))
    addresses = st.builds(StreamAddress, macs, st.sampled_from(sorted(vlans)))
    members = sorted({port for its in vlans.values() for port in its})
    trusting = draw(st.sets(st.sampled_from(members)))
    return BridgeForwarding(
        draw(st.dictionaries(addresses, ports, max_size=8)), vlans, tuple(sorted(trusting))
    )


def sent(
    desired: BridgeForwarding, stored: BridgeForwarding | None = None, **others: PortSettings
) -> etree._Element:
    before = None if stored is None else stored_bridge(stored)
    return edit_config({"br0": asked(desired), **others}, 0, {"br0": before}, ID)


def bridge(
    entries: dict[StreamAddress, tuple[str, ...]] | None = None, **others: tuple[str, ...]
) -> BridgeForwarding:
    """In VLAN 10 unless told otherwise, with ports l1, s2 and t1; frames come in by t1."""
    return BridgeForwarding(
        {CAMERA: ("l1", "s2")} if entries is None else entries,
        {10: others.get("members", ("l1", "s2", "t1"))},
        others.get("trusting", ("t1",)),
    )


def removed(config: etree._Element) -> list[str]:
    """The names of what is removed, with the key that tells it apart."""
    found = []
    for each in config.iter():
        if each.get(f"{{{NETCONF}}}operation") == "remove":
            key = each.find(f"{{{BRIDGE}}}address")
            key = each.find(f"{{{BRIDGE}}}vids") if key is None else key
            found.append(f"{etree.QName(each).localname} {'' if key is None else key.text}".strip())
    return found


@given(forwardings())
def test_what_is_sent_is_what_is_read_back(desired: BridgeForwarding) -> None:
    assert stored_ports(sent(desired), ["br0"])["br0"][StoredBridge].forwarding == desired


@given(forwardings())
def test_what_a_kernel_does_is_read_as_what_it_was_told(desired: BridgeForwarding) -> None:
    config = sent(desired)
    component = next(config.iter(f"{{{BRIDGE}}}component"))
    for port in desired.members:
        etree.SubElement(component, f"{{{BRIDGE}}}bridge-port").text = port
    report = reported_bridge(config)
    assert report.forwarding == replace(desired, trusting=())
    assert set(report.ports) == desired.members


@given(forwardings(), forwardings())
def test_of_what_was_stored_all_that_streams_no_longer_need_is_removed(
    before: BridgeForwarding, after: BridgeForwarding
) -> None:
    desired = replace(after, vlans={**dict.fromkeys(before.vlans, ()), **after.vlans})
    config = sent(desired, before)
    entries = len(before.entries.keys() - after.entries.keys())
    vlans = len(before.vlans.keys() - after.vlans.keys())
    tables = len({*before.trusting} - {*after.trusting})
    names = [name.partition(" ")[0] for name in removed(config)]
    assert names.count("filtering-entry") == entries
    assert names.count("vlan-registration-entry") == vlans
    assert names.count("priority-regeneration") == tables


def test_what_others_configured_in_other_vlans_is_left_alone() -> None:
    before = BridgeForwarding(
        {OTHERS: ("p9",), CAMERA: ("l1",)}, {10: ("l1",), 99: ("p9",)}, ("p9",)
    )
    assert removed(sent(bridge({MOTION: ("s2",)}), before)) == ["filtering-entry 91-E0-F0-00-FE-01"]


def test_a_vlan_that_streams_have_left_is_removed_with_its_entries() -> None:
    left = BridgeForwarding({}, {10: ()}, ())
    assert removed(sent(left, bridge())) == [
        "priority-regeneration",
        "filtering-entry 91-E0-F0-00-FE-01",
        "vlan-registration-entry 10",
    ]


def test_gates_and_priorities_of_a_port_are_in_one_entry_of_the_list_of_interfaces() -> None:
    config = sent(bridge(), l1=NO_GATES, t1=NO_GATES)
    names = [each.findtext(f"{{{INTERFACES}}}name") for each in config.iter() if is_interface(each)]
    assert names == ["l1", "s2", "t1"]
    t1 = next(each for each in config.iter() if is_interface(each) and each[0].text == "t1")
    assert len(t1.findall(f"{{{BRIDGE}}}bridge-port")) == 1
    assert b"gate-parameter-table" in etree.tostring(t1)
    assert b"priority-regeneration" in etree.tostring(t1)


def is_interface(element: etree._Element) -> bool:
    return bool(element.tag == f"{{{INTERFACES}}}interface")


def test_a_row_names_its_port_since_numbers_of_ports_change() -> None:
    rows = next(iter(sent(bridge()).iter(f"{{{BRIDGE}}}filtering-entry"))).findall(
        f"{{{BRIDGE}}}port-map"
    )
    assert [row.findtext(f"{{{BRIDGE}}}port-ref") for row in rows] == ["1", "2"]
    assert [row.findtext(f"{{{TSN_LINUX}}}interface") for row in rows] == ["l1", "s2"]


def test_whether_ports_trust_the_pcp_is_asked_of_the_configuration_of_all_ports() -> None:
    asked = b"".join(map(etree.tostring, configuration_filter(["p1"], bridges=["br0"])))
    assert b"<name/><bridge-port" in asked
    assert b"priority-regeneration" in asked


def test_what_the_kernel_makes_of_code_points_is_asked_of_all_ports_of_a_bridge() -> None:
    asked = b"".join(map(etree.tostring, state_filter([], bridges=["br0"])))
    assert b"<bridges" in asked
    assert b"<name/><bridge-port" in asked
    assert b"received-priority" in asked
    assert b"pcp-encoding-table" in asked


def changed(config: etree._Element, name: str, text: str) -> etree._Element:
    next(config.iter(f"{{{BRIDGE}}}{name}")).text = text
    return config


def test_entries_that_a_bridge_has_learned_are_left_out() -> None:
    config = changed(sent(bridge()), "entry-type", "dynamic")
    assert reported_bridge(config).forwarding.entries == {}


def test_an_entry_of_several_vlans_is_one_for_each() -> None:
    config = changed(sent(bridge()), "vids", "10,12-13")
    found = stored_ports(config, ["br0"])["br0"][StoredBridge].forwarding
    assert found
    assert [address.vlan_id for address in found.entries] == [10, 12, 13]


@pytest.mark.parametrize("text", ["0", "4095", "7-3", "1-5000"])
def test_vlans_that_there_are_not_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="vids"):
        stored_ports(changed(sent(bridge()), "vids", text), ["br0"])


def test_a_port_that_maps_priorities_otherwise_does_not_trust_the_pcp() -> None:
    config = changed(sent(bridge()), "priority3", "0")
    found = stored_ports(config, ["br0"])["br0"][StoredBridge].forwarding
    assert found
    assert found.trusting == ()


def test_an_option_of_the_bridge_that_is_off_is_read() -> None:
    config = sent(bridge())
    assert reported_bridge(config).filters_vlans
    component = next(config.iter(f"{{{BRIDGE}}}component"))
    for leaf in ("vlan-filtering", "multicast-snooping"):
        etree.SubElement(component, f"{{{TSN_LINUX}}}{leaf}").text = "false"
    report = reported_bridge(config)
    assert not report.filters_vlans
    assert not report.snoops_multicast


def test_a_switch_without_the_bridge_reports_none() -> None:
    assert bridge_reports(Reply(sent(bridge())), ["br1"]) == {}
    assert stored_ports(sent(bridge()), ["br1"]).get("br1") is None
