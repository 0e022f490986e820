"""What the operational tree says, where no sysrepo is needed to tell."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from agent.filter_placement import FilterPlacement
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.history import GateHistory
from agent.mechanisms.gates.model import (
    ClassCounters,
    GateEntry,
    GateLimits,
    GateOperation,
    GateSchedule,
    Taprio,
    TaprioMode,
    TransmitQuotaState,
)
from agent.mechanisms.gates.operational import gate_states
from agent.model import Clock, OperStatus
from agent.operational import interfaces
from agent.traffic_classes import QueueRange
from agent.wake_ups import WakeUps
from tests.stack.recording_kernel import altered, port

SCHEDULE = GateSchedule(1000, 100, (GateEntry(1, 60), GateEntry(2, 30)))
TWO_CLASSES = Taprio(
    (0,) * 16, (QueueRange(1, 0), QueueRange(1, 1)), TaprioMode.SOFTWARE, Clock.TAI, SCHEDULE
)
RUNNING = altered(port("p1"), taprio=TWO_CLASSES, running=SCHEDULE)

BRIDGE_PORT = "ieee802-dot1q-bridge:bridge-port"
BRIDGE_GATES = "ieee802-dot1q-sched-bridge:gate-parameter-table"
INTERFACE_GATES = "ieee802-dot1dc-sched-if:gate-parameter-table"


def interface_of(state, history=None, now_ns=0, on_interfaces=True, wake_ups=None):
    (interface,) = interfaces(
        MECHANISMS,
        {state.name: state},
        {state.name: history} if history else {},
        now_ns if callable(now_ns) else lambda _clock: now_ns,
        counting_since={state.name: datetime(2026, 11, 21, tzinfo=UTC)},
        on_interfaces=on_interfaces,
        wake_ups=wake_ups,
    )["ietf-interfaces:interfaces"]["interface"]
    return interface


def published(state, **options):
    return interface_of(state, **options)[BRIDGE_PORT]


def gates_of(state, **options):
    return published(state, **options)[BRIDGE_GATES]


def kernel_of(state):
    return published(state)["tsn-linux:taprio"]["kernel"]


@pytest.mark.parametrize(
    ("now_ns", "states"), [(1000, 1), (1059, 1), (1060, 2), (1089, 2), (1100, 1), (98_761, 2)]
)
def test_the_gates_are_those_of_the_entry_the_cycle_is_in(now_ns, states):
    assert gate_states(SCHEDULE, now_ns) == states


def test_the_last_entry_stays_until_the_cycle_ends():
    assert gate_states(SCHEDULE, 1095) == 2


@pytest.mark.parametrize(
    ("quota", "taprio", "said"),
    [
        ((64, True), None, 1024),
        ((64, True), TWO_CLASSES, 64),
        ((1024, True), TWO_CLASSES, 1024),
        ((6400, True), None, 6400),
        ((64, False), None, 64),
        (None, TWO_CLASSES, None),
        ((1024, True), dataclasses.replace(TWO_CLASSES, mode=TaprioMode.FULL_OFFLOAD), None),
    ],
)
def test_the_frames_of_one_run_are_those_that_software_gates_have_or_will_have(quota, taprio, said):
    state = altered(
        port("p1"), taprio=taprio, transmit_quota=TransmitQuotaState(*quota) if quota else None
    )
    assert kernel_of(state).get("transmit-quota") == said


def test_a_foreign_qdisc_is_named():
    state = port("p1", foreign_qdisc="fq_codel 8001:")
    assert kernel_of(state)["root-qdisc"] == "foreign: fq_codel 8001:"


def test_a_link_of_unknown_speed_publishes_none():
    state = dataclasses.replace(port("p1"), link_speed_bps=None)
    assert "link-speed-bps" not in kernel_of(state)


@pytest.mark.parametrize("in_hardware", [True, False])
def test_a_port_says_whether_its_hardware_has_its_filters(in_hardware):
    bridged = dataclasses.replace(port("p1"), bridge="br0")
    assert "filters-in-hardware" not in kernel_of(bridged)["bridged-frames"]
    placed = bridged.with_part(FilterPlacement(in_hardware))
    assert kernel_of(placed)["bridged-frames"]["filters-in-hardware"] is in_hardware


@pytest.mark.parametrize("clock", Clock)
def test_the_current_time_is_tai_and_the_gates_move_by_the_clock_of_their_list(clock):
    now_ns = {Clock.TAI: 37_000_000_000, Clock.MONOTONIC: 1_000, Clock.REALTIME: 1_059}
    now_ns[Clock.BOOTTIME] = 1_060
    taprio = dataclasses.replace(TWO_CLASSES, clock=clock)
    gates = gates_of(altered(RUNNING, taprio=taprio), now_ns=now_ns.__getitem__)
    assert gates["current-time"] == {"seconds": "37", "nanoseconds": 0}
    assert gates["oper-gate-states"] == gate_states(SCHEDULE, now_ns[clock])


def test_an_agent_that_did_not_see_the_change_reports_the_base_time_as_its_time():
    gates = gates_of(RUNNING, now_ns=5000)
    assert gates["config-change-time"] == {"seconds": "0", "nanoseconds": 1000}


def test_a_history_of_another_list_than_the_kernels_is_not_published():
    other = GateHistory(dataclasses.replace(SCHEDULE, entries=(GateEntry(3, 100),)), 7777, 5)
    gates = gates_of(RUNNING, history=other, now_ns=5000)
    assert gates["config-change-error"] == "0"
    assert gates["config-change-time"]["nanoseconds"] == 1000


@pytest.mark.parametrize(
    ("now_ns", "pending", "base_time_ns"), [(4999, True, 1000), (5000, False, 5000)]
)
def test_a_congruent_restart_is_pending_until_its_base_time_and_then_the_one_in_force(
    now_ns, pending, base_time_ns
):
    asked = dataclasses.replace(SCHEDULE, base_time_ns=5000)
    gates = gates_of(RUNNING, history=GateHistory(asked, 5000), now_ns=now_ns)
    assert gates["config-pending"] is pending
    assert gates["oper-base-time"]["nanoseconds"] == base_time_ns


def test_a_list_the_kernel_holds_back_is_pending_whatever_the_clock_says():
    state = altered(RUNNING, running=None, pending=SCHEDULE)
    assert gates_of(state, now_ns=10**9)["config-pending"] is True


def test_both_places_show_one_truth_and_the_second_only_where_it_is_installed():
    interface = interface_of(RUNNING)
    assert interface[INTERFACE_GATES] == interface[BRIDGE_PORT][BRIDGE_GATES]
    assert INTERFACE_GATES not in interface_of(RUNNING, on_interfaces=False)


@pytest.mark.parametrize(("state", "enabled"), [(RUNNING, True), (port("p1"), False)])
def test_both_places_say_whether_the_port_has_gates_whichever_is_configured(state, enabled):
    interface = interface_of(state)
    assert interface[INTERFACE_GATES]["gate-enabled"] is enabled
    assert interface[BRIDGE_PORT][BRIDGE_GATES]["gate-enabled"] is enabled


def test_what_neither_kernel_nor_driver_tells_of_limits_is_left_out():
    limits = GateLimits(list_max=64, interval_max_ns=5)
    gates = gates_of(altered(port("p1"), limits=limits))
    assert gates["supported-list-max"] == 64
    assert gates["supported-interval-max"] == 5
    assert "supported-cycle-max" not in gates
    assert "tick-granularity" not in gates


def test_frame_size_limits_are_published_for_every_class_and_in_the_kernels_words_for_the_limited():
    limited = dataclasses.replace(TWO_CLASSES, max_sdu_octets=(0, 300))
    state = altered(RUNNING, taprio=limited)
    assert gates_of(state)["queue-max-sdu-table"] == [
        {"traffic-class": 0, "queue-max-sdu": 0},
        {"traffic-class": 1, "queue-max-sdu": 300},
    ]
    assert kernel_of(state)["max-sdu"] == [{"traffic-class": 1, "octets": 300}]


def test_a_class_publishes_what_it_sent_and_what_waits_and_of_overruns_only_what_is_counted():
    counters = (ClassCounters(5, 320, 1), ClassCounters(2**40, 2**41, 0, 7, 8, 1000))
    state = altered(RUNNING, counters=counters)
    table = gates_of(state)["queue-max-sdu-table"]
    assert [row.get("transmission-overrun") for row in table] == [None, "7"]
    assert kernel_of(state)["class-statistics"] == [
        {
            "traffic-class": 0,
            "frames": "5",
            "octets": "320",
            "drops": "1",
            "backlog-frames": "0",
        },
        {
            "traffic-class": 1,
            "frames": str(2**40),
            "octets": str(2**41),
            "drops": "0",
            "window-drops": "8",
            "backlog-frames": "1000",
        },
    ]


def wake_ups_of(mode, wake_ups):
    taprio = dataclasses.replace(TWO_CLASSES, mode=mode)
    interface = interface_of(altered(RUNNING, taprio=taprio), wake_ups=wake_ups)
    return interface[BRIDGE_PORT]["tsn-linux:taprio"]["kernel"].get("gate-wake-ups")


def test_a_port_with_software_gates_publishes_how_late_they_wake_up():
    assert wake_ups_of(TaprioMode.SOFTWARE, WakeUps(123_456, 43_210, 31_000)) == {
        "mode": "software",
        "count": "123456",
        "maximum-ns": "43210",
        "quantile-ns": "31000",
    }


def test_a_port_without_gates_publishes_how_late_they_would_wake_up():
    interface = interface_of(port("p1"), wake_ups=WakeUps(40, 500, None))
    wake_ups = interface[BRIDGE_PORT]["tsn-linux:taprio"]["kernel"]["gate-wake-ups"]
    assert wake_ups == {"mode": "software", "count": "40", "maximum-ns": "500"}


@pytest.mark.parametrize("mode", [TaprioMode.FULL_OFFLOAD, TaprioMode.TXTIME_ASSIST])
def test_gates_that_no_timer_opens_publish_no_wake_ups(mode):
    assert wake_ups_of(mode, WakeUps(40, 500, None)) is None


def test_wake_ups_that_are_not_measured_are_not_published():
    assert wake_ups_of(TaprioMode.SOFTWARE, None) is None


def test_every_entry_says_what_it_does():
    hold = dataclasses.replace(SCHEDULE, entries=(GateEntry(1, 100, GateOperation.HOLD),))
    taprio = dataclasses.replace(TWO_CLASSES, schedule=hold)
    state = altered(RUNNING, taprio=taprio, running=hold)
    (entry,) = gates_of(state)["oper-control-list"]["gate-control-entry"]
    assert entry["operation-name"] == "ieee802-dot1q-sched:set-and-hold-mac"
    assert kernel_of(state)["schedule"][0]["entry"][0]["operation"] == "set-and-hold-mac"


def test_the_state_of_the_interface_is_published():
    state = dataclasses.replace(
        port("p1"), oper_status=OperStatus.LOWER_LAYER_DOWN, statistics={"in-octets": 2**40}
    )
    interface = interface_of(state)
    assert interface["oper-status"] == "lower-layer-down"
    assert interface["phys-address"] == "02:00:00:00:00:02"
    assert interface["speed"] == "1000000000"
    assert interface["statistics"] == {
        "discontinuity-time": "2026-11-21T00:00:00.000000+00:00",
        "in-octets": str(2**40),
    }


def test_the_bridge_that_forwards_the_frames_of_a_port_is_published():
    assert kernel_of(dataclasses.replace(port("p1"), bridge="br0"))["bridge"] == "br0"
    assert "bridge" not in kernel_of(port("p1"))


def test_a_short_counter_starts_again_from_0():
    state = dataclasses.replace(port("p1"), statistics={"in-errors": 2**32 + 3})
    assert interface_of(state)["statistics"]["in-errors"] == 3


def test_what_the_kernel_does_not_tell_of_the_interface_is_left_out():
    state = dataclasses.replace(
        port("p1"), mac_address=None, link_speed_bps=None, driver=None, statistics={}
    )
    assert interface_of(state).keys().isdisjoint({"phys-address", "speed", "statistics"})
    assert "driver" not in kernel_of(state)
