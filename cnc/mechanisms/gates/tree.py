"""The gates of ports in the YANG tree: gate control lists (`ieee802-dot1q-sched-bridge`), traffic
classes of a bridge port, and the rules by which frames get a priority for their DSCP.

A leaf that the standard lets a server leave out may be missing. The absence of a mandatory node, or
a value that it cannot have, raises ValueError with the node's name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.hardware import HardwareReport, Offload
from cnc.data_tree.list_times import first_start_ns, gate_entries, list_times
from cnc.data_tree.reply import Element, Reply, Row
from cnc.data_tree.tree import (
    BRIDGE,
    INTERFACES,
    NETCONF,
    PRIORITIES,
    SCHED,
    SCHED_BRIDGE,
    SCHED_INTERFACE,
    TSN_LINUX,
    ClassTraffic,
    GatesReport,
    KernelSchedule,
)
from cnc.data_tree.wake_ups import wake_ups
from cnc.mechanism import PlaceEdit
from cnc.mechanisms.gates.extras import kernel_extras, stored_extras
from cnc.model import (
    NOTHING_STORED,
    NS_PER_S,
    GateControlList,
    GateEntry,
    GateLimits,
    GateMode,
    PortConfiguration,
    PortGates,
    StoredGates,
)

_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_GATES = ElementMaker(namespace=SCHED_BRIDGE, nsmap={None: SCHED_BRIDGE, "sched": SCHED})
_INTERFACE_GATES = ElementMaker(namespace=SCHED_INTERFACE, nsmap={None: SCHED_INTERFACE})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_OPERATION = f"{{{NETCONF}}}operation"
_REPLACE = {_OPERATION: "replace"}
_REMOVE = {_OPERATION: "remove"}
_NAMESPACES = {
    "if": INTERFACES,
    "b": BRIDGE,
    "g": SCHED_BRIDGE,
    "i": SCHED_INTERFACE,
    "t": TSN_LINUX,
}
CLOCK_END_NS = 2**62  # 2116: what is added to such a time still fits into the kernel's 64 bits
# IEEE Std 802.1Q-2022, table 8-5: row n-1 has the classes of priorities 0..7 where there are n.
_RECOMMENDED_CLASSES = (
    (0, 0, 0, 0, 0, 0, 0, 0),
    (0, 0, 0, 0, 1, 1, 1, 1),
    (0, 0, 0, 0, 1, 1, 2, 2),
    (0, 0, 1, 1, 2, 2, 3, 3),
    (0, 0, 1, 1, 2, 2, 3, 4),
    (1, 0, 2, 2, 3, 3, 4, 5),
    (1, 0, 2, 3, 4, 4, 5, 6),
    (1, 0, 2, 3, 4, 5, 6, 7),
)


def edit(parts: Mapping[str, PortGates], its: PlaceEdit) -> list[Element]:
    """Sets the gates of ports in their interfaces; there is nothing beside."""
    for name, asked in parts.items():
        at, interface = its.stored.get(name) or NOTHING_STORED, its.interfaces.of(name)
        stored = at[StoredGates]
        interface.append(_bridge_port(asked.configuration, its.base_time_ns, stored))
        # Servers may not know its module: it is named only where it is there.
        if stored.has_interface_gates:
            interface.append(_INTERFACE_GATES("gate-parameter-table", _REMOVE))
    return []


def _bridge_port(
    desired: PortConfiguration | None, base_time_ns: int, stored: StoredGates
) -> Element:
    obsolete = set(stored.dscps)
    if desired is None:
        port = _BRIDGE(
            "bridge-port", _GATES("gate-parameter-table", _REMOVE), _TSNL("taprio", _REMOVE)
        )
    else:
        obsolete -= desired.dscp_priorities.keys()
        port = _BRIDGE(
            "bridge-port",
            _traffic_classes(desired),
            gate_table(desired.gates, base_time_ns),
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


def gate_table_octets(gates: GateControlList) -> int:
    """How much of an edit a list takes."""
    return len(etree.tostring(gate_table(gates, 0)))


def gate_table(gates: GateControlList, base_time_ns: int) -> Element:
    """The table that runs a list from its first cycle on that begins at a base time or later."""
    return _GATES(
        "gate-parameter-table",
        _REPLACE,
        _GATES("gate-enabled", "true"),
        gate_entries(_GATES, gates),
        *list_times(_GATES, gates.cycle_ns, first_start_ns(base_time_ns, gates.cycle_ns)),
    )


def stored_gates(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, StoredGates]:
    """What is configured of the gates of ports, by name, from the reply to a get-config."""
    ports = {}
    for interface in reply.entries(whole.data, "if:interfaces/if:interface", _NAMESPACES):
        port = interface.find("b:bridge-port", _NAMESPACES)
        has_gates = _has_interface_gates(interface)
        if port is not None or has_gates:
            stored = StoredGates() if port is None else _stored_gates(port)
            name = _require(interface, "if:name")
            ports[name] = replace(stored, has_interface_gates=has_gates)
    return ports


def _has_interface_gates(interface: Element) -> bool:
    """Whether gates are configured that are not the bridge port's."""
    table = interface.find("i:gate-parameter-table", _NAMESPACES)
    return table is not None and (
        _text(table, "i:gate-enabled") == "true"
        or table.find("i:admin-control-list/i:gate-control-entry", _NAMESPACES) is not None
    )


def _stored_gates(port: Element) -> StoredGates:
    """Another client may have configured it: what is left out has the standard's default."""
    rules = {
        rule.number("dscp"): rule.optional_number("priority") for rule in _rows(port, "t:dscp-rule")
    }
    table = port.find("g:gate-parameter-table", _NAMESPACES)
    configuration, base_time_ns = None, 0
    extras: tuple[str, ...] = ()
    is_draft = False
    if table is not None and _text(table, "g:gate-enabled") == "true":
        base_time_ns = _ptp_time(table.find("g:admin-base-time", _NAMESPACES)) or 0
        configuration = _configuration(port, table, rules)
        is_draft = configuration is None
        extras = tuple(stored_extras(port, table))
    return StoredGates(
        configuration=configuration,
        base_time_ns=base_time_ns,
        dscps=frozenset(rules),
        extras=extras,
        is_draft=is_draft,
    )


def _configuration(
    port: Element, table: Element, rules: Mapping[int, int | None]
) -> PortConfiguration | None:
    cycle_ns = _cycle_ns(table.find("g:admin-cycle-time", _NAMESPACES))
    if cycle_ns is None or _text(table, "g:config-change") != "true":
        return None
    number_of_classes, priority_map = _stored_classes(port)
    entries = sorted(
        _rows(table, "g:admin-control-list/g:gate-control-entry"),
        key=lambda entry: entry.number("index"),
    )
    return PortConfiguration(
        number_of_classes=number_of_classes,
        priority_map=priority_map,
        mode=GateMode(_text(port, "t:taprio/t:mode") or GateMode.SOFTWARE),
        gates=GateControlList(
            cycle_ns,
            tuple(
                GateEntry(
                    entry.number("gate-states-value"),
                    entry.optional_number("time-interval-value") or 0,
                )
                for entry in entries
            ),
        ),
        dscp_priorities={d: p for d, p in rules.items() if p is not None},
    )


def _stored_classes(port: Element) -> tuple[int, tuple[int, ...]]:
    """How many there are, and that of each priority."""
    classes = port.find("b:traffic-class/b:traffic-class-table", _NAMESPACES)
    if classes is None:
        return PRIORITIES, _RECOMMENDED_CLASSES[PRIORITIES - 1]
    count = _number(classes, "b:number-of-traffic-classes")
    count = PRIORITIES if count is None else count
    if not 1 <= count <= PRIORITIES:
        raise ValueError(f"number-of-traffic-classes is {count}, not within 1..{PRIORITIES}")
    given = [_number(classes, f"b:priority{p}") for p in range(PRIORITIES)]
    recommended = _RECOMMENDED_CLASSES[count - 1]
    return count, tuple(
        default if number is None else number
        for number, default in zip(given, recommended, strict=True)
    )


def gates_reports(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, GatesReport]:
    """Kernel state and limits by port name, from the reply to a get."""
    reports = {}
    for interface in reply.entries(whole.data, "if:interfaces/if:interface", _NAMESPACES):
        kernel = interface.find("b:bridge-port/t:taprio/t:kernel", _NAMESPACES)
        if kernel is None:
            continue
        table = interface.find("b:bridge-port/g:gate-parameter-table", _NAMESPACES)
        mode = _text(kernel, "t:mode")
        schedules = {
            _require(schedule, "t:state"): _kernel_schedule(schedule)
            for schedule in reply.entries(kernel, "t:schedule", _NAMESPACES)
        }
        by_priority = {
            row.number("priority"): row.traffic_class() for row in _rows(kernel, "t:priority-map")
        }
        reports[_require(interface, "if:name")] = GatesReport(
            root_qdisc=_text(kernel, "t:root-qdisc") or "unknown",
            mode=GateMode(mode) if mode else None,
            clock=_text(kernel, "t:clock"),
            running=schedules.get("running"),
            pending=schedules.get("pending"),
            priority_map=tuple(by_priority.get(p, 0) for p in range(PRIORITIES)),
            number_of_classes=_number(kernel, "t:traffic-classes") or 0,
            dscp_priorities=_dscp_priorities(kernel),
            current_time_ns=_clock_ns(table),
            limits=_gate_limits(table),
            extras=tuple(kernel_extras(kernel)),
            traffic=dict(_traffic(kernel)),
            bridge=_text(kernel, "t:bridge"),
            bridged_priorities=_bridged_priorities(kernel),
            wake_ups=wake_ups(kernel, "gate-wake-ups", TSN_LINUX),
            software_gates_refused=_text(kernel, "t:software-gates-refused"),
            transmit_quota_frames=_limit(kernel, "t:transmit-quota") or None,
            hardware=_hardware(kernel),
        )
    return reports


def _dscp_priorities(above: Element) -> dict[int, int]:
    return {rule.number("dscp"): rule.number("priority") for rule in _rows(above, "t:dscp-rule")}


def _bridged_priorities(kernel: Element) -> dict[int, int] | None:
    """None of agents that do not classify bridged frames, and of a port without a bridge."""
    bridged_frames = kernel.find("t:bridged-frames", _NAMESPACES)
    return None if bridged_frames is None else _dscp_priorities(bridged_frames)


def _traffic(kernel: Element) -> Iterator[tuple[int, ClassTraffic]]:
    """Traffic by class; older agents do not report the backlog."""
    for row in _rows(kernel, "t:class-statistics"):
        sent_frames = row.optional_number("frames")
        backlog_frames = row.optional_number("backlog-frames")
        if sent_frames is not None and backlog_frames is not None:
            octets = row.optional_number("octets")
            yield row.traffic_class(), ClassTraffic(sent_frames, backlog_frames, octets)


def _gate_limits(table: Element | None) -> GateLimits:
    """The limits in a port's gate table; a leaf that is missing or 0 sets no limit."""
    if table is None:
        return GateLimits()
    cycle_s = _fraction(table.find("g:supported-cycle-max", _NAMESPACES))
    # Tenths of a nanosecond on the wire. Intervals are whole nanoseconds: those that are multiples
    # of the tick are multiples of this, too.
    tick = _limit(table, "g:tick-granularity") or 10
    return GateLimits(
        entries_max=_limit(table, "g:supported-list-max"),
        interval_max_ns=_limit(table, "g:supported-interval-max"),
        cycle_max_ns=int(cycle_s * NS_PER_S) if cycle_s else 0,
        tick_ns=tick // math.gcd(tick, 10),
    )


def _hardware(kernel: Element) -> HardwareReport | None:
    driver, forwards = _text(kernel, "t:driver"), _truth(kernel, "t:hardware-forwards")
    if driver is None and forwards is None:
        return None
    offload = kernel.find("t:offload", _NAMESPACES)
    return HardwareReport(
        driver,
        has_mac_merge=_text(kernel, "t:mac-merge") == "true",
        stamps=_truth(kernel, "t:hardware-time-stamps"),
        forwards=forwards,
        offload=None if offload is None else _offload(offload),
    )


def _truth(parent: Element, path: str) -> bool | None:
    """None where it is not reported."""
    text = _text(parent, path)
    return None if text is None else text == "true"


def _offload(offload: Element) -> Offload:
    def texts(leaf: str) -> tuple[str, ...]:
        return tuple(each.text or "" for each in reply.entries(offload, f"t:{leaf}", _NAMESPACES))

    return Offload(
        texts("source"),
        frozenset(texts("takes")),
        GateLimits(
            entries_max=_limit(offload, "t:list-max"),
            interval_max_ns=_limit(offload, "t:interval-max"),
            cycle_max_ns=_limit(offload, "t:cycle-max"),
            tick_ns=_limit(offload, "t:tick") or 1,
            interval_min_ns=_limit(offload, "t:interval-min"),
        ),
        drops_long_frames=_text(offload, "t:drops-long-frames") == "true",
        notes=texts("note"),
    )


def _limit(table: Element, path: str) -> int:
    return max(0, _number(table, path) or 0)


def _kernel_schedule(schedule: Element) -> KernelSchedule:
    entries = sorted(_rows(schedule, "t:entry"), key=lambda entry: entry.number("index"))
    cycle_ns = reply.number(_require(schedule, "t:cycle-time-ns"), "cycle-time-ns")
    if cycle_ns <= 0:
        raise ValueError(f"cycle-time-ns is {cycle_ns}, which is not positive")
    return KernelSchedule(
        base_time_ns=reply.number(_require(schedule, "t:base-time-ns"), "base-time-ns"),
        gates=GateControlList(
            cycle_ns,
            tuple(
                GateEntry(entry.number("gate-states"), entry.number("interval-ns"))
                for entry in entries
            ),
        ),
    )


def _rows(parent: Element, path: str) -> Iterator[Row]:
    return reply.rows(parent, path, _NAMESPACES)


def _text(parent: Element, path: str) -> str | None:
    return reply.text(parent, path, _NAMESPACES)


def _require(parent: Element, path: str) -> str:
    text = _text(parent, path)
    if text is None:
        raise ValueError(f"the reply has no {path} in {parent.tag!s}")
    return text


def _number(parent: Element, path: str) -> int | None:
    text = _text(parent, path)
    return None if text is None else reply.number(text, path.rpartition(":")[2])


def _ptp_time(element: Element | None) -> int | None:
    if element is None:
        return None
    seconds, nanoseconds = _number(element, "g:seconds"), _number(element, "g:nanoseconds")
    return (seconds or 0) * NS_PER_S + (nanoseconds or 0)


def _clock_ns(table: Element | None) -> int | None:
    time_ns = None if table is None else _ptp_time(table.find("g:current-time", _NAMESPACES))
    if time_ns is not None and not 0 <= time_ns < CLOCK_END_NS:
        raise ValueError("current-time is not between 1970 and 2116")
    return time_ns


def _cycle_ns(element: Element | None) -> int | None:
    cycle_s = _fraction(element)
    if cycle_s is None:
        return None
    cycle_ns = cycle_s * NS_PER_S
    return int(cycle_ns) if cycle_ns.denominator == 1 else None


def _fraction(element: Element | None) -> Fraction | None:
    """A rational number; None where it is missing or not positive."""
    if element is None:
        return None
    numerator, denominator = _limit(element, "g:numerator"), _limit(element, "g:denominator")
    return Fraction(numerator, denominator) if numerator and denominator else None
