"""What the ports do → the operational tree. Pure: the kernel was read once, before.

The dictionaries are RFC 7951 JSON (64-bit integers are strings there); leaves are those of IEEE
802.1Q (`gate-parameter-table`), RFC 8343 and `tsn-linux`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from agent.datastore.desired import (
    BRIDGE_GATE_TABLE,
    BRIDGE_PORT,
    INTERFACE_GATE_TABLE,
    NS_PER_S,
    TAPRIO,
)
from agent.datastore.history import GateHistory, LastChange
from agent.lldp import Identifier, Lldp, Neighbor
from agent.model import (
    ClassCounters,
    Clock,
    GateLimits,
    PortState,
    PtpStatus,
    Schedule,
    Taprio,
)

Node = dict[str, Any]

ALL_GATES_OPEN = 0xFF

# RFC 8343: counter32; the other counters of an interface are counter64.
SHORT_COUNTERS = {
    "in-discards",
    "in-errors",
    "in-unknown-protos",
    "out-discards",
    "out-errors",
}
COUNTER32_SIZE = 2**32  # where they start again from 0


def interfaces(
    states: Mapping[str, PortState],
    history: Mapping[str, GateHistory],
    now_ns: Callable[[Clock], int],
    *,
    started: datetime,
    on_interfaces: bool,
) -> Node:
    """`/ietf-interfaces:interfaces` with these ports of the switch, configured or not.

    `started` is when the agent began to count for others; `on_interfaces`: the module that has the
    gate table directly under the interface is installed, too.
    """
    return {
        "ietf-interfaces:interfaces": {
            "interface": [
                _interface(state, history.get(name), now_ns, started, on_interfaces)
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
    gates_refused: str | None,
    tai_offset_s: int,
    ptp: PtpStatus | None,
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
    if gates_refused:
        node["gates-refused"] = gates_refused
    if ptp:
        node["ptp"] = _ptp(ptp)
    if last_change:
        node["last-change"] = {
            "time": _date_and_time(last_change.time),
            "duration-us": str(last_change.duration_us),
            "ports": last_change.ports,
        }
    return {"tsn-linux:agent": node}


def lldp(found: Lldp | None) -> Node:
    """`/tsn-linux:lldp`; nothing where no LLDP daemon answers."""
    if found is None:
        return {}
    node: Node = _identified("chassis-id", found.chassis_id)
    if found.system_name:
        node["system-name"] = found.system_name
    at_port: Counter[str] = Counter()
    node["neighbor"] = []
    for neighbor in found.neighbors:
        index = at_port[neighbor.interface]
        at_port[neighbor.interface] += 1
        node["neighbor"].append(_neighbor(neighbor, index))
    return {"tsn-linux:lldp": node}


def _neighbor(neighbor: Neighbor, index: int) -> Node:
    said: Node = {
        **_identified("chassis-id", neighbor.chassis_id),
        **_identified("port-id", neighbor.port_id),
        "port-desc": neighbor.port_description,
        "system-name": neighbor.system_name,
        "management-address": list(neighbor.management_addresses),
        "system-capabilities-enabled": " ".join(neighbor.capabilities),
    }
    return {
        "interface": neighbor.interface,
        "index": index,
        **{name: value for name, value in said.items() if value},
    }


def _identified(leaf: str, identifier: Identifier | None) -> Node:
    if identifier is None:
        return {}
    node: Node = {leaf: identifier.text}
    if identifier.subtype:
        node[f"{leaf}-subtype"] = identifier.subtype
    return node


def _interface(
    state: PortState,
    history: GateHistory | None,
    now_ns: Callable[[Clock], int],
    started: datetime,
    on_interfaces: bool,
) -> Node:
    gate_table = _gate_table(
        state, history if history and history.describes(state) else None, now_ns
    )
    node: Node = {
        "name": state.name,
        "type": "iana-if-type:ethernetCsmacd",
        "oper-status": str(state.oper_status),
        BRIDGE_PORT: {BRIDGE_GATE_TABLE: gate_table, TAPRIO: {"kernel": _kernel(state)}},
    }
    if on_interfaces:
        node[INTERFACE_GATE_TABLE] = gate_table
    if state.mac_address is not None:
        node["phys-address"] = state.mac_address
    if state.link_speed_bps is not None:
        node["speed"] = str(state.link_speed_bps)
    if state.statistics:
        node["statistics"] = {
            # The kernel does not tell; RFC 8343 then wants the start of the management system.
            "discontinuity-time": _date_and_time(started),
            **{name: _counter(name, count) for name, count in state.statistics.items()},
        }
    return node


def _counter(name: str, count: int) -> int | str:
    return count % COUNTER32_SIZE if name in SHORT_COUNTERS else str(count)


def _gate_table(
    state: PortState, history: GateHistory | None, now_ns: Callable[[Clock], int]
) -> Node:
    running = state.running
    port_ns = now_ns(state.taprio.clock if state.taprio else Clock.TAI)
    waits = history is not None and state.taprio is not None and history.change_time_ns > port_ns
    node: Node = {
        "oper-gate-states": gate_states(running, port_ns) if running else ALL_GATES_OPEN,
        "config-pending": state.pending is not None or waits,
        "config-change-error": str(history.change_errors if history else 0),
        # The leaf is a PTP time whatever clock the list runs on: who chooses a base time reads it.
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
    """What the port can take; what neither kernel nor driver tell is left out.

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


def _max_sdu_table(taprio: Taprio, state: PortState) -> list[Node]:
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
        "mac-merge": state.has_mac_merge,
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
    if state.driver is not None:
        node["driver"] = state.driver
    if state.bridge is not None:
        node["bridge"] = state.bridge
    if state.link_speed_bps is not None:
        node["link-speed-bps"] = str(state.link_speed_bps)
    if state.taprio:
        node |= _taprio(state.taprio)
    if state.counters:
        node["class-statistics"] = [
            _class_statistics(traffic_class, counters)
            for traffic_class, counters in enumerate(state.counters)
        ]
    return node


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


def _schedule(state: str, schedule: Schedule) -> Node:
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


def _ptp(ptp: PtpStatus) -> Node:
    node: Node = {
        "grandmaster-identity": ptp.grandmaster_identity,
        "is-grandmaster": ptp.is_grandmaster,
        "port": [
            {"number": number, "state": str(state)} for number, state in sorted(ptp.ports.items())
        ],
    }
    if ptp.offset_from_master_ns is not None:
        node["offset-from-master-ns"] = str(ptp.offset_from_master_ns)
    return node


def _ptp_time(time_ns: int) -> Node:
    seconds, nanoseconds = divmod(time_ns, NS_PER_S)
    return {"seconds": str(seconds), "nanoseconds": nanoseconds}


def _seconds(duration_ns: int) -> Node:
    """A rational number of seconds whose parts fit 32 bits (a cycle is at most 2.1 s)."""
    return {"numerator": duration_ns, "denominator": NS_PER_S}


def _date_and_time(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")
