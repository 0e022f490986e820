"""A switch with a device profile is asked and told in its own tree, and understood in ours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lxml import etree

from cnc.data_tree.tree import BRIDGE, INTERFACES, SCHED, SCHED_BRIDGE, TSN_LINUX, GatesReport
from cnc.model import (
    FIXED_CLASSES,
    BridgeForwarding,
    CommitStyle,
    GateControlList,
    GateEntry,
    GateMode,
    GateTree,
    PortConfiguration,
    PortGates,
    PortSettings,
    Profile,
    StoredBridge,
    StoredGates,
    StreamAddress,
)
from cnc.switch import readback
from cnc.switch.dialect import Asked
from cnc.switch.foreign import Foreign
from cnc.switch.offered import modules_in
from cnc.switch.payload import edit_config

BASE_NS = 1_800_000_000_000_000_000
GATES = GateControlList(1_000_000, (GateEntry(0x40, 300_000), GateEntry(0x02, 700_000)))
NEW = Profile("new", GateTree.BRIDGE_PORT, CommitStyle.CONFIRMED, sets_classes=True, forwards=True)
OLD = Profile("old", GateTree.INTERFACE, CommitStyle.CANDIDATE)
OF_BRIDGE = BridgeForwarding(
    {StreamAddress("03:54:53:4e:07:00", 10): ("p2",)}, {10: ("p1", "p2")}, ()
)


def port(profile: Profile) -> PortSettings:
    classes = tuple(range(8)) if profile.sets_classes else FIXED_CLASSES
    return PortSettings.of(
        PortGates(PortConfiguration(8, classes, GateMode.FULL_OFFLOAD, GATES, {}))
    )


def edit(profile: Profile, **bridges: BridgeForwarding) -> etree._Element:
    changes = {"p2": port(profile), **{n: PortSettings.of(its) for n, its in bridges.items()}}
    return Foreign(profile).edit(edit_config(changes, BASE_NS, {}))


def as_reply(config: etree._Element) -> etree._Element:
    """What the switch stores, as it returns it."""
    data = etree.fromstring(etree.tostring(config))
    data.tag = "data"
    return data


def texts(element: etree._Element, name: str) -> list[str | None]:
    return [each.text for each in element.iter(f"{{*}}{name}")]


@pytest.mark.parametrize("profile", [NEW, OLD], ids=lambda its: its.name)
def test_nothing_of_our_own_modules_is_sent(profile: Profile) -> None:
    assert TSN_LINUX not in etree.tostring(edit(profile)).decode()


@pytest.mark.parametrize("profile", [NEW, OLD], ids=lambda its: its.name)
def test_what_is_stored_is_what_was_sent(profile: Profile) -> None:
    data = Foreign(profile).stored(as_reply(edit(profile)))
    stored = readback.stored_ports(data)["p2"][StoredGates]
    assert stored.configuration == port(profile)[PortGates].configuration
    assert stored.base_time_ns == BASE_NS


def test_the_older_tree_has_the_list_below_the_interface() -> None:
    config = edit(OLD)
    parameters = config.find(f".//{{{INTERFACES}}}interface/{{{SCHED}}}gate-parameters")
    assert parameters is not None
    assert config.find(f".//{{{BRIDGE}}}bridge-port") is None
    assert texts(parameters, "admin-control-list-length") == ["2"]
    first, second = parameters.iter(f"{{{SCHED}}}admin-control-list")
    assert texts(first, "time-interval-value") == ["300000"]
    assert texts(second, "gate-states-value") == ["2"]
    assert [each.tag for each in first] == [
        f"{{{SCHED}}}{name}" for name in ("index", "operation-name", "sgs-params")
    ]
    base_time = parameters.find(f"{{{SCHED}}}admin-base-time")
    assert base_time is not None
    assert [each.tag.rpartition("}")[2] for each in base_time] == ["seconds", "fractional-seconds"]


@pytest.mark.parametrize("profile", [NEW, OLD], ids=lambda its: its.name)
def test_a_list_is_removed_from_its_place_in_the_tree(profile: Profile) -> None:
    changes = {"p2": PortSettings.of(PortGates(None))}
    config = Foreign(profile).edit(edit_config(changes, 0, {}))
    (removed,) = (each for each in config.iter() if "remove" in each.attrib.values())
    assert removed.tag in {f"{{{SCHED_BRIDGE}}}gate-parameter-table", f"{{{SCHED}}}gate-parameters"}


def test_classes_that_cannot_be_set_are_not_sent() -> None:
    assert not texts(edit(replace(NEW, sets_classes=False)), "traffic-class-table")


def test_limits_go_with_a_list_and_are_not_taken_for_those_of_the_switch() -> None:
    profile = replace(NEW, writes_limits=True)
    config = edit(profile)
    assert texts(config, "supported-list-max") == ["2"]
    assert texts(config, "supported-interval-max") == ["700000"]
    reports = readback.port_reports(Foreign(profile).reported(as_reply(config)))
    assert reports["p2"][GatesReport].limits.entries_max == 0


def test_rows_of_a_bridge_have_the_numbers_of_ports() -> None:
    profile = replace(NEW, port_numbers=(("p1", 11), ("p2", 12)))
    dialect = Foreign(profile)
    changes = {"br0": PortSettings.of(OF_BRIDGE)}
    config = dialect.edit(edit_config(changes, 0, {}))
    entry = config.find(f".//{{{BRIDGE}}}filtering-entry")
    registration = config.find(f".//{{{BRIDGE}}}vlan-registration-entry")
    assert entry is not None
    assert registration is not None
    assert texts(entry, "port-ref") == ["12"]
    assert sorted(map(str, texts(registration, "port-ref"))) == ["11", "12"]
    stored = readback.stored_ports(dialect.stored(as_reply(config)), ["br0"])
    assert stored["br0"][StoredBridge].forwarding == OF_BRIDGE


def test_a_port_whose_number_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"the number of port p[12] in its bridge is not known"):
        edit(NEW, br0=OF_BRIDGE)


def test_a_number_that_the_switch_reports_is_taken() -> None:
    dialect = Foreign(NEW)
    dialect.reported(
        etree.fromstring(
            f'<data><interfaces xmlns="{INTERFACES}">'
            + "".join(
                f'<interface><name>p{n}</name><bridge-port xmlns="{BRIDGE}">'
                f"<port-number>{n + 20}</port-number></bridge-port></interface>"
                for n in (1, 2)
            )
            + "</interfaces></data>"
        )
    )
    config = dialect.edit(edit_config({"br0": PortSettings.of(OF_BRIDGE)}, 0, {}))
    assert set(texts(config, "port-ref")) == {"21", "22"}


STATE = f"""
<data><interfaces xmlns="{INTERFACES}"><interface><name>p2</name><oper-status>up</oper-status>
<speed>1000000000</speed>
<bridge-port xmlns="{BRIDGE}"><gate-parameter-table xmlns="{SCHED_BRIDGE}">
<gate-enabled>true</gate-enabled>
<admin-control-list><gate-control-entry><index>0</index>
<operation-name xmlns:s="{SCHED}">s:set-gate-states</operation-name>
<time-interval-value>1000000</time-interval-value><gate-states-value>3</gate-states-value>
</gate-control-entry></admin-control-list>
<oper-control-list><gate-control-entry><index>0</index>
<operation-name xmlns:s="{SCHED}">s:set-gate-states</operation-name>
<time-interval-value>500000</time-interval-value><gate-states-value>255</gate-states-value>
</gate-control-entry></oper-control-list>
<admin-cycle-time><numerator>1</numerator><denominator>1000</denominator></admin-cycle-time>
<oper-cycle-time><numerator>1</numerator><denominator>2000</denominator></oper-cycle-time>
<admin-base-time><seconds>100</seconds><nanoseconds>5</nanoseconds></admin-base-time>
<oper-base-time><seconds>90</seconds><nanoseconds>0</nanoseconds></oper-base-time>
<config-change>true</config-change>
<config-change-time><seconds>101</seconds><nanoseconds>5</nanoseconds></config-change-time>
<config-pending>true</config-pending>
<current-time><seconds>95</seconds><nanoseconds>7</nanoseconds></current-time>
<supported-list-max>64</supported-list-max>
</gate-parameter-table></bridge-port></interface></interfaces></data>"""


def gates_report(profile: Profile) -> GatesReport:
    reports = readback.port_reports(Foreign(profile).reported(etree.fromstring(STATE)))
    return reports["p2"][GatesReport]


def test_a_switch_that_reports_them_has_a_list_that_runs_and_one_that_is_pending() -> None:
    report = gates_report(replace(NEW, reads_back=True, reports_clock=True))
    assert report.running
    assert report.pending
    assert (report.running.base_time_ns, report.running.gates.cycle_ns) == (90 * 10**9, 500_000)
    assert report.running.gates.entries == (GateEntry(255, 500_000),)
    # A base time that had passed when it was set: the change is whole cycles later.
    assert report.pending.base_time_ns == 101 * 10**9 + 5
    assert report.pending.gates.entries == (GateEntry(3, 1_000_000),)
    assert report.current_time_ns == 95 * 10**9 + 7
    assert report.limits.entries_max == 64


def test_of_a_switch_that_reports_none_the_stored_list_is_what_is_known() -> None:
    report = gates_report(NEW)
    assert report.running
    assert report.pending is None
    assert report.running.base_time_ns == 100 * 10**9 + 5
    assert report.running.gates.entries == (GateEntry(3, 1_000_000),)


def test_a_bridge_is_asked_for_with_all_ports_for_their_numbers() -> None:
    interfaces, bridges = Foreign(NEW).state(Asked(["p2"], ["br0"]))
    assert not len(interfaces)
    assert texts(bridges, "name") == ["br0"]


def test_a_hello_has_modules_with_features_and_deviations() -> None:
    found = modules_in(
        [
            "urn:ietf:params:netconf:base:1.1",
            "urn:x?module=a&revision=2018-09-10&features=f,g&deviations=a-dev",
            "urn:y?module=b",
        ]
    )
    assert found.keys() == {"a", "b"}
    assert (found["a"].revision, found["a"].deviations) == ("2018-09-10", ("a-dev",))
    assert found["a"].features == {"f", "g"}
    assert found["b"].features == frozenset()
