"""A network of three switches that run its plan, as a watch sees them; and what may differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cnc import intent as intents
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import TSN_LINUX, AgentReport, GatesReport, KernelSchedule
from cnc.model import NS_PER_S, GateLimits, gated_port
from cnc.planner import plan as compute
from cnc.switch.device import StoredSwitch
from cnc.switch.subscription import Notification
from cnc.watch.observation import Poll, SwitchNotification, Unreachable
from tests.unit.asked import desired_ports
from tests.unit.places import port_report, stored_gates

PLAN = compute(intents.load(Path(__file__).parents[2] / "schedules" / "line3.yaml"))
START = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
AGENT = AgentReport(tai_offset_s=37, last_change_us=100)
TAI_NS = 1_800_000_000 * NS_PER_S


def poll(
    switch,
    after_s=0.0,
    *,
    agent=AGENT,
    clock_ahead_ns=0,
    ports=lambda reports: reports,
    stored=lambda configurations: configurations,
    rollout_id=None,
    counters=None,
):
    """A switch that runs the plan, asked `after_s` after the start.

    `ports` and `stored` make what is reported and configured into something else.
    """
    now_ns = round(after_s * NS_PER_S)
    desired = {port: gated_port(its) for port, its in desired_ports(PLAN, switch).items()}
    reports = {
        port: report(configuration, TAI_NS + now_ns + clock_ahead_ns)
        for port, configuration in desired.items()
    }
    configured = {
        port: stored_gates(configuration, 0)
        for port, configuration in desired.items()
        if configuration
    }
    return Poll(
        switch=switch,
        at=START + timedelta(seconds=after_s),
        state=SwitchState(agent, ports(reports) if agent else {}, now_ns, now_ns),
        stored=StoredSwitch(stored(configured), rollout_id),
        counters=counters or {},
    )


def report(configuration, clock_ns=TAI_NS):
    """What the kernel of a port says that runs `configuration`."""
    return port_report(
        root_qdisc="taprio" if configuration else "noqueue",
        mode=configuration.mode if configuration else None,
        clock="tai" if configuration else None,
        running=KernelSchedule(0, configuration.gates) if configuration else None,
        pending=None,
        priority_map=configuration.priority_map if configuration else (0,) * 8,
        number_of_classes=configuration.number_of_classes if configuration else 0,
        dscp_priorities=configuration.dscp_priorities if configuration else {},
        current_time_ns=clock_ns,
        limits=GateLimits(),
        oper_status="up",
    )


def bare(reports, port):
    """The same reports, but the port lost its queueing discipline."""
    lost = port_report(current_time_ns=reports[port][GatesReport].current_time_ns, oper_status="up")
    return {**reports, port: lost}


def unreachable(switch, reason="no answer", after_s=0.0):
    return Unreachable(switch, START + timedelta(seconds=after_s), f"{switch}: {reason}")


def received(switch, name, namespace=TSN_LINUX, after_s=0.0, **leaves):
    told = Notification(namespace, name, {k.replace("_", "-"): v for k, v in leaves.items()})
    return SwitchNotification(switch, START + timedelta(seconds=after_s), told)
