"""What the ports do → the operational tree. Pure: the kernel was read once, before.

The dictionaries are what libyang's bindings turn into data nodes; leaves are those of IEEE 802.1Q
(`gate-parameter-table`), RFC 8343 and `tsn-linux`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from agent.datastore.changes import GateHistory, LastChange
from agent.datastore.desired import (
    BRIDGE_PORT,
    GATE_TABLE,
    NS_PER_S,
    SET_GATE_STATES,
    SUPPORTED_LIST_MAX,
    TAPRIO,
)
from agent.model import Clock, PortState, Schedule, Taprio

Node = dict[str, Any]

ALL_GATES_OPEN = 0xFF
# sch_taprio's gates move on an hrtimer: 1 ns, in the tenths of a nanosecond 802.1Q counts in.
TICK_GRANULARITY_TENTH_NS = 10
# sch_taprio refuses a cycle longer than INT_MAX; an interval is a part of it.
SUPPORTED_CYCLE_MAX_NS = 2**31 - 1


def interfaces(
    states: Mapping[str, PortState],
    history: Mapping[str, GateHistory],
    now_ns: Callable[[Clock], int],
) -> Node:
    """`/ietf-interfaces:interfaces` with every port of the switch, configured or not."""
    return {
        "interfaces": {
            "interface": [
                _interface(state, history.get(name), now_ns)
                for name, state in sorted(states.items())
            ]
        }
    }


def agent(
    *,
    version: str,
    pid: int,
    started: datetime,
    kernel_release: str,
    classifier: str,
    tai_offset_s: int,
    last_change: LastChange | None,
) -> Node:
    """`/tsn-linux:agent`."""
    node: Node = {
        "version": version,
        "pid": pid,
        "started": _date_and_time(started),
        "kernel-release": kernel_release,
        "classifier": classifier,
        "tai-offset": tai_offset_s,
    }
    if last_change:
        node["last-change"] = {
            "time": _date_and_time(last_change.time),
            "duration-us": last_change.duration_us,
            "ports": last_change.ports,
        }
    return {"agent": node}


def _interface(
    state: PortState, history: GateHistory | None, now_ns: Callable[[Clock], int]
) -> Node:
    now = now_ns(state.taprio.clock if state.taprio else Clock.TAI)
    node: Node = {
        "name": state.name,
        "type": "iana-if-type:ethernetCsmacd",
        BRIDGE_PORT: {
            GATE_TABLE: _gate_table(state.running, state.pending, history, now),
            TAPRIO: {"kernel": _kernel(state)},
        },
    }
    if state.link_speed_bps is not None:
        node["speed"] = state.link_speed_bps
    return node


def _gate_table(
    running: Schedule | None, pending: Schedule | None, history: GateHistory | None, now_ns: int
) -> Node:
    node: Node = {
        "oper-gate-states": gate_states(running, now_ns) if running else ALL_GATES_OPEN,
        "config-pending": pending is not None,
        "config-change-error": history.change_errors if history else 0,
        "current-time": _ptp_time(now_ns),
        "tick-granularity": TICK_GRANULARITY_TENTH_NS,
        "supported-list-max": SUPPORTED_LIST_MAX,
        "supported-cycle-max": _seconds(SUPPORTED_CYCLE_MAX_NS),
        "supported-interval-max": SUPPORTED_CYCLE_MAX_NS,
    }
    newest = pending or running
    if newest:
        # A restarted agent did not see the change: the kernel remembers only the base time.
        changed_ns = history.change_time_ns if history else newest.base_time_ns
        node["config-change-time"] = _ptp_time(changed_ns)
    if running:
        node |= {
            "oper-control-list": {
                "gate-control-entry": [
                    {
                        "index": index,
                        "operation-name": SET_GATE_STATES,
                        "time-interval-value": entry.interval_ns,
                        "gate-states-value": entry.gate_states,
                    }
                    for index, entry in enumerate(running.entries)
                ]
            },
            "oper-cycle-time": _seconds(running.cycle_time_ns),
            "oper-cycle-time-extension": 0,
            "oper-base-time": _ptp_time(running.base_time_ns),
        }
    return node


def gate_states(running: Schedule, now_ns: int) -> int:
    """The gates at this instant: those of the entry the cycle is in."""
    phase_ns = (now_ns - running.base_time_ns) % running.cycle_time_ns
    for entry in running.entries:
        phase_ns -= entry.interval_ns
        if phase_ns < 0:
            return entry.gate_states
    # 802.1Q 8.6.9.2: the last entry's states stay until the cycle ends.
    return running.entries[-1].gate_states


def _kernel(state: PortState) -> Node:
    foreign = state.foreign_qdisc
    node: Node = {
        "tx-queues": state.tx_queues,
        "root-qdisc": f"foreign: {foreign}" if foreign else state.root_qdisc,
        "dscp-rule": [
            {"dscp": dscp, "priority": priority}
            for dscp, priority in sorted(state.dscp_priorities.items())
        ],
        "schedule": [
            _schedule(name, schedule)
            for name, schedule in (("running", state.running), ("pending", state.pending))
            if schedule
        ],
    }
    if state.link_speed_bps is not None:
        node["link-speed-bps"] = state.link_speed_bps
    if state.taprio:
        node |= _fixed_part(state.taprio)
    return node


def _fixed_part(taprio: Taprio) -> Node:
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
    }


def _schedule(state: str, schedule: Schedule) -> Node:
    return {
        "state": state,
        "base-time-ns": schedule.base_time_ns,
        "cycle-time-ns": schedule.cycle_time_ns,
        "entry": [
            {"index": index, "gate-states": entry.gate_states, "interval-ns": entry.interval_ns}
            for index, entry in enumerate(schedule.entries)
        ],
    }


def _ptp_time(time_ns: int) -> Node:
    seconds, nanoseconds = divmod(time_ns, NS_PER_S)
    return {"seconds": seconds, "nanoseconds": nanoseconds}


def _seconds(duration_ns: int) -> Node:
    """A rational number of seconds whose parts fit 32 bits (a cycle is at most 2.1 s)."""
    return {"numerator": duration_ns, "denominator": NS_PER_S}


def _date_and_time(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")
