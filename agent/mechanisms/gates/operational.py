"""What the gates of a port do → the operational nodes. Pure: the kernel was read before.

The dictionaries are RFC 7951 JSON (64-bit integers are strings there); leaves are those of IEEE
802.1Q (`gate-parameter-table`) and `tsn-linux`.
"""

from __future__ import annotations

from collections.abc import Callable

from agent.mechanism import BRIDGE_PORT, TAPRIO, Node, ReportContext
from agent.mechanisms.gates.desired import BRIDGE_GATE_TABLE, INTERFACE_GATE_TABLE
from agent.mechanisms.gates.hardware import software_gates_refused
from agent.mechanisms.gates.history import GateHistory
from agent.mechanisms.gates.model import (
    ClassCounters,
    GateLimits,
    GateSchedule,
    GateState,
    Taprio,
    TaprioMode,
)
from agent.model import NS_PER_S, Clock, PortState
from agent.wake_ups import WakeUps

ALL_GATES_OPEN = 0xFF


def operational(state: PortState, context: ReportContext) -> Node:
    """The gate tables, and what `tsn-linux` shows of taprio; `context.memory` is a GateHistory."""
    gates, history = state[GateState], context.memory
    described = history if history and history.describes(gates) else None
    gate_table = _gate_table(gates, described, context.now_ns)
    node: Node = {
        BRIDGE_PORT: {BRIDGE_GATE_TABLE: gate_table, TAPRIO: {"kernel": _kernel(gates, context)}}
    }
    if refused := software_gates_refused(state, gates.hardware_peers):
        node[BRIDGE_PORT][TAPRIO]["kernel"]["software-gates-refused"] = refused
    if context.on_interfaces:
        node[INTERFACE_GATE_TABLE] = gate_table
    return node


def _kernel(gates: GateState, context: ReportContext) -> Node:
    node: Node = {
        "schedule": [
            _schedule(name, schedule)
            for name, schedule in (("running", gates.running), ("pending", gates.pending))
            if schedule
        ],
    }
    if gates.taprio:
        node |= _taprio(gates.taprio)
    if gates.counters:
        node["class-statistics"] = [
            _class_statistics(traffic_class, counters)
            for traffic_class, counters in enumerate(gates.counters)
        ]
    mode = gates.taprio.mode if gates.taprio else TaprioMode.SOFTWARE
    if mode is TaprioMode.SOFTWARE:  # no timer of the kernel opens others
        if context.wake_ups:
            node["gate-wake-ups"] = _gate_wake_ups(mode, context.wake_ups)
        if frames := gates.transmit_quota_frames:
            node["transmit-quota"] = frames
    return node


def _gate_wake_ups(mode: TaprioMode, wake_ups: WakeUps) -> Node:
    node: Node = {
        "mode": str(mode),
        "count": str(wake_ups.count),
        "maximum-ns": str(wake_ups.maximum_ns),
    }
    if wake_ups.quantile_ns is not None:
        node["quantile-ns"] = str(wake_ups.quantile_ns)
    return node


def _gate_table(
    state: GateState, history: GateHistory | None, now_ns: Callable[[Clock], int]
) -> Node:
    running = state.running
    port_ns = now_ns(state.taprio.clock if state.taprio else Clock.TAI)
    waits = history is not None and state.taprio is not None and history.change_time_ns > port_ns
    node: Node = {
        # In both tables, also where only the other one is configured, and while a configured list
        # is a draft or its qdisc is gone: the state is the port's (RFC 8342, section 5.3).
        "gate-enabled": state.taprio is not None,
        "oper-gate-states": gate_states(running, port_ns) if running else ALL_GATES_OPEN,
        "config-pending": state.pending is not None or waits,
        "config-change-error": str(history.change_errors if history else 0),
        # A PTP time whatever clock the schedule runs on: base times are chosen by it.
        "current-time": _ptp_time(now_ns(Clock.TAI)),
        **_limits(state.limits),
    }
    if state.taprio:
        node["queue-max-sdu-table"] = _max_sdu_table(state.taprio, state)
        # Without a history the kernel remembers only the base time.
        newest = state.taprio.schedule
        changed_ns = history.change_time_ns if history else newest.base_time_ns
        node["config-change-time"] = _ptp_time(changed_ns)
    if running:
        base_time_ns = running.base_time_ns
        if history and history.schedule and not state.pending and not waits:
            # The same gates as the kernel's, from the base time that was asked for last.
            base_time_ns = history.schedule.base_time_ns
        node |= {
            "oper-control-list": {
                "gate-control-entry": [
                    {
                        "index": index,
                        "operation-name": f"ieee802-dot1q-sched:{entry.operation}",
                        "time-interval-value": entry.interval_ns,
                        "gate-states-value": entry.gate_states,
                    }
                    for index, entry in enumerate(running.entries)
                ]
            },
            "oper-cycle-time": _seconds(running.cycle_time_ns),
            "oper-cycle-time-extension": 0,
            "oper-base-time": _ptp_time(base_time_ns),
        }
    return node


def _limits(limits: GateLimits) -> Node:
    """What the port can take; what neither reports is left out.

    The standard lets an operator configure the maxima too. That only feeds the conditions of the
    schema: here the port's own replace what was configured.
    """
    leaves: Node = {
        "tick-granularity": limits.tick_tenth_ns,
        "supported-list-max": limits.list_max,
        "supported-cycle-max": limits.cycle_max_ns and _seconds(limits.cycle_max_ns),
        "supported-interval-max": limits.interval_max_ns,
    }
    return {name: value for name, value in leaves.items() if value is not None}


def _max_sdu_table(taprio: Taprio, state: GateState) -> list[Node]:
    rows: list[Node] = []
    for traffic_class in range(len(taprio.queues)):
        octets = taprio.max_sdu_octets[traffic_class] if taprio.max_sdu_octets else 0
        row: Node = {"traffic-class": traffic_class, "queue-max-sdu": octets}
        if traffic_class < len(state.counters):
            overruns = state.counters[traffic_class].tx_overruns
            if overruns is not None:
                row["transmission-overrun"] = str(overruns)
        rows.append(row)
    return rows


def gate_states(running: GateSchedule, now_ns: int) -> int:
    """The gates at this instant: those of the entry the cycle is in."""
    phase_ns = (now_ns - running.base_time_ns) % running.cycle_time_ns
    for entry in running.entries:
        phase_ns -= entry.interval_ns
        if phase_ns < 0:
            return entry.gate_states
    # 802.1Q 8.6.9.2: the last entry's states stay until the cycle ends.
    return running.entries[-1].gate_states


def _class_statistics(traffic_class: int, counters: ClassCounters) -> Node:
    node: Node = {
        "traffic-class": traffic_class,
        "frames": str(counters.frames),
        "octets": str(counters.octets),
        "drops": str(counters.drops),
        "backlog-frames": str(counters.backlog_frames),
    }
    if counters.window_drops is not None:
        node["window-drops"] = str(counters.window_drops)
    return node


def _taprio(taprio: Taprio) -> Node:
    return {
        "mode": str(taprio.mode),
        "clock": str(taprio.clock),
        "traffic-classes": len(taprio.queues),
        "priority-map": [
            {"priority": priority, "traffic-class": traffic_class}
            for priority, traffic_class in enumerate(taprio.priority_map)
        ],
        "queue": [
            {"traffic-class": traffic_class, "count": queues.count, "offset": queues.offset}
            for traffic_class, queues in enumerate(taprio.queues)
        ],
        "max-sdu": [
            {"traffic-class": traffic_class, "octets": octets}
            for traffic_class, octets in enumerate(taprio.max_sdu_octets)
            if octets
        ],
    }


def _schedule(state: str, schedule: GateSchedule) -> Node:
    return {
        "state": state,
        "base-time-ns": str(schedule.base_time_ns),
        "cycle-time-ns": str(schedule.cycle_time_ns),
        "entry": [
            {
                "index": index,
                "operation": str(entry.operation),
                "gate-states": entry.gate_states,
                "interval-ns": entry.interval_ns,
            }
            for index, entry in enumerate(schedule.entries)
        ],
    }


def _ptp_time(time_ns: int) -> Node:
    seconds, nanoseconds = divmod(time_ns, NS_PER_S)
    return {"seconds": str(seconds), "nanoseconds": nanoseconds}


def _seconds(duration_ns: int) -> Node:
    """A rational number of seconds whose parts fit 32 bits (a cycle is at most 2.1 s)."""
    return {"numerator": duration_ns, "denominator": NS_PER_S}
