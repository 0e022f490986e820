"""The configured tree is read as 802.1Q means it, and what taprio cannot do is refused by name."""

from __future__ import annotations

import pytest

from agent.datastore.desired import desired_ports
from agent.mechanisms.classification.model import DscpConfig
from agent.mechanisms.gates.model import (
    GateConfig,
    GateEntry,
    GateOperation,
    GateSchedule,
    Taprio,
    TaprioMode,
)
from agent.model import AgentError, Clock, PortState
from agent.traffic_classes import RECOMMENDED_CLASSES, QueueRange
from tests.stack.recording_kernel import altered, port

GATES = "ieee802-dot1q-sched-bridge:gate-parameter-table"
INTERFACE_GATES = "ieee802-dot1dc-sched-if:gate-parameter-table"


def gate_entry(index, states, interval_ns, operation="set-gate-states"):
    return {
        "index": index,
        "operation-name": f"ieee802-dot1q-sched:{operation}",
        "gate-states-value": states,
        "time-interval-value": interval_ns,
    }


def gate_table(**changes):
    """One millisecond, first half for class 1, starting at 2 s + 5 ns."""
    table = {
        "gate-enabled": True,
        "config-change": True,
        "admin-control-list": {
            "gate-control-entry": [gate_entry(0, 2, 500_000), gate_entry(1, 1, 500_000)]
        },
        "admin-cycle-time": {"numerator": 1, "denominator": 1000},
        "admin-base-time": {"seconds": "2", "nanoseconds": 5},
    }
    table |= {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in table.items() if value is not None}


def bridge_port(gates=None, **changes):
    node = {
        "traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 2}},
        GATES: gate_table() if gates is None else gates,
    }
    return node | changes


def tree(**ports):
    interfaces = [
        {
            "name": name,
            "type": "iana-if-type:ethernetCsmacd",
            "ieee802-dot1q-bridge:bridge-port": content,
        }
        for name, content in ports.items()
    ]
    return {"ietf-interfaces:interfaces": {"interface": interfaces}}


def taprio_of(content):
    return desired_ports(tree(p1=content), {})["p1"][GateConfig].taprio


def schedule_of(**changes):
    return taprio_of(bridge_port(gate_table(**changes))).schedule


def refusal_of(**ports):
    with pytest.raises(AgentError) as refused:
        desired_ports(tree(**ports), {})
    return str(refused.value)


def test_an_empty_configuration_asks_nothing():
    assert desired_ports({}, {}) == {}


def test_an_interface_that_is_no_bridge_port_is_not_managed():
    interface = {"name": "mgmt", "type": "iana-if-type:ethernetCsmacd"}
    assert desired_ports({"ietf-interfaces:interfaces": {"interface": [interface]}}, {}) == {}


def test_a_gate_table_becomes_a_taprio():
    assert taprio_of(bridge_port()) == Taprio(
        priority_map=(0, 0, 0, 0, 1, 1, 1, 1, *[0] * 8),
        queues=(QueueRange(1, 0), QueueRange(1, 1)),
        mode=TaprioMode.SOFTWARE,
        clock=Clock.TAI,
        schedule=GateSchedule(
            2_000_000_005, 1_000_000, (GateEntry(2, 500_000), GateEntry(1, 500_000))
        ),
    )


def test_entries_run_in_the_order_of_their_index_as_a_number():
    entries = [gate_entry(10, 3, 100_000), gate_entry(2, 2, 400_000), gate_entry(0, 1, 500_000)]
    assert schedule_of(admin_control_list={"gate-control-entry": entries}).entries == (
        GateEntry(1, 500_000),
        GateEntry(2, 400_000),
        GateEntry(3, 100_000),
    )


@pytest.mark.parametrize(
    ("numerator", "denominator", "cycle_ns"),
    [(1, 1000, 1_000_000), (1, 8000, 125_000), (3, 3_000_000, 1_000), (2, 1, 2_000_000_000)],
)
def test_a_rational_cycle_time_becomes_exact_nanoseconds(numerator, denominator, cycle_ns):
    cycle = {"numerator": numerator, "denominator": denominator}
    assert schedule_of(admin_cycle_time=cycle).cycle_time_ns == cycle_ns


def test_the_last_base_time_that_the_kernel_takes_is_taken():
    last = {"seconds": "9223372036", "nanoseconds": 853_775_807}
    assert schedule_of(admin_base_time=last).base_time_ns == 2**63 - 1 - 1_000_000


def test_a_missing_base_time_is_the_start_of_the_epoch():
    assert schedule_of(admin_base_time=None).base_time_ns == 0


def test_every_row_of_recommended_classes_uses_exactly_its_classes():
    for count, row in enumerate(RECOMMENDED_CLASSES, start=1):
        assert set(row) == set(range(count))
        # 802.1Q: background (1) below best effort (0), then rising.
        by_importance = [row[priority] for priority in (1, 0, 2, 3, 4, 5, 6, 7)]
        assert by_importance == sorted(by_importance)


def test_a_configured_priority_replaces_the_recommended_class_and_the_rest_stays():
    table = {"number-of-traffic-classes": 4, "priority0": 2, "priority7": 0}
    content = bridge_port(**{"traffic-class": {"traffic-class-table": table}})
    assert taprio_of(content).priority_map == (2, 0, 1, 1, 2, 2, 3, 0, *[2] * 8)


def test_classes_that_no_priority_maps_to_still_exist():
    table = {"number-of-traffic-classes": 3} | {f"priority{p}": 0 for p in range(8)}
    content = bridge_port(**{"traffic-class": {"traffic-class-table": table}})
    assert len(taprio_of(content).queues) == 3


@pytest.mark.parametrize(
    ("operation", "meaning"),
    [
        ("set-gate-states", GateOperation.SET),
        ("set-and-hold-mac", GateOperation.HOLD),
        ("set-and-release-mac", GateOperation.RELEASE),
    ],
)
def test_every_operation_of_a_list_is_taken(operation, meaning):
    entries = [gate_entry(0, 1, 1_000_000, operation)]
    (entry,) = schedule_of(admin_control_list={"gate-control-entry": entries}).entries
    assert entry == GateEntry(1, 1_000_000, meaning)


def test_frame_size_limits_are_by_class_and_absent_ones_are_none():
    rows = [{"traffic-class": 1, "queue-max-sdu": 300}]
    assert taprio_of(bridge_port(gate_table(queue_max_sdu_table=rows))).max_sdu_octets == (0, 300)


def test_limits_of_zero_limit_nothing_whatever_their_class():
    rows = [{"traffic-class": 0, "queue-max-sdu": 0}, {"traffic-class": 7}]
    assert taprio_of(bridge_port(gate_table(queue_max_sdu_table=rows))).max_sdu_octets == ()


def test_without_a_traffic_class_table_there_are_eight_classes():
    assert len(taprio_of({GATES: gate_table()}).queues) == 8


def test_mode_clock_and_queues_are_taken_from_our_module():
    own = {
        "mode": "txtime-assist",
        "clock": "monotonic",
        "queue": [
            {"traffic-class": 1, "offset": 0},
            {"traffic-class": 0, "offset": 1, "count": 3},
        ],
    }
    taprio = taprio_of(bridge_port(**{"tsn-linux:taprio": own}))
    assert (taprio.mode, taprio.clock) == (TaprioMode.TXTIME_ASSIST, Clock.MONOTONIC)
    assert taprio.queues == (QueueRange(3, 1), QueueRange(1, 0))


def test_dscp_rules_need_no_gates():
    rules = [{"dscp": 46, "priority": 5}, {"dscp": 0, "priority": 0}]
    port = desired_ports(tree(p1={"tsn-linux:dscp-rule": rules}), {})["p1"]
    assert port[GateConfig].taprio is None
    assert port[DscpConfig].priorities == {46: 5, 0: 0}


def test_gates_that_are_not_enabled_are_not_run_whatever_else_is_set():
    assert taprio_of(bridge_port(gate_table(gate_enabled=False))) is None


def test_admin_values_without_config_change_leave_what_runs():
    running = taprio_of(bridge_port())
    state = altered(port("p1"), taprio=running, running=running.schedule)
    draft = bridge_port(gate_table(config_change=False, admin_base_time={"seconds": "9"}))
    assert desired_ports(tree(p1=draft), {"p1": state})["p1"][GateConfig].taprio == running


def test_admin_values_without_config_change_start_nothing():
    assert taprio_of(bridge_port(gate_table(config_change=None))) is None


def both_places(bridge_gates, interface_gates):
    """Port p1 with two classes and a gate table in each place, or in one of them."""
    bridge = {"traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 2}}}
    if bridge_gates is not None:
        bridge[GATES] = bridge_gates
    interface = {"name": "p1", "ieee802-dot1q-bridge:bridge-port": bridge}
    if interface_gates is not None:
        interface[INTERFACE_GATES] = interface_gates
    return {"ietf-interfaces:interfaces": {"interface": [interface]}}


def test_a_gate_table_on_the_interface_is_taken_with_the_classes_of_the_bridge_port():
    by_interface = desired_ports(both_places(None, gate_table()), {})
    assert by_interface == desired_ports(both_places(gate_table(), None), {})
    assert by_interface["p1"][GateConfig].taprio is not None


def test_an_interface_with_a_gate_table_needs_no_bridge_port():
    interface = {"name": "p1", INTERFACE_GATES: gate_table()}
    ports = desired_ports({"ietf-interfaces:interfaces": {"interface": [interface]}}, {})
    assert len(ports["p1"][GateConfig].taprio.queues) == 8


def test_two_places_that_ask_for_the_same_are_taken_however_they_write_it():
    milliseconds = gate_table(admin_cycle_time={"numerator": 2, "denominator": 2000})
    assert (
        desired_ports(both_places(gate_table(), milliseconds), {})["p1"][GateConfig].taprio
        is not None
    )


@pytest.mark.parametrize(
    ("changes", "leaf"),
    [
        ({"gate_enabled": False}, "gate-enabled"),
        ({"config_change": False}, "config-change"),
        ({"admin_base_time": {"seconds": "3"}}, "admin-base-time"),
        (
            {"queue_max_sdu_table": [{"traffic-class": 1, "queue-max-sdu": 9}]},
            "queue-max-sdu-table",
        ),
    ],
)
@pytest.mark.parametrize("swap", [False, True])
def test_two_places_that_ask_for_different_gates_are_refused_with_both_named(changes, leaf, swap):
    tables = [gate_table(), gate_table(**changes)]
    with pytest.raises(AgentError) as refused:
        desired_ports(both_places(*(reversed(tables) if swap else tables)), {})
    assert str(refused.value) == (
        f"port p1: bridge-port/{GATES} and {INTERFACE_GATES} ask for different gates ({leaf}); "
        "make them equal, or delete one"
    )


def test_a_draft_in_one_place_is_refused_even_while_the_other_runs():
    state = PortState("p1", 2, 8, None, "taprio", None, taprio_of(bridge_port()), None, None)
    with pytest.raises(AgentError, match="different gates"):
        desired_ports(both_places(gate_table(), gate_table(config_change=False)), {"p1": state})


@pytest.mark.parametrize(
    "switched_off",
    [
        {},
        {"admin-cycle-time": {"numerator": 1, "denominator": 1}},
        {"admin-cycle-time": {"numerator": 1, "denominator": 1}, "gate-enabled": False},
        {"gate-enabled": False, "config-change": True, "admin-control-list": {}},
    ],
)
def test_a_table_that_is_off_and_has_no_list_asks_for_nothing(switched_off):
    limits = {"supported-list-max": 16, "supported-cycle-max": {"numerator": 1, "denominator": 1}}
    off = limits | switched_off
    assert desired_ports(both_places(gate_table(), off), {})["p1"][GateConfig].taprio is not None
    assert desired_ports(both_places(off, gate_table()), {})["p1"][GateConfig].taprio is not None
    assert desired_ports(both_places(off, None), {})["p1"][GateConfig].taprio is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"admin_cycle_time": {"numerator": 1, "denominator": 3}},
            "admin-cycle-time 1/3 s is not a whole, positive number of nanoseconds",
        ),
        ({"admin_cycle_time": {"numerator": 0, "denominator": 1}}, "positive number"),
        ({"admin_cycle_time": {"numerator": 1}}, "needs a numerator and a denominator"),
        ({"admin_cycle_time": None}, "needs a numerator and a denominator"),
        ({"admin_base_time": {"nanoseconds": 1_000_000_000}}, "a second has 1000000000"),
        (
            {"admin_base_time": {"seconds": "18446744073709551615"}},
            ("base time 18446744073709551615000000000 ns is not within 0..9223372036853775807"),
        ),
        (
            {"admin_base_time": {"seconds": "9223372036", "nanoseconds": 853_775_808}},
            "base time 9223372036853775808 ns is not within 0..9223372036853775807",
        ),
        ({"admin_control_list": None}, "admin-control-list is empty"),
        ({"admin_cycle_time_extension": 1}, "admin-cycle-time-extension must be 0"),
        ({"admin_gate_states": 0b01}, "admin-gate-states must leave every gate open"),
        (
            {"queue_max_sdu_table": [{"traffic-class": 2, "queue-max-sdu": 128}]},
            "queue-max-sdu limits traffic class 2; the port has 2 (0..1)",
        ),
        (
            {"queue_max_sdu_table": [{"traffic-class": 1, "queue-max-sdu": 65_536}]},
            (
                "queue-max-sdu 65536 is longer than any service data unit: the kernel takes up to "
                "65535, and 0 for no limit"
            ),
        ),
        (
            {
                "admin_control_list": {
                    "gate-control-entry": [
                        {
                            "index": 0,
                            "operation-name": "ieee802-dot1q-sched:set-gate-states",
                            "gate-states-value": 1,
                        }
                    ]
                }
            },
            "gate-control-entry 0: time-interval-value (ns) is missing",
        ),
    ],
)
def test_what_taprio_cannot_do_is_refused(changes, reason):
    refusal = refusal_of(p1=bridge_port(gate_table(**changes)))
    assert refusal.startswith("port p1: ")
    assert reason in refusal


def test_gate_states_of_absent_classes_may_start_closed():
    assert schedule_of(admin_gate_states=0b11)


def test_queues_must_cover_every_class():
    queue = {"queue": [{"traffic-class": 1, "offset": 0}]}
    assert "lists the traffic classes 1; list each of 0..1" in refusal_of(
        p1=bridge_port(**{"tsn-linux:taprio": queue})
    )


def test_every_refused_port_is_named():
    wrong = gate_table(admin_cycle_time_extension=7)
    lines = refusal_of(p1=bridge_port(wrong), p2=bridge_port(), p3=bridge_port(wrong)).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["port p1", "port p3"]
