"""From a plan to the configuration of each node: values first, then the NETCONF `<config>`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from lxml import etree
from lxml.builder import ElementMaker

from cnc.model import (
    NS_PER_S,
    ClassRole,
    GateControlList,
    Plan,
    PortConfiguration,
    PortSettings,
    StoredPort,
    TalkerConfiguration,
)
from cnc.switch.end_station import talker_element, talker_ports
from cnc.switch.rollout_id import RolloutId, rollout_id_element
from cnc.switch.tree import (
    BRIDGE,
    IF_TYPE,
    INTERFACES,
    NETCONF,
    PRIORITIES,
    SCHED,
    SCHED_BRIDGE,
    TSN_LINUX,
)

Element = etree._Element  # noqa: SLF001  lxml has no public name for it

_NC = ElementMaker(namespace=NETCONF, nsmap={"nc": NETCONF})
_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES, "ianaift": IF_TYPE})
_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_GATES = ElementMaker(namespace=SCHED_BRIDGE, nsmap={None: SCHED_BRIDGE, "sched": SCHED})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})

_OPERATION = f"{{{NETCONF}}}operation"
_REPLACE = {_OPERATION: "replace"}
_REMOVE = {_OPERATION: "remove"}


def desired_ports(plan: Plan, node: str) -> dict[str, PortSettings | None]:
    """The desired configuration of every cabled port of a switch or an end station; None where the
    plan has no gates for a switch's port."""
    if node in plan.intent.network.end_stations:
        return dict(talker_ports(plan, node))
    classes = plan.intent.classes.values()
    fallback = plan.intent.classes_with(ClassRole.BEST_EFFORT)[0].number
    by_priority = {c.priority: c.number for c in classes}
    priority_map = tuple(by_priority.get(p, fallback) for p in range(PRIORITIES))
    dscp_priorities = {dscp: c.priority for c in classes for dscp in c.dscps}
    return {
        egress.port: PortConfiguration(
            number_of_classes=1 + max(c.number for c in classes),
            priority_map=priority_map,
            mode=plan.intent.network.bridges[node].gate_mode,
            gates=plan.gates[egress],
            dscp_priorities=dscp_priorities,
        )
        if egress in plan.gates
        else None
        for egress in plan.intent.network.links
        if egress.node == node
    }


def edit_config(
    changes: Mapping[str, PortSettings | None],
    base_time_ns: int,
    stored: Mapping[str, StoredPort | None],
    rollout_id: RolloutId,
) -> Element:
    """The `<config>` that sets the ports in `changes`, and the id of the rollout.

    Nothing else changes: a port's other bridge settings, and other ports, keep their values.
    """
    return _NC(
        "config",
        _IF(
            "interfaces",
            *(
                _interface(name, desired, base_time_ns, stored.get(name))
                for name, desired in sorted(changes.items())
            ),
        ),
        rollout_id_element(rollout_id),
    )


def _interface(
    name: str, desired: PortSettings | None, base_time_ns: int, stored: StoredPort | None
) -> Element:
    if isinstance(desired, TalkerConfiguration):
        port = talker_element(desired, base_time_ns)
    else:
        port = _bridge_port(desired, base_time_ns, stored)
    return _IF("interface", _IF("name", name), _IF("type", "ianaift:ethernetCsmacd"), port)


def _bridge_port(
    desired: PortConfiguration | None, base_time_ns: int, stored: StoredPort | None
) -> Element:
    obsolete = set(stored.dscps) if stored else set()
    if desired is None:
        port = _BRIDGE(
            "bridge-port", _GATES("gate-parameter-table", _REMOVE), _TSNL("taprio", _REMOVE)
        )
    else:
        obsolete -= desired.dscp_priorities.keys()
        port = _BRIDGE(
            "bridge-port",
            _traffic_classes(desired),
            _gate_table(desired.gates, base_time_ns),
            _TSNL("taprio", _REPLACE, _TSNL("mode", desired.mode)),
            *(
                _TSNL("dscp-rule", _TSNL("dscp", str(dscp)), _TSNL("priority", str(priority)))
                for dscp, priority in sorted(desired.dscp_priorities.items())
            ),
        )
    for dscp in sorted(obsolete):
        port.append(_TSNL("dscp-rule", _REMOVE, _TSNL("dscp", str(dscp))))
    return port


def _traffic_classes(desired: PortConfiguration) -> Element:
    return _BRIDGE(
        "traffic-class",
        _BRIDGE(
            "traffic-class-table",
            _REPLACE,
            _BRIDGE("number-of-traffic-classes", str(desired.number_of_classes)),
            *(
                _BRIDGE(f"priority{priority}", str(number))
                for priority, number in enumerate(desired.priority_map)
            ),
        ),
    )


def _gate_table(gates: GateControlList, base_time_ns: int) -> Element:
    # The standard's cycle time is a fraction of a second whose parts are 32 bits wide.
    cycle_s = Fraction(gates.cycle_ns, NS_PER_S)
    return _GATES(
        "gate-parameter-table",
        _REPLACE,
        _GATES("gate-enabled", "true"),
        _GATES(
            "admin-control-list",
            *(
                _GATES(
                    "gate-control-entry",
                    _GATES("index", str(index)),
                    _GATES("operation-name", "sched:set-gate-states"),
                    _GATES("time-interval-value", str(entry.interval_ns)),
                    _GATES("gate-states-value", str(entry.gate_states)),
                )
                for index, entry in enumerate(gates.entries)
            ),
        ),
        _GATES(
            "admin-cycle-time",
            _GATES("numerator", str(cycle_s.numerator)),
            _GATES("denominator", str(cycle_s.denominator)),
        ),
        _GATES(
            "admin-base-time",
            _GATES("seconds", str(base_time_ns // NS_PER_S)),
            _GATES("nanoseconds", str(base_time_ns % NS_PER_S)),
        ),
        _GATES("config-change", "true"),
    )
