"""What a switch is told, and that its own answer reads back as the same values."""

from __future__ import annotations

import dataclasses

import pytest
from lxml import etree

from cnc.data_tree.tree import (
    BRIDGE,
    INTERFACES,
    NETCONF,
    SCHED_BRIDGE,
    TSN_LINUX,
    ClassTraffic,
    GatesReport,
    KernelSchedule,
    PortReport,
)
from cnc.model import (
    NO_GATES,
    Bridge,
    ClassRole,
    EndStation,
    GateControlList,
    GateEntry,
    GateLimits,
    GateMode,
    Intent,
    Link,
    Network,
    Plan,
    PortConfiguration,
    PortRef,
    StoredGates,
    StoredPort,
    TrafficClass,
    WakeUps,
    gated_port,
)
from cnc.rollout.compare import (
    difference_between,
    difference_from_stored,
    difference_of,
    needs_change,
)
from cnc.switch.filters import state_filter
from cnc.switch.payload import edit_config
from cnc.switch.readback import agent_report, port_reports, stored_ports
from cnc.switch.rollout_id import RolloutId, rollout_id_in
from tests.unit.asked import asked, desired_ports
from tests.unit.places import changed, port_report, stored_gates

GATES = GateControlList(1_000_000, (GateEntry(0x40, 300_000), GateEntry(0x01, 700_000)))
MARK = RolloutId("6f0c4c6b-9f0c-4d11-8a7e-2d0f6a5a7d11", "alice@desk", "2026-01-01T00:00:00+00:00")
PATHS = {"if": INTERFACES, "b": BRIDGE, "g": SCHED_BRIDGE, "t": TSN_LINUX, "nc": NETCONF}


def network() -> Network:
    ends = [(PortRef("t1", "eth0"), PortRef("s1", "p1")), (PortRef("s1", "p2"), PortRef("l1", "e"))]
    links = [Link(a, b, 10**9, 100) for pair in ends for a, b in (pair, pair[::-1])]
    return Network(
        bridges={"s1": Bridge("s1", 1_000, 5_000)},
        end_stations={"t1": EndStation("t1"), "l1": EndStation("l1")},
        links={link.source: link for link in links},
        clock_error_ns=1_000,
    )


@pytest.fixture
def plan() -> Plan:
    classes = (
        TrafficClass("control", 7, 7, (48, 56), ClassRole.CONTROL),
        TrafficClass("cyclic", 6, 5, (46,), ClassRole.SCHEDULED),
        TrafficClass("best-effort", 1, 0, (0,), ClassRole.BEST_EFFORT),
    )
    intent = Intent("x", network(), {c.name: c for c in classes}, {}, document={})
    return Plan(intent, {}, {PortRef("s1", "p2"): GATES}, "by hand")


def wanted_of(plan: Plan) -> PortConfiguration:
    wanted = gated_port(desired_ports(plan, "s1")["p2"])
    assert wanted is not None
    return wanted


def as_stored(config: etree._Element) -> dict[str, StoredPort]:
    """The configuration as a server would return it: the same tree below `<data>`."""
    return stored_ports(config)


def test_a_port_without_gates_in_the_plan_is_told_to_have_none(plan: Plan) -> None:
    assert desired_ports(plan, "s1")["p1"] == NO_GATES


def test_priorities_without_a_class_go_to_best_effort(plan: Plan) -> None:
    wanted = wanted_of(plan)
    assert wanted.priority_map == (1, 1, 1, 1, 1, 6, 1, 7)
    assert wanted.number_of_classes == 8
    assert wanted.dscp_priorities == {48: 7, 56: 7, 46: 5, 0: 0}


def test_the_record_of_the_rollout_goes_with_the_lists(plan: Plan) -> None:
    config = edit_config({"p2": asked(wanted_of(plan))}, 0, {}, MARK)
    assert rollout_id_in(config) == MARK


def test_the_record_tells_how_far_clocks_may_be_apart_where_there_are_several(plan: Plan) -> None:
    mark = dataclasses.replace(MARK, clock_error_ns=1_000)
    config = edit_config({"p2": asked(wanted_of(plan))}, 0, {}, mark)
    assert rollout_id_in(config) == mark
    # It replaces the record of the rollout before, which may have told it.
    (rollout,) = config.findall("{urn:tsn-control-plane:yang:tsn-linux}rollout")
    assert rollout.get("{urn:ietf:params:xml:ns:netconf:base:1.0}operation") == "replace"


def test_a_switch_without_a_record_has_had_no_rollout() -> None:
    assert rollout_id_in(etree.fromstring("<data/>")) is None


def test_what_is_sent_reads_back_as_the_same_configuration(plan: Plan) -> None:
    wanted = wanted_of(plan)
    config = edit_config({"p2": asked(wanted)}, 1_700_000_037_000_000_000 + 5, {}, MARK)
    stored = as_stored(config)["p2"]
    assert stored[StoredGates].configuration == wanted
    # The first cycle of a millisecond that begins then or later.
    assert stored[StoredGates].base_time_ns == 1_700_000_037_001_000_000


RECOMMENDED = (1, 0, 2, 3, 4, 5, 6, 7)  # by IEEE Std 802.1Q-2022, table 8-5, of 8 classes


@pytest.mark.parametrize(
    ("left_out", "number_of_classes", "priority_map"),
    [
        ("b:traffic-class", 8, RECOMMENDED),
        ("b:traffic-class-table", 8, RECOMMENDED),
        ("b:number-of-traffic-classes", 8, (1, 1, 1, 1, 1, 6, 1, 7)),
        ("b:priority2", 8, (1, 1, 2, 1, 1, 6, 1, 7)),
    ],
)
def test_classes_that_another_client_leaves_out_are_those_of_the_standard(
    plan: Plan, left_out: str, number_of_classes: int, priority_map: tuple[int, ...]
) -> None:
    config = edit_config({"p2": asked(wanted_of(plan))}, 0, {}, MARK)
    (node,) = config.iterfind(f".//{left_out}", PATHS)
    node.getparent().remove(node)
    stored = as_stored(config)["p2"][StoredGates].configuration
    assert stored is not None
    assert (stored.number_of_classes, stored.priority_map) == (number_of_classes, priority_map)
    assert stored.gates == GATES


@pytest.mark.parametrize(
    ("leaf", "value"), [("config-change", "false"), ("admin-cycle-time", None)]
)
def test_gates_that_are_on_without_a_list_in_force_are_a_draft_and_told(
    plan: Plan, leaf: str, value: str | None
) -> None:
    config = edit_config({"p2": asked(wanted_of(plan))}, 0, {}, MARK)
    (node,) = config.iterfind(f".//g:{leaf}", PATHS)
    if value is None:
        node.getparent().remove(node)
    else:
        node.text = value
    stored = as_stored(config)["p2"]
    gates = stored[StoredGates]
    assert (gates.configuration, gates.is_draft) == (None, True)
    for desired in (None, wanted_of(plan)):
        assert "no list in force" in (needs_change(asked(desired), stored, None) or "")


@pytest.mark.parametrize(
    ("cycle_ns", "fraction"), [(1_000_000, ("1", "1000")), (1_001, ("1001", "1000000000"))]
)
def test_the_cycle_time_is_a_reduced_fraction_of_a_second(
    plan: Plan, cycle_ns: int, fraction: tuple[str, str]
) -> None:
    gates = GateControlList(cycle_ns, (GateEntry(1, cycle_ns),))
    config = edit_config(
        {"p2": asked(dataclasses.replace(wanted_of(plan), gates=gates))}, 0, {}, MARK
    )
    cycle = config.find(".//g:admin-cycle-time", PATHS)
    assert cycle is not None
    assert (cycle[0].text, cycle[1].text) == fraction


def test_rules_that_are_no_longer_wanted_are_deleted_and_others_kept(plan: Plan) -> None:
    before = {"p2": stored_gates(None, dscps={46, 10})}
    config = edit_config({"p2": asked(wanted_of(plan))}, 0, before, MARK)
    rules = {
        rule.findtext("t:dscp", namespaces=PATHS): rule.get(f"{{{NETCONF}}}operation")
        for rule in config.iterfind(".//t:dscp-rule", PATHS)
    }
    assert rules == {"0": None, "46": None, "48": None, "56": None, "10": "remove"}


def test_switching_gates_off_removes_our_parts_and_nothing_else_of_the_port() -> None:
    config = edit_config({"p2": asked(None)}, 0, {"p2": stored_gates(None, dscps={46})}, MARK)
    port = config.find("if:interfaces/if:interface/b:bridge-port", PATHS)
    assert port is not None
    assert port.get(f"{{{NETCONF}}}operation") is None
    assert [etree.QName(child).localname for child in port] == [
        "gate-parameter-table",
        "taprio",
        "dscp-rule",
    ]
    assert {child.get(f"{{{NETCONF}}}operation") for child in port} == {"remove"}


@pytest.mark.parametrize(
    ("leaf", "value"), [("g:gate-enabled", "false"), ("g:config-change", "false")]
)
def test_a_table_that_is_not_in_force_is_no_configuration(
    plan: Plan, leaf: str, value: str
) -> None:
    config = edit_config({"p2": asked(wanted_of(plan))}, 0, {}, MARK)
    element = config.find(f".//{leaf}", PATHS)
    assert element is not None
    element.text = value
    assert as_stored(config)["p2"][StoredGates].configuration is None


MAX_SDU = (
    "g:gate-parameter-table",
    (
        "<queue-max-sdu-table xmlns='{g}'><traffic-class>6</traffic-class>"
        "<queue-max-sdu>46</queue-max-sdu></queue-max-sdu-table>"
    ),
)
NO_MAX_SDU = (MAX_SDU[0], MAX_SDU[1].replace("46", "0"))
QUEUES = (
    "t:taprio",
    "<queue xmlns='{t}'><traffic-class>6</traffic-class><count>2</count><offset>6</offset></queue>",
)
OTHER_CLOCK = ("t:taprio", "<clock xmlns='{t}'>realtime</clock>")


@pytest.mark.parametrize(
    ("where", "what", "extras"),
    [
        (*MAX_SDU, ("queue-max-sdu of 46 octets for traffic class 6",)),
        (*NO_MAX_SDU, ()),
        (*QUEUES, ("2 TX queues from 6 on for traffic class 6",)),
        (*OTHER_CLOCK, ("clock realtime",)),
    ],
    ids=["frame size limit", "no limit", "queues", "clock"],
)
def test_what_is_configured_beside_a_plan_makes_the_port_change(
    plan: Plan, where: str, what: str, extras: tuple[str, ...]
) -> None:
    wanted = wanted_of(plan)
    config = edit_config({"p2": asked(wanted)}, 0, {}, MARK)
    table = config.find(f".//{where}", PATHS)
    assert table is not None
    table.append(etree.fromstring(what.format(**PATHS)))
    found = as_stored(config)["p2"]
    gates = found[StoredGates]
    assert (gates.configuration, gates.extras) == (wanted, extras)
    assert needs_change(asked(wanted), found, running(wanted, 0)) == (
        f"also configured, but in no plan: {extras[0]}" if extras else None
    )


def test_an_entry_that_holds_preemptable_frames_is_not_the_plans(plan: Plan) -> None:
    config = edit_config({"p2": asked(wanted_of(plan))}, 0, {}, MARK)
    operations = config.findall(".//g:operation-name", PATHS)
    operations[1].text = "sched:set-and-hold-mac"
    assert as_stored(config)["p2"][StoredGates].extras == ("set-and-hold-mac in entry 1",)


KERNEL = """
<data>
 <interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"><interface><name>p2</name>
  <bridge-port xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge">
   <gate-parameter-table xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched-bridge">
    <current-time><seconds>7</seconds><nanoseconds>9</nanoseconds></current-time>
    <tick-granularity>64</tick-granularity>
    <supported-list-max>16</supported-list-max>
    <supported-cycle-max><numerator>1</numerator><denominator>3</denominator></supported-cycle-max>
    <supported-interval-max>999999</supported-interval-max>
   </gate-parameter-table>
   <taprio xmlns="urn:tsn-control-plane:yang:tsn-linux"><kernel>
    <tx-queues>8</tx-queues><bridge>br0</bridge>
    <gate-wake-ups><mode>software</mode><count>123456</count><quantile-ns>30000</quantile-ns>
     <maximum-ns>43210</maximum-ns></gate-wake-ups>
    <root-qdisc>taprio</root-qdisc><traffic-classes>8</traffic-classes>
    <mode>full-offload</mode><clock>tai</clock>
    <priority-map><priority>5</priority><traffic-class>6</traffic-class></priority-map>
    <schedule><state>pending</state><base-time-ns>2000000</base-time-ns>
     <cycle-time-ns>1000000</cycle-time-ns>
     <entry><index>1</index><gate-states>1</gate-states><interval-ns>700000</interval-ns></entry>
     <entry><index>0</index><gate-states>64</gate-states><interval-ns>300000</interval-ns></entry>
    </schedule>
    <class-statistics><traffic-class>5</traffic-class><frames>3</frames></class-statistics>
    <class-statistics><traffic-class>6</traffic-class><frames>7</frames>
     <backlog-frames>1000</backlog-frames></class-statistics>
    <dscp-rule><dscp>46</dscp><priority>5</priority></dscp-rule>
   </kernel></taprio>
  </bridge-port></interface></interfaces>
 <agent xmlns="urn:tsn-control-plane:yang:tsn-linux"><pid>12</pid><version>0.1.0</version>
  <kernel-release>6.12</kernel-release><classifier>iptables-nft</classifier>
  <tai-offset>37</tai-offset><last-change><duration-us>1500</duration-us></last-change></agent>
</data>
"""


def test_the_kernels_dump_is_read_with_entries_in_index_order() -> None:
    report = port_reports(etree.fromstring(KERNEL))["p2"][GatesReport]
    assert report.pending == KernelSchedule(2_000_000, GATES)
    assert report.running is None
    assert report.newest == report.pending
    assert report.current_time_ns == 7_000_000_009
    assert report.dscp_priorities == {46: 5}
    assert report.priority_map == (0, 0, 0, 0, 0, 6, 0, 0)
    assert (report.mode, report.clock) == (GateMode.FULL_OFFLOAD, "tai")


@pytest.mark.parametrize(
    ("said", "frames"), [("1024", 1024), ("", None), ("0", None), ("-1", None)]
)
def test_the_frames_of_one_run_are_read_where_a_switch_states_them(said, frames) -> None:
    """Agents before 0.2.0 do not, nor do those in network namespaces."""
    leaf = f"<transmit-quota>{said}</transmit-quota>" if said else ""
    told = KERNEL.replace("<tx-queues>8</tx-queues>", f"<tx-queues>8</tx-queues>{leaf}")
    assert port_reports(etree.fromstring(told))["p2"][GatesReport].transmit_quota_frames == frames


KERNEL_BESIDE = KERNEL.replace("<index>1</index>", "<index>1</index><operation>{}</operation>")


def test_what_a_kernel_has_beside_its_list_is_a_difference(plan: Plan) -> None:
    report = only_gates(etree.fromstring(KERNEL))
    assert report.extras == ()
    beside = KERNEL_BESIDE.format("set-and-hold-mac").replace(
        "<mode>",
        "<max-sdu><traffic-class>6</traffic-class><octets>46</octets></max-sdu>"
        "<queue><traffic-class>0</traffic-class><count>1</count><offset>0</offset></queue>"
        "<queue><traffic-class>1</traffic-class><count>1</count><offset>2</offset></queue><mode>",
    )
    beside_report = only_gates(etree.fromstring(beside))
    extras = (
        "queue-max-sdu of 46 octets for traffic class 6",
        "set-and-hold-mac in entry 1",
        "1 TX queue from 2 on for traffic class 1",
    )
    assert beside_report.extras == extras
    wanted = wanted_of(plan)
    now = changed(running(wanted, 0), extras=extras[:1])
    assert difference_of(asked(wanted), now, 0) == f"{extras[0]} is not in the plan"
    has = stored_gates(wanted, extras=extras[:1])
    assert difference_from_stored(asked(wanted), has, now) is None
    assert difference_between(running(wanted, 0), now) == f"{extras[0]} was not there"
    assert difference_between(now, running(wanted, 0)) == f"{extras[0]} is missing"


def test_an_entry_that_sets_the_gates_and_no_more_is_the_plans() -> None:
    report = only_gates(etree.fromstring(KERNEL_BESIDE.format("set-gate-states")))
    assert report.extras == ()


def test_what_a_class_sent_is_read_where_the_switch_tells_what_waits() -> None:
    report = port_reports(etree.fromstring(KERNEL))["p2"][GatesReport]
    assert report.wake_ups == WakeUps(123_456, 43_210, 30_000)
    assert report.traffic == {6: ClassTraffic(sent_frames=7, backlog_frames=1000)}


def test_the_bridge_of_a_port_is_read() -> None:
    report = port_reports(etree.fromstring(KERNEL))["p2"][GatesReport]
    assert report.bridge == "br0"
    assert report.unclassified
    assert dataclasses.replace(report, bridge=None).unclassified is None


@pytest.mark.parametrize(
    ("priority", "words"), [(5, None), (4, "the filters at the port's egress")]
)
def test_bridged_frames_are_classified_where_filters_have_the_rules_of_the_port(
    priority: int, words: str | None
) -> None:
    rule = f"<dscp-rule><dscp>46</dscp><priority>{priority}</priority></dscp-rule>"
    filters = f"<bridge>br0</bridge><bridged-frames>{rule}</bridged-frames>"
    kernel = KERNEL.replace("<bridge>br0</bridge>", filters)
    found = port_reports(etree.fromstring(kernel))["p2"][GatesReport].unclassified
    assert (found is None) if words is None else (words in str(found))


def test_limits_are_read_in_whole_nanoseconds_that_the_port_surely_keeps() -> None:
    """A third of a second is cut; multiples of 6.4 ns are whole nanoseconds every 32."""
    limits = port_reports(etree.fromstring(KERNEL))["p2"][GatesReport].limits
    assert limits == GateLimits(16, 999_999, 333_333_333, 32)


@pytest.mark.parametrize(
    ("tenths", "tick_ns"), [("10", 1), ("5", 1), ("1", 1), ("80", 8), ("25", 5), ("0", 1)]
)
def test_a_tick_in_tenths_becomes_the_least_whole_multiple(tenths: str, tick_ns: int) -> None:
    data = KERNEL.replace("<tick-granularity>64<", f"<tick-granularity>{tenths}<")
    assert port_reports(etree.fromstring(data))["p2"][GatesReport].limits.tick_ns == tick_ns


def test_a_limit_that_is_missing_or_senseless_is_not_known() -> None:
    data = etree.fromstring(KERNEL)
    table = data.find(".//g:gate-parameter-table", PATHS)
    assert table is not None
    for leaf in list(table)[1:]:
        table.remove(leaf)
    assert port_reports(data)["p2"][GatesReport].limits == GateLimits()
    senseless = KERNEL.replace("<denominator>3<", "<denominator>0<").replace(">16<", ">-1<")
    limits = port_reports(etree.fromstring(senseless))["p2"][GatesReport].limits
    assert (limits.cycle_max_ns, limits.entries_max) == (0, 0)


def test_the_filter_asks_for_every_limit() -> None:
    asked = state_filter(["p2"])[0]
    table = asked.find(".//g:gate-parameter-table", PATHS)
    assert table is not None
    assert {etree.QName(leaf).localname for leaf in table} == {
        "current-time",
        "supported-list-max",
        "supported-cycle-max",
        "supported-interval-max",
        "tick-granularity",
    }


def test_the_agents_words_are_read() -> None:
    agent = agent_report(etree.fromstring(KERNEL))
    assert agent is not None
    assert (agent.tai_offset_s, agent.last_change_us) == (37, 1500)


def test_a_reply_without_agent_data_means_that_no_agent_lives() -> None:
    assert agent_report(etree.fromstring("<data/>")) is None


def only_gates(data: etree._Element) -> GatesReport:
    (report,) = port_reports(data).values()
    return report[GatesReport]


def running(wanted: PortConfiguration, base_time_ns: int) -> PortReport:
    return port_report(
        root_qdisc="taprio",
        mode=GateMode.SOFTWARE,
        clock="tai",
        running=KernelSchedule(base_time_ns, wanted.gates),
        pending=None,
        priority_map=wanted.priority_map,
        number_of_classes=wanted.number_of_classes,
        dscp_priorities=wanted.dscp_priorities,
        current_time_ns=0,
        limits=GateLimits(),
    )


def stored(configuration: PortConfiguration, base_time_ns: int) -> StoredPort:
    return stored_gates(configuration, base_time_ns)


def test_a_port_that_has_and_runs_its_list_needs_no_change(plan: Plan) -> None:
    wanted = wanted_of(plan)
    base_time_ns = 5 * GATES.cycle_ns
    assert (
        needs_change(asked(wanted), stored(wanted, base_time_ns), running(wanted, base_time_ns))
        is None
    )


def test_a_deleted_qdisc_is_drift_and_makes_the_port_change(plan: Plan) -> None:
    wanted = wanted_of(plan)
    report = changed(running(wanted, 0), running=None, root_qdisc="noqueue")
    why = needs_change(asked(wanted), stored(wanted, 0), report)
    assert why == "the kernel drifted: no gate control list (root qdisc noqueue)"


def test_a_base_time_out_of_phase_with_the_network_makes_the_port_change(plan: Plan) -> None:
    wanted = wanted_of(plan)
    why = needs_change(asked(wanted), stored(wanted, 17), running(wanted, 17))
    assert why == "the base time is not a multiple of the cycle"


def test_other_gates_and_other_classes_are_told_apart(plan: Plan) -> None:
    wanted = wanted_of(plan)
    gates = GateControlList(1_000_000, (GateEntry(0x41, 1_000_000),))
    other_gates = dataclasses.replace(wanted, gates=gates)
    assert (
        needs_change(asked(other_gates), stored(wanted, 0), None) == "the gate control list changes"
    )
    other_mode = dataclasses.replace(wanted, mode=GateMode.FULL_OFFLOAD)
    assert needs_change(asked(other_mode), stored(wanted, 0), None) == "classes change"


@pytest.mark.parametrize(
    ("has", "difference"),
    [
        ({"mode": GateMode.TXTIME_ASSIST}, "mode is txtime-assist, expected software"),
        ({"clock": "monotonic"}, "clock is monotonic, expected tai"),
    ],
    ids=["mode", "clock"],
)
def test_a_list_that_runs_in_another_way_than_wanted_is_a_difference(
    plan: Plan, has: dict[str, object], difference: str
) -> None:
    wanted = wanted_of(plan)
    report = changed(running(wanted, 0), **has)
    assert difference_of(asked(wanted), report, 0) == difference
    assert (
        needs_change(asked(wanted), stored(wanted, 0), report)
        == f"the kernel drifted: {difference}"
    )


def test_a_rule_somebody_removed_is_a_difference(plan: Plan) -> None:
    wanted = wanted_of(plan)
    report = changed(running(wanted, 0), dscp_priorities={46: 5})
    assert difference_of(asked(wanted), report, 0) == (
        "DSCP 0 to priority 0 is missing, DSCP 48 to priority 7 is missing, "
        "DSCP 56 to priority 7 is missing"
    )


def lists_of(count: int, **last: int) -> GateControlList:
    """A list of so many entries of 1 ms, the last of which may be another one."""
    entries = [GateEntry(0x80 | index % 2, 1_000_000) for index in range(count)]
    entries[-1] = dataclasses.replace(entries[-1], **last)
    return GateControlList(sum(entry.interval_ns for entry in entries), tuple(entries))


@pytest.mark.parametrize(
    ("kernel", "plan_has", "words"),
    [
        (
            lists_of(134),
            lists_of(23, gate_states=0x41),
            (
                "134 entries, cycle 134 ms instead of 23 entries, cycle 23 ms; first difference in "
                "entry 22: gates 0x80 for 1 ms instead of gates 0x41 for 1 ms"
            ),
        ),
        (
            lists_of(1),
            lists_of(2),
            (
                "1 entry, cycle 1 ms instead of 2 entries, cycle 2 ms; "
                "first difference in entry 1: none instead of gates 0x81 for 1 ms"
            ),
        ),
        (
            lists_of(1, interval_ns=1_000_001),
            lists_of(1),
            (
                "1 entry, cycle 1000001 ns instead of 1 entry, cycle 1 ms; "
                "first difference in entry 0: gates 0x80 for 1000001 ns instead of gates 0x80 "
                "for 1 ms"
            ),
        ),
        (
            dataclasses.replace(lists_of(2), cycle_ns=3_000_000),
            lists_of(2),
            "2 entries, cycle 3 ms instead of 2 entries, cycle 2 ms",
        ),
    ],
    ids=["other entries", "shorter", "by one nanosecond", "another cycle"],
)
def test_another_list_is_told_by_its_size_and_where_it_parts_first(
    plan: Plan, kernel: GateControlList, plan_has: GateControlList, words: str
) -> None:
    wanted = dataclasses.replace(wanted_of(plan), gates=plan_has)
    report = running(dataclasses.replace(wanted, gates=kernel), 0)
    assert difference_of(asked(wanted), report, 0) == f"another gate control list: {words}"
    assert difference_between(running(wanted, 0), report) == f"another gate control list: {words}"


def test_another_priority_map_and_other_rules_are_told_one_by_one_and_not_all_of_many(
    plan: Plan,
) -> None:
    wanted = wanted_of(plan)
    report = changed(running(wanted, 0), priority_map=(1, 1, 1, 1, 1, 5, 1, 7))
    assert difference_of(asked(wanted), report, 0) == (
        "another priority map: priority 5 in class 5 instead of 6"
    )
    rules = dict.fromkeys(range(20, 40), 3)
    report = changed(running(wanted, 0), dscp_priorities={**wanted.dscp_priorities, **rules})
    assert difference_of(asked(wanted), report, 0) == (
        "DSCP 20 to priority 3 is not in the plan, DSCP 21 to priority 3 is not in the plan, "
        "DSCP 22 to priority 3 is not in the plan, DSCP 23 to priority 3 is not in the plan "
        "and 16 more"
    )
    assert difference_between(running(wanted, 0), report) == (
        "DSCP 20 to priority 3 was not there, DSCP 21 to priority 3 was not there, "
        "DSCP 22 to priority 3 was not there, DSCP 23 to priority 3 was not there and 16 more"
    )


def test_a_kernel_that_was_bare_or_is_bare_now_runs_not_as_before(plan: Plan) -> None:
    full = running(wanted_of(plan), 0)
    bare = changed(full, running=None, mode=None, clock=None, number_of_classes=0)
    assert difference_between(full, bare) == "the gate control list is gone"
    assert difference_between(bare, full) == (
        "a gate control list that was not there: 2 entries, cycle 1 ms"
    )
    assert difference_between(full, full) is None


def test_another_number_of_classes_is_a_difference_from_before(plan: Plan) -> None:
    before = running(wanted_of(plan), 0)
    now = changed(before, number_of_classes=2)
    assert difference_between(before, now) == "number of traffic classes is 2, was 8"


@pytest.mark.parametrize(
    ("state", "base_time_ns", "agrees"),
    [("running", 3, True), ("running", 3.5, False), ("pending", 3, False), ("pending", 5, True)],
)
def test_a_pending_list_starts_at_its_base_time_and_a_running_one_whole_cycles_away(
    plan: Plan, state: str, base_time_ns: float, agrees: bool
) -> None:
    wanted = wanted_of(plan)
    schedule = KernelSchedule(int(base_time_ns * GATES.cycle_ns), GATES)
    schedules = {"running": None, state: schedule}
    report = changed(running(wanted, 0), **schedules)
    assert (difference_of(asked(wanted), report, 5 * GATES.cycle_ns) is None) is agrees
