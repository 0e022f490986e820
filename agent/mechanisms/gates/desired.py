"""The configured tree → the gates that a port is asked to run. Pure.

The meaning of each leaf is that of IEEE 802.1Q. The gates of a port may be configured in two
places, as those of a bridge port or as those of the interface (IEEE 802.1DC: routers and end
stations). Traffic classes and what `tsn-linux` adds are under `bridge-port` for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.base_time import base_time_ns
from agent.mechanism import BRIDGE_PORT, TAPRIO, Refused, Tree
from agent.mechanisms.gates.model import (
    GateConfig,
    GateEntry,
    GateOperation,
    GateSchedule,
    GateState,
    Taprio,
    TaprioMode,
)
from agent.mechanisms.gates.openings import MAX_MTU_OCTETS
from agent.model import NS_PER_S, Clock, PortState
from agent.traffic_classes import traffic_classes

BRIDGE_GATE_TABLE = "ieee802-dot1q-sched-bridge:gate-parameter-table"
INTERFACE_GATE_TABLE = "ieee802-dot1dc-sched-if:gate-parameter-table"

OPERATIONS = {f"ieee802-dot1q-sched:{operation}": operation for operation in GateOperation}

# What a port can take: no part of what is asked of it.
LIMITS = {"supported-list-max", "supported-cycle-max", "supported-interval-max"}


def configured(interface: Tree, state: PortState | None) -> GateConfig:
    """The gates asked for; raises `Refused` for what taprio cannot do.

    `state` matters only where `gate-enabled` is true and `config-change` false: the admin values
    are a draft then, and what the kernel runs stays.
    """
    running = state[GateState].taprio if state else None
    taprio = _port_taprio(interface, interface.get(BRIDGE_PORT, {}), running)
    if taprio and state:
        taprio = replace(taprio, emulated=state.emulated)
    return GateConfig(taprio)


def as_is(state: PortState) -> GateConfig:
    return GateConfig(state[GateState].taprio)


def _port_taprio(interface: Tree, bridge_port: Tree, running: Taprio | None) -> Taprio | None:
    """What the gate tables of the port ask for, which must be one thing if there are two."""
    tables = {
        BRIDGE_GATE_TABLE: bridge_port.get(BRIDGE_GATE_TABLE, {}),
        INTERFACE_GATE_TABLE: interface.get(INTERFACE_GATE_TABLE, {}),
    }
    asking = [table for table in tables.values() if _asks_for_gates(table)]
    asked = [(_taprio(table, bridge_port, running), _is_draft(table)) for table in asking]
    if len(set(asked)) > 1:
        one, other = asking
        leaves = sorted(
            leaf
            for leaf in (one.keys() | other.keys()) - LIMITS
            if one.get(leaf) != other.get(leaf)
        )
        raise Refused(
            f"bridge-port/{BRIDGE_GATE_TABLE} and {INTERFACE_GATE_TABLE} ask for different gates "
            f"({', '.join(leaves)}); make them equal, or delete one"
        )
    return asked[0][0] if asked else None


def _asks_for_gates(table: Tree) -> bool:
    """Whether a gate table says what the gates are to do, be it as a list that is switched off.

    The published modules demand limits and a cycle of every table that is there, so a client that
    configures one of the two has to write those into the other as well.
    """
    has_list = bool(table.get("admin-control-list", {}).get("gate-control-entry"))
    return has_list or bool(table.get("gate-enabled", False))


def _is_draft(gates: Tree) -> bool:
    return bool(gates.get("gate-enabled", False)) and not gates.get("config-change", False)


def _taprio(gates: Tree, bridge_port: Tree, running: Taprio | None) -> Taprio | None:
    if not gates.get("gate-enabled", False):
        return None
    if _is_draft(gates):
        return running
    classes, own = traffic_classes(bridge_port), bridge_port.get(TAPRIO, {})
    class_count = len(classes.queues)
    _refuse_what_taprio_lacks(gates, class_count)
    return Taprio(
        priority_map=classes.priority_map,
        queues=classes.queues,
        mode=TaprioMode(own.get("mode", TaprioMode.SOFTWARE)),
        clock=Clock(own.get("clock", Clock.TAI)),
        schedule=_schedule(gates),
        max_sdu_octets=_max_sdu_octets(gates.get("queue-max-sdu-table", []), class_count),
    )


def _refuse_what_taprio_lacks(gates: Tree, class_count: int) -> None:
    """Better refused than silently not done."""
    if gates.get("admin-cycle-time-extension", 0):
        raise Refused(
            "admin-cycle-time-extension must be 0: the kernel's extension does not follow 802.1Q; "
            "choose a base time congruent to the running cycle instead"
        )
    all_open = (1 << class_count) - 1
    if gates.get("admin-gate-states", all_open) & all_open != all_open:
        raise Refused(
            "admin-gate-states must leave every gate open: taprio opens all gates until the first "
            "base time"
        )


def _max_sdu_octets(table: Sequence[Tree], class_count: int) -> tuple[int, ...]:
    limits = {row["traffic-class"]: row.get("queue-max-sdu", 0) for row in table}
    limited = sorted(traffic_class for traffic_class, octets in limits.items() if octets)
    if not limited:
        return ()
    if limited[-1] >= class_count:
        raise Refused(
            f"queue-max-sdu limits traffic class {limited[-1]}; the port has {class_count} "
            f"(0..{class_count - 1})"
        )
    if max(limits.values()) > MAX_MTU_OCTETS:
        raise Refused(
            f"queue-max-sdu {max(limits.values())} is longer than any service data unit: the "
            f"kernel takes up to {MAX_MTU_OCTETS}, and 0 for no limit"
        )
    return tuple(limits.get(traffic_class, 0) for traffic_class in range(class_count))


def _schedule(gates: Tree) -> GateSchedule:
    cycle_time_ns = _cycle_time_ns(gates.get("admin-cycle-time", {}))
    return GateSchedule(
        base_time_ns=base_time_ns(gates.get("admin-base-time", {}), cycle_time_ns),
        cycle_time_ns=cycle_time_ns,
        entries=_entries(gates.get("admin-control-list", {}).get("gate-control-entry", [])),
    )


def _cycle_time_ns(cycle: Tree) -> int:
    """802.1Q gives the cycle as a rational number of seconds; taprio counts whole nanoseconds."""
    if "numerator" not in cycle or "denominator" not in cycle:
        raise Refused("admin-cycle-time needs a numerator and a denominator (seconds)")
    numerator, denominator = cycle["numerator"], cycle["denominator"]
    cycle_ns, rest = divmod(numerator * NS_PER_S, denominator)
    if rest or not cycle_ns:
        raise Refused(
            f"admin-cycle-time {numerator}/{denominator} s is not a whole, positive number of "
            "nanoseconds"
        )
    return int(cycle_ns)


def _entries(configured: Sequence[Tree]) -> tuple[GateEntry, ...]:
    if not configured:
        raise Refused(
            "gates are enabled but admin-control-list is empty; give it entries, or set "
            "gate-enabled to false"
        )
    return tuple(_entry(entry) for entry in sorted(configured, key=lambda entry: entry["index"]))


def _entry(entry: Tree) -> GateEntry:
    where = f"gate-control-entry {entry['index']}"
    if "time-interval-value" not in entry:
        raise Refused(f"{where}: time-interval-value (ns) is missing")
    return GateEntry(
        entry["gate-states-value"],
        entry["time-interval-value"],
        OPERATIONS[entry["operation-name"]],
    )
