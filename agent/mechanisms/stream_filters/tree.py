"""Stream filters, gates and flow meters of a bridge in the tree of ieee802-dot1q-psfp-bridge. Pure.

What the tree offers and the deviations of tsn-linux-unsupported leave out never gets here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from agent.base_time import base_time_ns
from agent.mechanism import BRIDGE, STREAM_IDENTITIES, Node, Refused, Tree
from agent.mechanisms.stream_filters.model import (
    CYCLE_MAX_NS,
    ENTRIES_MAX,
    INSTANCES_MAX,
    INTERVAL_MAX_NS,
    Address,
    FilterCounters,
    Gate,
    GateEntry,
    GateList,
    Meter,
    RunningGate,
    Setting,
    StreamFilter,
    StreamFilterConfig,
    StreamFilterState,
)
from agent.model import NS_PER_S, PortState
from agent.stream_identities import (
    ACTIVE,
    input_ports,
    is_naming,
    named_frames,
    tagged_frames,
)

MODULE = "ieee802-dot1q-psfp-bridge"
FILTERS, GATES, METERS = (
    f"{MODULE}:{each}" for each in ("stream-filters", "stream-gates", "flow-meters")
)
FILTER_TABLE, GATE_TABLE, METER_TABLE = (
    f"{each}-instance-table" for each in ("stream-filter", "stream-gate", "flow-meter")
)
FILTER_ID, GATE_ID, METER_ID = (
    f"{each}-instance-id" for each in ("stream-filter", "stream-gate", "flow-meter")
)
OPERATION = "ieee802-dot1q-psfp:set-gate-and-ipv"
ENFORCEMENT = "tsn-linux:enforcement"
INTERFACE = "tsn-linux:interface"
OVERHEAD = "tsn-linux:frame-overhead"
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven")


def configured(interface: Tree, _state: PortState | None) -> StreamFilterConfig:
    """The stream filters of the bridge of this name; raises `Refused`, naming the instance."""
    components = interface.get(BRIDGE, {}).get("component", [])
    rows = [row for each in components for row in _rows(each, FILTERS, FILTER_TABLE)]
    gates = {
        row[GATE_ID]: _gate(row) for each in components for row in _rows(each, GATES, GATE_TABLE)
    }
    meters = {
        row[METER_ID]: _meter(row)
        for each in components
        for row in _rows(each, METERS, METER_TABLE)
    }
    filters = frozenset(_filter(row, gates, meters) for row in rows)
    _refuse_unused("stream gate", gates, {each.gate.id for each in filters})
    _refuse_unused("flow meter", meters, {each.meter.id for each in filters if each.meter})
    handles = {each.handle for each in filters}
    addresses = _addresses(interface.get(STREAM_IDENTITIES, [])) if filters else ()
    places = frozenset((row[FILTER_ID], port) for row in rows for port in row.get(INTERFACE, []))
    if None in handles:
        return StreamFilterConfig(filters, frozenset(addresses), places)
    return StreamFilterConfig(
        filters, frozenset(each for each in addresses if each.handle in handles), places
    )


def _rows(component: Tree, tables: str, table: str) -> list[Tree]:
    rows: list[Tree] = component.get(tables, {}).get(table, [])
    return rows


def _addresses(entries: list[Tree]) -> Iterator[Address]:
    """By which address and VLAN the bridge knows the frames of streams, and where they come in."""
    for entry in entries:
        if is_naming(entry):
            frames, ports = named_frames(entry), input_ports(entry)
        else:
            frames = tagged_frames(entry.get(ACTIVE, {}).get("down", {}))
            ports = entry.get("in-facing", {}).get("output-port", [])
        if frames:
            for port in ports:
                yield Address(port, entry["handle"], *frames)


def _filter(row: Tree, gates: Mapping[int, Gate], meters: Mapping[int, Meter]) -> StreamFilter:
    priority = row["priority-spec"]
    if "wildcard" not in row and "stream-handle" not in row:
        raise Refused(
            f"stream filter {row[FILTER_ID]} matches no frame: it has neither a stream-handle nor "
            "wildcard; add one"
        )
    meter = row.get("flow-meter-ref")
    return StreamFilter(
        row[FILTER_ID],
        row.get("stream-handle"),
        None if priority == "wildcard" else _NUMBERS.index(priority),
        row["max-sdu-size"],
        gates[row["stream-gate-ref"]],
        None if meter is None else meters[meter],
        only_counts=row.get(ENFORCEMENT) == "count",
    )


def _gate(row: Tree) -> Gate:
    name = f"stream gate {row[GATE_ID]}"
    rows = row.get("admin-control-list", {}).get("gate-control-entry", [])
    if not row.get("gate-enable", False):
        given = {"admin-control-list", "admin-gate-states", "admin-ipv", "config-change"}
        if named := sorted(given & row.keys()):
            raise Refused(
                f"{name}: {named[0]} has no effect on a gate that is not in operation; set "
                "gate-enable to true"
            )
        return Gate(row[GATE_ID])
    initial = Setting(row.get("admin-gate-states") != "closed", _ipv(row.get("admin-ipv")))
    if rows and not row.get("config-change"):
        raise Refused(f"{name}: its list has no effect without config-change; set it to true")
    return Gate(row[GATE_ID], initial, _list(name, row, rows) if rows else None)


def _list(name: str, row: Tree, rows: list[Tree]) -> GateList:
    cycle = row.get("admin-cycle-time", {})
    if not cycle.get("numerator") or not cycle.get("denominator"):
        raise Refused(f"{name}: its list has no admin-cycle-time")
    cycle_ns = Fraction(cycle["numerator"], cycle["denominator"]) * NS_PER_S
    if cycle_ns.denominator != 1:
        raise Refused(f"{name}: a cycle of {cycle_ns} ns is no whole number of nanoseconds")
    entries = tuple(_entry(name, each) for each in sorted(rows, key=lambda each: each["index"]))
    sum_ns = sum(each.interval_ns for each in entries)
    if sum_ns > cycle_ns:
        raise Refused(
            f"{name}: its entries take {sum_ns} ns, longer than its cycle of {cycle_ns} ns; "
            "shorten them, or lengthen admin-cycle-time"
        )
    try:
        base_ns = base_time_ns(row.get("admin-base-time", {}), int(cycle_ns))
    except Refused as reason:
        raise Refused(f"{name}: {reason}") from None
    return GateList(base_ns, int(cycle_ns), entries)


def _entry(name: str, row: Tree) -> GateEntry:
    interval_ns = row.get("time-interval-value", 0)
    if not interval_ns:
        raise Refused(f"{name}: entry {row['index']} of its list has no time-interval-value")
    setting = Setting(row["gate-state-value"] == "open", _ipv(row["ipv-spec"]))
    if not setting.is_open and "interval-octet-max" in row:
        raise Refused(
            f"{name}: interval-octet-max of entry {row['index']} has no effect, because the gate "
            "is closed then; remove it"
        )
    octets_max, overhead_octets = row.get("interval-octet-max"), row.get(OVERHEAD, 0)
    if overhead_octets and octets_max is None:
        raise Refused(
            f"{name}: frame-overhead of entry {row['index']} has no effect without "
            "interval-octet-max; remove it"
        )
    return GateEntry(setting, interval_ns, octets_max, overhead_octets)


def _meter(row: Tree) -> Meter:
    rate, burst = int(row["committed-information-rate"]), row["committed-burst-size"]
    return Meter(row[METER_ID], rate, burst, row.get(OVERHEAD, 0))


def _ipv(value: str | None) -> int | None:
    return None if value in {None, "null"} else _NUMBERS.index(str(value))


def _refuse_unused(kind: str, given: Mapping[int, Any], used: set[int]) -> None:
    if unused := sorted(given.keys() - used):
        raise Refused(f"{kind} {unused[0]} has no effect: no stream filter refers to it; remove it")


def operational(state: PortState, now_ns: int) -> Node:
    """What is under the component of a bridge; nothing of an interface that is none."""
    if state.as_bridge is None:
        return {}
    part = state[StreamFilterState]
    gates: Node = {
        "max-stream-gate-instances": INSTANCES_MAX,
        "supported-list-max": ENTRIES_MAX,
        "supported-cycle-max": {"numerator": CYCLE_MAX_NS, "denominator": NS_PER_S},
        "supported-interval-max": INTERVAL_MAX_NS,
    }
    filters: Node = {"max-stream-filter-instances": INSTANCES_MAX}
    meters: Node = {"max-flow-meter-instances": INSTANCES_MAX}
    places = part.table.ports_of_filters
    if listed := [_shown_filter(each, part, places[each.id]) for each in part.table.filters]:
        filters[FILTER_TABLE] = listed
    if shown := [_shown_gate(each, part.running[each.id], now_ns) for each in part.table.gates]:
        gates[GATE_TABLE] = shown
    if rows := [_shown_meter(each) for each in part.table.meters]:
        meters[METER_TABLE] = rows
    return {FILTERS: filters, GATES: gates, METERS: meters}


def _shown_filter(shown: StreamFilter, part: StreamFilterState, ports: list[str]) -> Node:
    counters = part.counters.get(shown.id, FilterCounters())
    node: Node = {
        FILTER_ID: shown.id,
        **({"wildcard": [None]} if shown.handle is None else {"stream-handle": shown.handle}),
        "priority-spec": "wildcard" if shown.priority is None else _NUMBERS[shown.priority],
        "max-sdu-size": shown.max_sdu_octets,
        "stream-gate-ref": shown.gate.id,
        ENFORCEMENT: "count" if shown.only_counts else "drop",
        "matching-frames-count": str(counters.matching),
        "passing-frames-count": str(counters.passing),
        "not-passing-frames-count": str(counters.not_passing),
        "red-frames-count": str(counters.red),
        "passing-sdu-count": str(counters.passing_sdu),
        "not-passing-sdu-count": str(counters.not_passing_sdu),
    }
    if shown.handle is None:
        node[INTERFACE] = ports
    if shown.meter:
        node["flow-meter-ref"] = shown.meter.id
    return node


def _shown_gate(gate: Gate, running: RunningGate, now_ns: int) -> Node:
    is_pending = running.is_pending(now_ns)
    oper = running.before if is_pending else gate.rule
    setting = oper if isinstance(oper, Setting) else oper.at(now_ns)
    node: Node = {
        GATE_ID: gate.id,
        "gate-enable": gate.initial is not None,
        "admin-gate-states": _state(gate.first),
        "admin-ipv": _number(gate.first.ipv),
        "oper-gate-state": _state(setting),
        "oper-ipv": _number(setting.ipv),
        "tick-granularity": 10,
        "current-time": _time(now_ns),
        "config-pending": is_pending,
    }
    if gate.list:
        node |= {
            "admin-control-list": _control_list(gate.list),
            "admin-cycle-time": _cycle(gate.list),
            "admin-base-time": _time(gate.list.base_ns),
            "config-change-time": _time(running.change_ns),
        }
    if isinstance(oper, GateList):
        node |= {
            "oper-control-list": _control_list(oper),
            "oper-cycle-time": _cycle(oper),
            "oper-base-time": _time(oper.base_ns),
        }
    return node


def _control_list(shown: GateList) -> Node:
    return {
        "gate-control-entry": [
            {
                "index": index,
                "operation-name": OPERATION,
                "time-interval-value": each.interval_ns,
                "gate-state-value": _state(each.setting),
                "ipv-spec": _number(each.setting.ipv),
                **({} if each.octets_max is None else {"interval-octet-max": each.octets_max}),
                OVERHEAD: each.overhead_octets,
            }
            for index, each in enumerate(shown.entries)
        ]
    }


def _shown_meter(meter: Meter) -> Node:
    return {
        METER_ID: meter.id,
        "committed-information-rate": str(meter.rate_bps),
        "committed-burst-size": meter.burst_octets,
        "excess-information-rate": "0",
        "excess-burst-size": 0,
        "coupling-flag": "zero",
        "color-mode": "color-blind",
        "drop-on-yellow": False,
        OVERHEAD: meter.overhead_octets,
    }


def _cycle(shown: GateList) -> Node:
    return {"numerator": shown.cycle_ns, "denominator": NS_PER_S}


def _time(time_ns: int) -> Node:
    seconds, nanoseconds = divmod(time_ns, NS_PER_S)
    return {"seconds": str(seconds), "nanoseconds": nanoseconds}


def _state(setting: Setting) -> str:
    return "open" if setting.is_open else "closed"


def _number(ipv: int | None) -> str:
    return "null" if ipv is None else _NUMBERS[ipv]
