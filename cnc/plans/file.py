"""A plan as a file: JSON with the operator's intent in it, so that it stands on its own.

    {"format": "cnc-plan/3",
     "intent":    the intent's document, verbatim,
     "limits":    {"node/port": {"entries_max": n, "interval_max_ns": n, "cycle_max_ns": n,
                                 "tick_ns": n}, ...},
     "gate_margin": {"value_ns": n,
                     "measured": {"port": "node/port", "maximum_ns": n, "count": n}},
     "clock_error": {"value_ns": n,
                     "measured": {"first": node, "second": node, "apart_ns": n, "links": n}},
     "talker_lateness": {"station": {"value_ns": n,
                                     "measured": {"port": "node/port", "maximum_ns": n,
                                                  "count": n}}, ...},
     "algorithm": name,
     "streams":   {stream: {"paths": [[[node, port, offset_ns, traffic_class(, window_ns)], ...],
                                      ...],
                            "latency_bound_ns": n}, ...},
     "addresses": {stream: {"destination_mac": "03:54:53:4e:00:00", "vlan_id": n}, ...},
     "jitter_ns": {stream: {listener: n, ...}, ...},
     "recovery_ns": {stream: n, ...},
     "loops":     {loop: {"sensor_ns": n, "compute_ns": n, "wait_ns": n, "actuator_ns": n}, ...},
     "decisions": {key: {"version": n, "rows": [...]}, ...},
     "refused":   {stream: why it has no place, ...},
     "gates":     {"node/port": {"cycle_ns": n, "entries": [["0x81", interval_ns], ...]}, ...}}

`limits` are what the switches stated of their ports (0: unknown), and hold beside those in the
intent. The section is missing where no switch was asked, as is `recovery_ns` where the intent asks
for no recovery, or no stream has a bound: how long after a disturbance a stream may be late. Every
stream has one where the intent requires it.

`addresses` has every stream of the plan where the intent's forwarding is bridged, and is missing
where it is routed. The PCP of a stream is the priority of its class.

`jitter_ns` has the streams whose jitter the intent limits: the spread of arrivals that each of
their listeners is promised. It is missing where there is none.

`loops` has the control loops of the intent whose streams have a place: the parts of the most that
passes from a sample until its command is at the plant. It is missing where there is none.

`gate_margin` is how late the plan expects gates to open where the intent does not state it, and
the measurement that asks for it: how late the latest of `count` wake-ups was. `measured` is missing
where the margin is the constant of its time. `talker_lateness` is the same of the talkers of end
stations, where they measured it and the intent does not state it. `clock_error` is there where the
intent wants it measured: the two clocks that were furthest apart, and over how many offsets.

A hop has a `window_ns` where the frames share a window with those of other streams. Only files with
such hops are of format 5.

A stream has an `interval_ns` where switches forward its frames once each interval, and its hops
have no instant: all their offsets are 0. Only files with such streams are of format 6.

`decisions` are those of mechanisms that decide something beside all that: each under its own key,
in a version of its own. Only files that have some are of format 4, and a program that does not know
one refuses the file.

Format 2 differs only in what an intent says by leaving a key out: `_IMPLIED_BY_FORMAT_2` has the
values that then held. Such a file is read as if its intent stated them.

A plan file is input like any other: `load` checks shapes, ranges and names. Whether the plan keeps
its promises is for `cnc.check` to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cnc.errors import InputError
from cnc.mechanisms import kept, terms
from cnc.model import (
    ClocksApart,
    GateControlList,
    GateEntry,
    GateLimits,
    Hop,
    Intent,
    LoopDelay,
    MeasuredClockError,
    MeasuredMargin,
    Parts,
    Plan,
    PortRef,
    StreamAddress,
    StreamPlan,
)
from cnc.plans.file_shape import (
    GATE_STATES,
    HINT,
    OBJECT,
    ClockErrorObject,
    DecisionObject,
    GateMarginObject,
    MeasuredObject,
    PlanObject,
    TalkerLatenessObject,
    port_of,
    refusal,
    shown,
)
from cnc.support import gc_pause, whole_file

FORMAT = "cnc-plan/3"
_FORMAT_WITH_DECISIONS = "cnc-plan/4"
_FORMAT_WITH_WINDOWS = "cnc-plan/5"
_FORMAT_WITH_INTERVALS = "cnc-plan/6"
_FORMAT_WITH_SHAPERS = "cnc-plan/7"
_FORMAT_2 = "cnc-plan/2"
_OLDER_FORMATS = ("cnc-plan/1",)  # not read any more
# Keys under `defaults` of an intent whose default value has changed since format 2.
_IMPLIED_BY_FORMAT_2: Mapping[str, Any] = {
    "gate-margin": "0ns",
    "talker-interference": "none",
    "recovery": "none",
}
SIZE_MAX_OCTETS = 256 * 1024 * 1024
_ORDER = (
    *("format", "intent", "limits", "gate_margin", "clock_error", "talker_lateness", "algorithm"),
    *("streams", "addresses", "jitter_ns", "recovery_ns", "loops", "decisions", "refused", "gates"),
)
# The sections that are written with nothing in them, too, and those of one line for each name.
_ALWAYS = frozenset({"streams", "refused", "gates"})
_TABLES = frozenset(_ORDER) - {"format", "intent", "gate_margin", "clock_error", "algorithm"}


@gc_pause.paused()
def dump(plan: Plan, path: Path | None = None) -> str:
    """The plan's text, the same for the same plan; written to `path` in one step if given."""
    text = _text(plan)
    if path is not None:
        whole_file.write(path, text)
    return text


@gc_pause.paused()
def load(path: Path) -> Plan:
    """Read a plan file, or raise `InputError` with the place, what is there and what should be."""
    try:
        whole_file.refuse_special(path)
        size = path.stat().st_size
        if size > SIZE_MAX_OCTETS:
            raise InputError(
                f"{path}: found {size} octets, expected at most {SIZE_MAX_OCTETS}", hint=HINT
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot read it: {error.strerror}",
            hint="check the path and its permissions",
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (octet {error.start})", hint=HINT) from error
    return parse(text, str(path))


@gc_pause.paused()
def parse(text: str, source: str) -> Plan:
    """The plan of what `dump` wrote; raises `InputError`, as `load`, calling the text `source`."""
    return of_document(_document(text, source), source)


@gc_pause.paused()
def of_document(data: Mapping[str, Any], source: str) -> Plan:
    """The plan of a file's text as plain data, of the newest format that can say it."""
    try:
        found = PlanObject.model_validate(data, context={"source": source})
    except ValidationError as error:
        raise refusal(error, source) from None
    limits = {port_of(name): GateLimits(**dict(stated)) for name, stated in found.limits.items()}
    return Plan(
        intent=_with_lateness(
            _with_clock_error(
                _with_margin(found.intent.within(limits), found.gate_margin), found.clock_error
            ),
            found.talker_lateness,
        ),
        streams={
            name: StreamPlan(
                tuple(
                    tuple(Hop(PortRef(node, port), *planned) for node, port, *planned in path)
                    for path in stream.paths
                ),
                stream.latency_bound_ns,
                stream.interval_ns or 0,
                stream.shaper,
            )
            for name, stream in found.streams.items()
        },
        gates={
            port_of(name): GateControlList(
                gates.cycle_ns,
                tuple(GateEntry(GATE_STATES[states], length) for states, length in gates.entries),
            )
            for name, gates in found.gates.items()
        },
        algorithm=found.algorithm,
        refused=found.refused,
        recovery_ns=found.recovery_ns,
        addresses={
            name: StreamAddress(its.destination_mac, its.vlan_id)
            for name, its in found.addresses.items()
        },
        jitter_ns=found.jitter_ns,
        loops={name: LoopDelay(**dict(its)) for name, its in found.loops.items()},
        parts=_decided(found.decisions, source),
    )


def _decided(found: Mapping[str, DecisionObject], source: str) -> Parts:
    kinds = {each.kept.key: each.kept for each in terms.deciding()}
    parts = []
    for key, its in found.items():
        try:
            kept.refuse_unknown({key: its.version}, kinds)
            parts.append(kept.read(kinds[key], kept.Versioned(its.version, its.rows)))
        except kept.UnknownPartError as error:
            hint = "install the package of the mechanism, in the version that wrote the file"
            raise InputError(f"{source}: decisions: {error}", hint=hint) from error
        except ValueError as error:
            raise InputError(
                f"{source}: decisions.{key}.rows: found what {key} does not write", hint=HINT
            ) from error
    return Parts.of(*parts)


def _with_margin(intent: Intent, found: GateMarginObject | None) -> Intent:
    if found is None:
        return intent
    measured = _measured(found.value_ns, found.measured) if found.measured else None
    return intent.with_gate_margin(found.value_ns, measured)


def _with_clock_error(intent: Intent, found: ClockErrorObject | None) -> Intent:
    if found is None:
        return intent
    apart = ClocksApart(**dict(found.measured))
    return intent.with_clock_error(MeasuredClockError(found.value_ns, apart))


def _with_lateness(intent: Intent, found: Mapping[str, TalkerLatenessObject]) -> Intent:
    if not found:
        return intent
    return intent.with_lateness(
        {name: _measured(its.value_ns, its.measured) for name, its in found.items()}
    )


def _measured(value_ns: int, its: MeasuredObject) -> MeasuredMargin:
    return MeasuredMargin(value_ns, port_of(its.port), its.maximum_ns, its.count)


def tables(plan: Plan) -> dict[str, Mapping[Any, Any]]:
    """The sections that have an object for each of many names: streams, ports, stations. `row`
    makes of each what the file says."""
    decisions = {
        each.kept.key: kept.written(each.kept, part)
        for each in terms.deciding()
        if (part := plan[each.part]) != each.part()
    }
    return {
        "limits": plan.intent.stated_limits,
        "talker_lateness": plan.intent.measured_lateness,
        "streams": plan.streams,
        "addresses": plan.addresses,
        "jitter_ns": plan.jitter_ns,
        "recovery_ns": plan.recovery_ns,
        "loops": plan.loops,
        "decisions": decisions,
        "refused": plan.refused,
        "gates": plan.gates,
    }


def others(plan: Plan) -> dict[str, Any]:
    """The sections of a plan file that are no `tables`, as plain data."""
    intent = plan.intent
    clocks = intent.measured_clock_error
    return {
        "format": _format(plan),
        "intent": intent.document,
        **({} if intent.states_gate_margin else {"gate_margin": _margin(intent)}),
        **({"clock_error": _clock_error(clocks)} if clocks else {}),
        "algorithm": plan.algorithm,
    }


def row(section: str, its: Any) -> Any:
    """What one of the `tables` has of a name, as plain data."""
    match section:
        case "streams":
            return {
                "paths": [
                    [[*hop.egress, hop.offset_ns, hop.traffic_class, *_window(hop)] for hop in path]
                    for path in its.paths
                ],
                "latency_bound_ns": its.latency_bound_ns,
                **({"interval_ns": its.interval_ns} if its.is_cyclic else {}),
                **({"shaper": its.shaper} if its.shaper else {}),
            }
        case "gates":
            entries = [[f"{e.gate_states:#04x}", e.interval_ns] for e in its.entries]
            return {"cycle_ns": its.cycle_ns, "entries": entries}
        case "talker_lateness":
            return {"value_ns": its.value_ns, "measured": _written(its)}
        case "limits" | "addresses" | "loops" | "decisions":
            return asdict(its)
    return its


def document(plan: Plan) -> dict[str, Any]:
    """A plan file as plain data, its sections in their order."""
    found = others(plan)
    for name, its in tables(plan).items():
        if its or name in _ALWAYS:
            found[name] = {str(key): row(name, each) for key, each in its.items()}
    return {name: found[name] for name in _ORDER if name in found}


def _text(plan: Plan) -> str:
    """One line for each stream and port, so that two plans can be compared line by line."""
    parts = []
    for name, its in document(plan).items():
        if name in _TABLES:
            parts.append(f'"{name}": {_lines(its)}')
        elif name == "intent":
            parts.append(f'"{name}": {json.dumps(its, ensure_ascii=False, indent=1)}')
        else:
            parts.append(f'"{name}": {json.dumps(its)}')
    return "{" + ",\n".join(parts) + "}\n"


def _format(plan: Plan) -> str:
    """The oldest format that can say all that is in the plan."""
    if any(its.shaper for its in plan.streams.values()):
        return _FORMAT_WITH_SHAPERS
    if any(its.is_cyclic for its in plan.streams.values()):
        return _FORMAT_WITH_INTERVALS
    if any(its.is_shared for its in plan.streams.values()):
        return _FORMAT_WITH_WINDOWS
    decides = any(plan[each.part] != each.part() for each in terms.deciding())
    return _FORMAT_WITH_DECISIONS if decides else FORMAT


def _window(hop: Hop) -> list[int]:
    return [hop.window_ns] if hop.is_shared else []


def _margin(intent: Intent) -> dict[str, Any]:
    written: dict[str, Any] = {"value_ns": intent.network.gate_margin_ns}
    if measured := intent.measured_margin:
        written["measured"] = _written(measured)
    return written


def _clock_error(measured: MeasuredClockError) -> dict[str, Any]:
    return {"value_ns": measured.value_ns, "measured": asdict(measured.apart)}


def _written(measured: MeasuredMargin) -> dict[str, Any]:
    return {
        "port": str(measured.port),
        "maximum_ns": measured.maximum_ns,
        "count": measured.count,
    }


def _lines(table: Mapping[str, Any]) -> str:
    rows = (
        f"\n {json.dumps(key, ensure_ascii=False)}: {json.dumps(table[key], ensure_ascii=False)}"
        for key in sorted(table)
    )
    return "{" + ",".join(rows) + "\n}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"key {key!r} appears twice in one object")
        table[key] = value
    return table


def _no_constant(name: str) -> None:
    raise ValueError(f"found {name}, expected a number")


def _document(text: str, source: str) -> dict[str, Any]:
    """The JSON object in `text`, of this format."""
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"{source}:{error.lineno}"
        raise InputError(
            f"{where}: not JSON: {error.msg} (column {error.colno})", hint=HINT
        ) from error
    except RecursionError as error:
        raise InputError(f"{source}: nested too deeply", hint=HINT) from error
    except ValueError as error:
        raise InputError(f"{source}: {error}", hint=HINT) from error
    if not isinstance(document, dict):
        raise InputError(f"{source}: found {shown(document)}, expected {OBJECT}", hint=HINT)
    # First of all: another format may well have other keys.
    found = document.get("format", FORMAT)
    if found == _FORMAT_2:
        return _upgraded(document)
    known = {
        FORMAT,
        _FORMAT_WITH_DECISIONS,
        _FORMAT_WITH_WINDOWS,
        _FORMAT_WITH_INTERVALS,
        _FORMAT_WITH_SHAPERS,
    }
    if found not in known:
        older = found in _OLDER_FORMATS
        raise InputError(
            f"{source}: format: found {shown(found)}, expected {FORMAT!r}",
            hint="an older cnc wrote it: run `cnc plan` on the intent again" if older else HINT,
        )
    return document


def _upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """A document of format 2 as one of this format.

    Its intent means what it meant when it was written. What is no intent is left to the checks.
    """
    upgraded = document | {"format": FORMAT}
    match document.get("intent"):
        case {"defaults": dict(defaults), **others}:
            upgraded["intent"] = {**others, "defaults": {**_IMPLIED_BY_FORMAT_2, **defaults}}
    return upgraded
