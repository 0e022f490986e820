"""What the agent notices reaches subscribers; what stands in the configuration's way is mended."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import replace

import pytest
import sysrepo

from agent.datastore.memory import MemoryFile
from agent.datastore.subscriptions import Datastore
from agent.events import (
    LatentError,
    LatentErrorEnded,
    PtpGrandmasterChange,
    PtpPortStateChange,
)
from agent.mechanism import Observation
from agent.mechanisms.gates.model import GateState
from agent.model import AgentError, Clock, OperStatus, PtpPortState
from agent.sysrepo.data import parse_notification
from agent.sysrepo.notifications import NotificationSubscription
from tests.stack.recording_kernel import altered, port
from tests.stack.sysrepo_client import BASE_TIME_S, BRIDGE_PORT, gated

WAIT_S = 10
SECOND_NS = 10**9


@pytest.fixture
def told(client):
    """Every notification so far, in order: (name, leaves)."""
    heard = []

    def on_notification(xml, _module, _time_ns):
        with connection.get_ly_ctx() as context:
            tree = parse_notification(context, xml)
            ((name, leaves),) = tree.print_dict(strip_prefixes=True).items()
            tree.free()
        heard.append((name, leaves))

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        NotificationSubscription(session, on_notification).add("tsn-linux")
        yield heard


@pytest.fixture
def memory_file(tmp_path):
    return MemoryFile(tmp_path / "memory.json")


@pytest.fixture
def agent(kernel, told, client, memory_file):
    with closing(Datastore(kernel, memory_file=memory_file)) as serving:
        client.replace(gated("p1"))
        kernel.log.clear()
        wait_until(lambda: told)  # that it serves
        yield serving


def wait_until(condition):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_says_that_it_serves(agent, told):
    wait_until(lambda: told == [("agent-started", {"pid": os.getpid()})])


def test_drift_is_told_once_and_left(agent, kernel, told):
    configured = kernel.states["p1"]
    kernel.changed(altered(port("p1"), dscp_priorities={46: 7}))
    wait_until(lambda: told[-1][0] == "port-drift")
    reads = kernel.reads
    kernel.notify()
    wait_until(lambda: kernel.reads > reads)
    kernel.changed(configured)
    wait_until(lambda: told[-1][0] == "port-restored")
    words = "the gate control list is gone; the root qdisc is noqueue"
    assert told[1:] == [
        ("port-drift", {"interface": "p1", "difference": words}),
        ("port-restored", {"interface": "p1"}),
    ]
    assert kernel.log == []


def test_a_netconf_client_hears_of_drift_also_after_its_server_was_restarted(
    agent, kernel, netconfd
):
    configured = kernel.states["p1"]
    for _ in range(2):
        with netconfd.connect() as session:
            session.create_subscription()
            kernel.changed(altered(port("p1"), dscp_priorities={46: 7}))
            while "port-drift" not in session.take_notification(timeout=WAIT_S).notification_xml:
                pass
            kernel.changed(configured)
            while "port-restored" not in session.take_notification(timeout=WAIT_S).notification_xml:
                pass
        netconfd.kill()
        netconfd.start()


def test_a_latent_error_is_told_with_what_came_by_each_port_and_so_is_its_end(
    agent, kernel, told, monkeypatch
):
    due = [
        (LatentError(3, 20, {"p1": 10, "p2": 0}),),
        (LatentErrorEnded(3),),
    ]
    monkeypatch.setattr(
        kernel.ports, "observe", lambda: Observation(due.pop(0), 0) if due else Observation()
    )
    wait_until(lambda: told[-1][0] == "latent-error-ended")
    ports = [{"interface": "p1", "copies": 10}, {"interface": "p2", "copies": 0}]
    assert told[1:] == [
        ("latent-error", {"sequence-recovery": 3, "difference": 20, "port": ports}),
        ("latent-error-ended", {"sequence-recovery": 3}),
    ]


def test_the_link_of_a_configured_port_is_told_with_its_speed(agent, kernel, told):
    configured = kernel.states["p1"]
    kernel.changed(replace(kernel.states["p2"], oper_status=OperStatus.DOWN))
    kernel.changed(replace(configured, link_speed_bps=100_000_000))
    wait_until(lambda: told[-1][1].get("oper-status") == "up")
    kernel.changed(replace(configured, oper_status=OperStatus.DORMANT, link_speed_bps=None))
    wait_until(lambda: told[-1][1].get("oper-status") == "dormant")
    kernel.vanished("p1")
    wait_until(lambda: told[-1][1].get("oper-status") == "not-present")
    assert told[1:] == [
        ("port-state-change", leaves)
        for leaves in (
            {"interface": "p1", "oper-status": "up", "link-speed-bps": 100_000_000},
            {"interface": "p1", "oper-status": "dormant"},
            {"interface": "p1", "oper-status": "not-present"},
        )
    ]


def test_a_clock_that_was_set_back_is_told_and_its_schedules_are_set_anew(agent, kernel, told):
    kernel.read()
    kernel.time_ns += SECOND_NS
    kernel.offsets_ns[Clock.TAI] -= SECOND_NS
    kernel.notify()
    wait_until(lambda: told[-1] == ("clock-step", {"tai-offset": 37, "step-ns": -SECOND_NS}))
    assert kernel.log == ["restart p1"]


def test_what_ptp4l_says_otherwise_than_before_is_told(agent, kernel, told, monkeypatch):
    found = [
        PtpGrandmasterChange(0, "020000.fffe.000102", "020000.fffe.000101", is_grandmaster=True),
        PtpPortStateChange(0, "p1", PtpPortState.PRE_MASTER, PtpPortState.SLAVE),
    ]
    looks = iter([Observation(tuple(found))])
    monkeypatch.setattr(kernel.ports, "observe", lambda: next(looks, Observation()))
    wait_until(lambda: len(told) == 3)
    assert told[1:] == [
        (
            "ptp-grandmaster-change",
            {
                "instance": 0,
                "grandmaster-identity": "020000.fffe.000102",
                "before": "020000.fffe.000101",
                "is-grandmaster": True,
            },
        ),
        (
            "ptp-port-state-change",
            {"instance": 0, "interface": "p1", "state": "pre-master", "before": "slave"},
        ),
    ]


def test_a_look_that_fails_is_not_the_last_one(agent, kernel, told, monkeypatch):
    failures = []

    def fail():
        failures.append(1)
        raise AgentError("the kernel shows taprio without schedule")

    with monkeypatch.context() as broken:
        broken.setattr(kernel, "read", fail)
        kernel.notify()
        wait_until(lambda: failures)
    kernel.changed(altered(kernel.states["p1"], dscp_priorities={}))
    wait_until(lambda: told[-1][0] == "port-drift")


def test_a_port_that_went_away_is_configured_when_it_comes_back(agent, kernel, client):
    kernel.vanished("p1")
    client.replace(gated("p1"), gated("p2"))
    assert kernel.states["p2"][GateState].taprio is not None
    kernel.changed(port("p1", ifindex=9))
    wait_until(lambda: kernel.states["p1"][GateState].taprio is not None)
    assert kernel.states["p2"][GateState].taprio is not None


def test_a_new_configuration_for_a_port_that_went_away_is_refused(agent, kernel, client):
    kernel.vanished("p1")
    with pytest.raises(sysrepo.SysrepoError, match="port p1: no such interface"):
        client.replace(gated("p1", base_time_s=BASE_TIME_S + 1))


def test_ports_that_can_do_what_is_configured_do_it_at_the_start(client, kernel, caplog):
    impossible = gated("p2", **{"admin-cycle-time-extension": 5})
    client.replace(gated("p1"), impossible)
    with closing(Datastore(kernel)):
        assert "port p2: admin-cycle-time-extension must be 0" in caplog.text
        assert kernel.states["p1"][GateState].taprio is not None
        assert BRIDGE_PORT in client.interface("p2")
