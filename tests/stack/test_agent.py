"""The agent on a real sysrepo: what a client writes reaches the ports and can be read back."""

from __future__ import annotations

import time

import pytest
import sysrepo

from agent.datastore.desired import SUPPORTED_LIST_MAX
from agent.datastore.subscriptions import Datastore
from agent.model import Clock, GateEntry, QueueRange, Schedule, TaprioMode
from tests.stack.sysrepo_client import (
    BASE_TIME_S,
    GATES,
    HALF_AND_HALF,
    INTERFACES,
    NOW_NS,
    entry,
    gated,
)

SETTLE_TIMEOUT_S = 0.3

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture
def agent(kernel, client):
    serving = Datastore(kernel, settle_timeout_s=SETTLE_TIMEOUT_S)
    yield serving
    serving.close()


def test_a_gate_control_list_reaches_its_port(client, kernel):
    client.replace(gated("p1"))
    taprio = kernel.ports["p1"].taprio
    assert taprio.schedule == Schedule(
        BASE_TIME_S * 10**9, 1_000_000, (GateEntry(2, 500_000), GateEntry(1, 500_000))
    )
    assert taprio.queues == (QueueRange(1, 0), QueueRange(1, 1))
    assert (taprio.mode, taprio.clock) == (TaprioMode.SOFTWARE, Clock.TAI)
    assert kernel.ports["p1"].dscp_priorities == {46: 7}
    assert kernel.log == ["apply p1"]


def test_removing_the_configuration_removes_the_gates(client, kernel):
    client.replace(gated("p1"), gated("p2"))
    client.replace(gated("p2"))
    assert kernel.ports["p1"].taprio is None
    assert kernel.ports["p2"].taprio is not None


def test_the_longest_list_arrives_complete_and_in_order(client, kernel):
    entries = [entry(i, i % 4, 1000) for i in range(SUPPORTED_LIST_MAX)]
    client.replace(gated("p1", reversed(entries)))
    assert kernel.ports["p1"].taprio.schedule.entries == tuple(
        GateEntry(i % 4, 1000) for i in range(SUPPORTED_LIST_MAX)
    )


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
            raise sysrepo.SysrepoValidationFailedError("not on my watch")

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.subscribe_module_change_unsafe("ietf-interfaces", INTERFACES, refuse)
        with pytest.raises(sysrepo.SysrepoError, match="not on my watch"):
            client.replace(gated("p1"))
    # By abort, or by the timer: sysrepo sends none to a subscriber that answers after the refusal.
    wait_until(lambda: kernel.log == ["apply p1", "undo p1"])
    assert kernel.ports["p1"].taprio is None


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
    assert client.interface("p2")["type"] == "iana-if-type:ethernetCsmacd"
    assert client.port("p2")["tsn-linux:taprio"]["kernel"] == {
        "tx-queues": 8,
        "link-speed-bps": "1000000000",
        "root-qdisc": "mq",
    }


def test_the_running_schedule_is_published(client):
    client.replace(gated("p1"))
    gates = client.port("p1")[GATES]
    assert {name: gates[name] for name in gates if name.startswith("oper-")} == {
        "oper-gate-states": 0b10,
        "oper-control-list": {"gate-control-entry": list(HALF_AND_HALF)},
        "oper-cycle-time": {"numerator": 1_000_000, "denominator": 10**9},
        "oper-cycle-time-extension": 0,
        "oper-base-time": {"seconds": str(BASE_TIME_S), "nanoseconds": 0},
    }
    assert gates["config-pending"] is False
    assert gates["current-time"] == {"seconds": str(NOW_NS // 10**9), "nanoseconds": 250_000}
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


def test_a_schedule_that_waits_for_its_base_time_is_pending(client):
    ahead_s = NOW_NS // 10**9 + 5
    client.replace(gated("p1"))
    client.replace(gated("p1", reversed(HALF_AND_HALF), base_time_s=ahead_s))
    gates = client.port("p1")[GATES]
    assert gates["config-pending"] is True
    assert gates["config-change-time"] == {"seconds": str(ahead_s), "nanoseconds": 0}
    assert gates["oper-base-time"]["seconds"] == str(BASE_TIME_S)
    schedules = client.port("p1")["tsn-linux:taprio"]["kernel"]["schedule"]
    assert [(s["state"], s["base-time-ns"]) for s in schedules] == [
        ("running", str(BASE_TIME_S * 10**9)),
        ("pending", str(ahead_s * 10**9)),
    ]


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
    kernel_says = client.port("p1")["tsn-linux:taprio"]["kernel"]
    assert kernel_says["root-qdisc"] == "taprio"
    assert kernel_says["traffic-classes"] == 2
    assert [row["traffic-class"] for row in kernel_says["priority-map"]] == [
        *(0, 0, 0, 0, 1, 1, 1, 1),
        *[0] * 8,
    ]
    assert kernel_says["queue"] == [
        {"traffic-class": 0, "count": 1, "offset": 0},
        {"traffic-class": 1, "count": 1, "offset": 1},
    ]
    assert kernel_says["schedule"][0]["entry"] == [
        {"index": 0, "gate-states": 2, "interval-ns": 500_000},
        {"index": 1, "gate-states": 1, "interval-ns": 500_000},
    ]
    assert kernel_says["dscp-rule"] == [{"dscp": 46, "priority": 7}]


def test_the_limits_of_the_kernel_are_advertised(client):
    gates = client.port("p1")[GATES]
    assert gates["tick-granularity"] == 10
    assert gates["supported-cycle-max"] == {"numerator": 2**31 - 1, "denominator": 10**9}
    assert gates["supported-interval-max"] == 2**31 - 1
    assert gates["supported-list-max"] == SUPPORTED_LIST_MAX


def test_one_request_reads_the_kernel_once(client, kernel):
    client.replace(gated("p1"), gated("p2"))
    kernel.reads = 0
    client.read(INTERFACES)
    assert kernel.reads == 1


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


def wait_until(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
