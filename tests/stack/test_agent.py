"""The agent on a real sysrepo: what a client writes reaches the ports and can be read back."""

from __future__ import annotations

import time

import pytest
import sysrepo

from agent import operational
from agent.datastore.subscriptions import Datastore
from agent.mechanisms.classification.model import DscpState
from agent.mechanisms.gates.model import (
    GateEntry,
    GateOperation,
    GateSchedule,
    GateState,
    TaprioMode,
)
from agent.model import NS_PER_S, AgentError, Clock
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import CYCLE_MAX_NS, LIST_MAX
from tests.stack.sysrepo_client import (
    BASE_TIME_S,
    BRIDGE_PORT,
    GATES,
    HALF_AND_HALF,
    INTERFACE_GATES,
    INTERFACES,
    NOW_NS,
    entry,
    gated,
    gated_interface,
)

SETTLE_TIMEOUT_S = 0.3
OTHER_HALF_FIRST = (entry(0, 0b01, 500_000), entry(1, 0b10, 500_000))

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture
def agent(kernel, client):
    serving = Datastore(kernel, settle_timeout_s=SETTLE_TIMEOUT_S)
    yield serving
    serving.close()


def test_a_gate_control_list_reaches_its_port(client, kernel):
    client.replace(gated("p1"))
    taprio = kernel.states["p1"][GateState].taprio
    assert taprio.schedule == GateSchedule(
        BASE_TIME_S * 10**9, 1_000_000, (GateEntry(2, 500_000), GateEntry(1, 500_000))
    )
    assert taprio.queues == (QueueRange(1, 0), QueueRange(1, 1))
    assert (taprio.mode, taprio.clock) == (TaprioMode.SOFTWARE, Clock.TAI)
    assert kernel.states["p1"][DscpState].priorities == {46: 7}
    assert kernel.log == ["apply p1"]


def test_removing_the_configuration_removes_the_gates(client, kernel):
    client.replace(gated("p1"), gated("p2"))
    client.replace(gated("p2"))
    assert kernel.states["p1"][GateState].taprio is None
    assert kernel.states["p2"][GateState].taprio is not None


def test_the_longest_list_arrives_complete_and_in_order(client, kernel):
    entries = [entry(i, i % 4, 1000) for i in range(LIST_MAX)]
    cycle = {"numerator": LIST_MAX * 1000, "denominator": NS_PER_S}
    client.replace(gated("p1", reversed(entries), **{"admin-cycle-time": cycle}))
    assert kernel.states["p1"][GateState].taprio.schedule.entries == tuple(
        GateEntry(i % 4, 1000) for i in range(LIST_MAX)
    )


def test_limits_and_operations_reach_the_port_and_are_read_back_from_it(client, kernel):
    entries = [entry(0, 2, 500_000, "set-and-hold-mac"), entry(1, 1, 500_000)]
    limits = [{"traffic-class": 1, "queue-max-sdu": 300}]
    offloaded = gated("p1", entries, **{"queue-max-sdu-table": limits})
    offloaded["ieee802-dot1q-bridge:bridge-port"]["tsn-linux:taprio"] = {"mode": "full-offload"}
    client.replace(offloaded)
    assert kernel.states["p1"][GateState].taprio.max_sdu_octets == (0, 300)
    assert kernel.states["p1"][GateState].taprio.schedule.entries[0].operation is GateOperation.HOLD
    gates = client.port("p1")[GATES]
    assert gates["oper-control-list"]["gate-control-entry"] == entries
    assert gates["queue-max-sdu-table"] == [
        {"traffic-class": 0, "queue-max-sdu": 0, "transmission-overrun": "7"},
        {"traffic-class": 1, "queue-max-sdu": 300, "transmission-overrun": "7"},
    ]
    assert kernel_says(client)["max-sdu"] == [{"traffic-class": 1, "octets": 300}]


def test_a_gate_table_under_the_interface_is_taken_and_shown_in_both_places(client, kernel):
    client.replace(gated_interface("p1"))
    by_interface = kernel.states["p1"][GateState].taprio
    interface = client.interface("p1")
    assert state_of(interface[INTERFACE_GATES]) == state_of(interface[BRIDGE_PORT][GATES])
    assert interface[BRIDGE_PORT][GATES]["oper-gate-states"] == 0b10
    client.replace(gated("p1"))
    assert kernel.states["p1"][GateState].taprio == by_interface
    assert kernel.log == ["apply p1"]


def test_both_places_are_taken_if_they_agree_and_refused_by_name_if_not(client, kernel):
    both = gated_interface("p1") | {BRIDGE_PORT: gated("p1")[BRIDGE_PORT]}
    client.replace(both)
    assert kernel.log == ["apply p1"]
    both[INTERFACE_GATES]["admin-base-time"] = {"seconds": "7"}
    with pytest.raises(sysrepo.SysrepoError) as refused:
        client.replace(both)
    assert f"bridge-port/{GATES} and {INTERFACE_GATES}" in str(refused.value)
    assert "(admin-base-time)" in str(refused.value)


def test_a_table_with_limits_and_a_cycle_that_is_off_leaves_the_gates_to_the_other(client, kernel):
    """The smallest instance of both published modules that uses the bridge port's table."""
    off = {
        "admin-cycle-time": {"numerator": 1, "denominator": 1},
        "supported-list-max": 430,
        "supported-cycle-max": {"numerator": 2, "denominator": 1},
        "supported-interval-max": 2_000_000_000,
    }
    client.replace(gated("p1") | {INTERFACE_GATES: off})
    assert kernel.states["p1"][GateState].taprio is not None
    client.replace(gated("p1") | {INTERFACE_GATES: off | {"gate-enabled": False}})
    assert kernel.log == ["apply p1"]


def test_the_kernels_refusal_arrives_word_for_word_and_nothing_changes(client, kernel):
    kernel.refuse = "port p1: the kernel refused the schedule: Multi-queue device is required"
    with pytest.raises(sysrepo.SysrepoError) as refused:
        client.replace(gated("p1"))
    assert kernel.refuse in str(refused.value)
    assert client.interface("p1", "running") is None


def test_what_taprio_cannot_do_is_refused_before_the_kernel_is_asked(client, kernel):
    with pytest.raises(sysrepo.SysrepoError, match="port p1: admin-cycle-time-extension must be 0"):
        client.replace(gated("p1", **{"admin-cycle-time-extension": 5}))
    assert kernel.log == []


def test_a_change_another_subscriber_refuses_is_taken_back(client, kernel):
    def refuse(_session, event, _request_id, _private):
        if event == "change":
            # A refusal that comes first ends the change before the agent hears of it.
            wait_until(lambda: kernel.log)
            raise sysrepo.SysrepoValidationFailedError("not on my watch")

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.subscribe_module_change_unsafe("ietf-interfaces", INTERFACES, refuse)
        with pytest.raises(sysrepo.SysrepoError, match="not on my watch"):
            client.replace(gated("p1"))
    # By abort, or by the timer: sysrepo sends none to a subscriber that answers after the refusal.
    wait_until(lambda: kernel.log == ["apply p1", "undo p1"])
    assert kernel.states["p1"][GateState].taprio is None


def test_a_change_whose_client_gave_up_is_taken_back(client, kernel):
    kernel.delay_s = 0.3
    with pytest.raises(sysrepo.SysrepoError):
        client.replace(gated("p1"), timeout_ms=100)
    wait_until(lambda: kernel.log == ["apply p1", "undo p1"])
    assert client.interface("p1", "running") is None


def test_a_change_that_landed_outlives_the_settle_timeout(client, kernel):
    client.replace(gated("p1"))
    time.sleep(2 * SETTLE_TIMEOUT_S)
    assert kernel.log == ["apply p1"]


def test_a_port_nobody_configured_can_be_inspected(client):
    interface = client.interface("p2")
    assert interface["type"] == "iana-if-type:ethernetCsmacd"
    assert interface["oper-status"] == "up"
    assert interface["phys-address"] == "02:00:00:00:00:03"
    assert interface["speed"] == "1000000000"
    assert interface["statistics"].keys() == {
        *("discontinuity-time", "in-octets", "in-errors", "out-octets")
    }
    assert kernel_says(client, "p2") == {
        "driver": "recording",
        "tx-queues": 8,
        "mac-merge": True,
        "hardware-time-stamps": False,
        "hardware-forwards": False,
        "mac-merge-state": {
            "tx-enabled": False,
            "tx-active": False,
            "verify-status": "unknown",
            "tx-min-fragment-octets": 60,
        },
        "link-speed-bps": "1000000000",
        "root-qdisc": "noqueue",
    }


def test_the_running_schedule_is_published(client, kernel):
    client.replace(gated("p1"))
    assert client.port("p1")[GATES]["config-pending"] is True
    kernel.time_ns += 1_000_000
    gates = client.port("p1")[GATES]
    assert {name: gates[name] for name in gates if name.startswith("oper-")} == {
        "oper-gate-states": 0b10,
        "oper-control-list": {"gate-control-entry": list(HALF_AND_HALF)},
        "oper-cycle-time": {"numerator": 1_000_000, "denominator": 10**9},
        "oper-cycle-time-extension": 0,
        "oper-base-time": {"seconds": str(BASE_TIME_S), "nanoseconds": 0},
    }
    assert gates["config-pending"] is False
    assert gates["current-time"] == {"seconds": str(NOW_NS // 10**9), "nanoseconds": 1_250_000}
    # It was late for its base time: it started with the cycle after the one of the change.
    assert gates["config-change-time"] == {
        "seconds": str(NOW_NS // 10**9),
        "nanoseconds": 1_000_000,
    }


def test_the_operational_tree_holds_the_configuration_too(client):
    client.replace(gated("p1"))
    gates = client.port("p1")[GATES]
    assert gates["gate-enabled"] is True
    assert gates["admin-control-list"]["gate-control-entry"] == list(HALF_AND_HALF)
    assert client.port("p1")["tsn-linux:dscp-rule"] == [{"dscp": 46, "priority": 7}]


def test_a_draft_that_the_kernel_does_not_run_is_not_shown_as_enabled(client):
    client.replace(gated("p1", **{"config-change": False}))
    assert client.interface("p1", "running")[BRIDGE_PORT][GATES]["gate-enabled"] is True
    assert client.port("p1")[GATES]["gate-enabled"] is False


def test_a_schedule_that_waits_for_its_base_time_is_pending(client):
    ahead_s = NOW_NS // 10**9 + 5
    client.replace(gated("p1"))
    client.replace(gated("p1", OTHER_HALF_FIRST, base_time_s=ahead_s))
    gates = client.port("p1")[GATES]
    assert gates["config-pending"] is True
    assert gates["config-change-time"] == {"seconds": str(ahead_s), "nanoseconds": 0}
    assert gates["oper-base-time"]["seconds"] == str(BASE_TIME_S)
    schedules = kernel_says(client)["schedule"]
    assert [(s["state"], s["base-time-ns"]) for s in schedules] == [
        ("running", str(BASE_TIME_S * 10**9)),
        ("pending", str(ahead_s * 10**9)),
    ]


def test_a_congruent_restart_is_pending_until_its_base_time_and_disturbs_nothing(client, kernel):
    ahead_s = NOW_NS // 10**9 + 5
    client.replace(gated("p1"))
    client.replace(gated("p1", base_time_s=ahead_s))
    assert kernel.log == ["apply p1"]
    waiting = client.port("p1")[GATES]
    assert waiting["config-pending"] is True
    assert waiting["oper-base-time"]["seconds"] == str(BASE_TIME_S)
    kernel.time_ns = ahead_s * 10**9
    restarted = client.port("p1")[GATES]
    assert restarted["config-pending"] is False
    assert restarted["oper-base-time"] == restarted["config-change-time"]
    assert restarted["oper-base-time"]["seconds"] == str(ahead_s)


def test_before_its_first_base_time_a_port_has_all_gates_open_and_no_running_list(client):
    client.replace(gated("p1", base_time_s=NOW_NS // 10**9 + 5))
    gates = client.port("p1")[GATES]
    assert gates["oper-gate-states"] == 255
    assert "oper-control-list" not in gates


def test_a_late_base_time_is_counted_while_another_list_ran(client):
    client.replace(gated("p1"))
    assert client.port("p1")[GATES]["config-change-error"] == "0"
    client.replace(gated("p1", base_time_s=BASE_TIME_S + 1))
    assert client.port("p1")[GATES]["config-change-error"] == "1"


def test_the_kernels_own_words_are_published_beside_the_standards(client):
    client.replace(gated("p1"))
    says = kernel_says(client)
    assert says["root-qdisc"] == "taprio"
    assert says["traffic-classes"] == 2
    assert [row["traffic-class"] for row in says["priority-map"]] == [
        *(0, 0, 0, 0, 1, 1, 1, 1),
        *[0] * 8,
    ]
    assert says["queue"] == [
        {"traffic-class": 0, "count": 1, "offset": 0},
        {"traffic-class": 1, "count": 1, "offset": 1},
    ]
    assert says["schedule"][0]["entry"] == [
        {"index": i, "operation": "set-gate-states", "gate-states": g, "interval-ns": 500_000}
        for i, g in enumerate((2, 1))
    ]
    assert says["class-statistics"] == [
        {
            "traffic-class": t,
            "frames": str(t),
            "octets": str(64 * t),
            "drops": "0",
            "window-drops": "0",
            "backlog-frames": "0",
        }
        for t in range(2)
    ]
    assert says["dscp-rule"] == [{"dscp": 46, "priority": 7}]


def test_a_limit_that_was_configured_gives_way_to_the_ports_own(client):
    client.replace(gated("p1", **{"supported-list-max": 3}))
    assert client.port("p1")[GATES]["supported-list-max"] == LIST_MAX


def test_the_limits_of_the_port_are_advertised(client):
    gates = client.port("p1")[GATES]
    assert gates["tick-granularity"] == 10
    assert gates["supported-cycle-max"] == {"numerator": CYCLE_MAX_NS, "denominator": 10**9}
    assert gates["supported-interval-max"] == CYCLE_MAX_NS
    assert gates["supported-list-max"] == LIST_MAX


def test_one_change_reads_the_kernel_once(client, kernel):
    kernel.reads = 0
    client.replace(gated("p1"), gated("p2"))
    assert kernel.reads == 1


def test_one_request_reads_the_kernel_once(client, kernel):
    client.replace(gated("p1"), gated("p2"))
    kernel.reads = 0
    client.read(INTERFACES)
    assert kernel.reads == 1


def test_a_request_for_one_port_builds_no_other(client, kernel, monkeypatch):
    client.replace(gated("p1"), gated("p2"))
    built = []
    interfaces = operational.interfaces
    monkeypatch.setattr(
        operational,
        "interfaces",
        lambda m, states, *a, **k: built.append(set(states)) or interfaces(m, states, *a, **k),
    )
    one = client.read(f"{INTERFACES}/interface[name='p1']/oper-status | /tsn-linux:agent/pid")
    assert one["ietf-interfaces:interfaces"] == {"interface": [{"name": "p1", "oper-status": "up"}]}
    assert built == [{"p1"}]


def test_a_kernel_that_cannot_be_read_is_an_error_and_not_an_empty_answer(
    client, kernel, monkeypatch
):
    def fail():
        raise AgentError("the kernel shows taprio without schedule")

    monkeypatch.setattr(kernel, "read", fail)
    with pytest.raises(sysrepo.SysrepoError, match="the kernel shows taprio without schedule"):
        client.read(INTERFACES)
    assert client.read("/tsn-linux:agent")


def test_config_change_set_to_true_once_more_disturbs_nothing(client, kernel):
    client.replace(gated("p1"))
    before = client.port("p1")[GATES]
    client.replace(gated("p1", **{"config-change": False}))
    client.replace(gated("p1"))
    assert kernel.log == ["apply p1"]
    assert client.port("p1")[GATES] == before


def test_the_agent_says_who_it_is_and_what_it_last_did(client):
    before = client.read("/tsn-linux:agent")["tsn-linux:agent"]
    assert before["pid"] > 0
    assert before["classifier"] == "iptables-nft"
    assert before["tai-offset"] == 37
    assert "last-change" not in before
    client.replace(gated("p1"), gated("p2"))
    after = client.read("/tsn-linux:agent")["tsn-linux:agent"]
    assert after["last-change"]["ports"] == 2
    assert int(after["last-change"]["duration-us"]) > 0


def kernel_says(client, name="p1"):
    return client.port(name)["tsn-linux:taprio"]["kernel"]


def state_of(gates):
    """What the agent publishes of a gate table, without what was configured."""
    return {name: value for name, value in gates.items() if not name.startswith("admin-")} | {
        "config-change": None
    }


def wait_until(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
