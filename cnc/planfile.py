"""A plan as a file: JSON with the operator's intent in it, so that it stands on its own.

    {"format": "cnc-plan/3",
     "intent":    the intent's document, verbatim,
     "limits":    {"node/port": {"entries_max": n, "interval_max_ns": n, "cycle_max_ns": n,
                                 "tick_ns": n}, ...},
     "algorithm": name,
     "streams":   {stream: {"paths": [[[node, port, offset_ns, traffic_class], ...], ...],
                            "latency_bound_ns": n}, ...},
     "refused":   {stream: why it has no place, ...},
     "gates":     {"node/port": {"cycle_ns": n, "entries": [["0x81", interval_ns], ...]}, ...}}

`limits` are what the switches stated of their ports (0: unknown), and hold beside those in the
intent. The section is missing where no switch was asked.

Format 2 differs only in what an intent says by leaving a key out: `_IMPLIED_BY_FORMAT_2` has the
values that then held. Such a file is read as if its intent stated them.

A plan file is input like any other: `load` checks shapes, ranges and names. Whether the plan keeps
its promises is for `cnc.check` to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError, PydanticOmit

from cnc import collector, whole_file
from cnc import intent as intent_room
from cnc.errors import InputError
from cnc.model import (
    GateControlList,
    GateEntry,
    GateLimits,
    Hop,
    Intent,
    Plan,
    PortRef,
    StreamPlan,
)

FORMAT = "cnc-plan/3"
_FORMAT_2 = "cnc-plan/2"
_OLDER_FORMATS = ("cnc-plan/1",)  # not read any more
# Keys under `defaults` of an intent whose default value has changed since format 2.
_IMPLIED_BY_FORMAT_2: Mapping[str, Any] = {"gate-margin": "0ns"}
SIZE_MAX_OCTETS = 256 * 1024 * 1024
_GATE_STATES = {f"{states:#04x}": states for states in range(256)}
_TIME_MAX_NS = 2**63 - 1  # the kernel's and YANG's int64
_SHOWN_MAX = 60
_OBJECT = "an object {...}"
_HINT = "write plan files with `cnc plan`; edit the intent instead of the plan"


@collector.paused()
def dump(plan: Plan, path: Path | None = None) -> str:
    """The plan's text, the same for the same plan; written to `path` in one step if given."""
    text = _text(plan)
    if path is not None:
        whole_file.write(path, text)
    return text


@collector.paused()
def load(path: Path) -> Plan:
    """Read a plan file, or raise `InputError` with the place, what is there and what should be."""
    try:
        whole_file.refuse_special(path)
        size = path.stat().st_size
        if size > SIZE_MAX_OCTETS:
            raise InputError(
                f"{path}: found {size} octets, expected at most {SIZE_MAX_OCTETS}", hint=_HINT
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot read it: {error.strerror}",
            hint="check the path and its permissions",
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (octet {error.start})", hint=_HINT) from error
    return parse(text, str(path))


@collector.paused()
def parse(text: str, source: str) -> Plan:
    """The plan of what `dump` wrote; raises `InputError`, as `load`, calling the text `source`."""
    document = _document(text, source)
    try:
        found = _PlanObject.model_validate(document, context={"source": source})
    except ValidationError as error:
        raise _refusal(error, source) from None
    limits = {_port(name): GateLimits(**dict(stated)) for name, stated in found.limits.items()}
    return Plan(
        intent=found.intent.within(limits),
        streams={
            name: StreamPlan(
                tuple(
                    tuple(
                        Hop(PortRef(node, port), offset_ns, number)
                        for node, port, offset_ns, number in path
                    )
                    for path in stream.paths
                ),
                stream.latency_bound_ns,
            )
            for name, stream in found.streams.items()
        },
        gates={
            _port(name): GateControlList(
                gates.cycle_ns,
                tuple(GateEntry(_GATE_STATES[states], length) for states, length in gates.entries),
            )
            for name, gates in found.gates.items()
        },
        algorithm=found.algorithm,
        refused=found.refused,
    )


def _port(name: str) -> PortRef:
    node, _, port = name.partition("/")
    return PortRef(node, port)


def _text(plan: Plan) -> str:
    """One line for each stream and port, so that two plans can be compared line by line."""
    streams = {
        name: {
            "paths": [
                [[*hop.egress, hop.offset_ns, hop.traffic_class] for hop in path]
                for path in stream.paths
            ],
            "latency_bound_ns": stream.latency_bound_ns,
        }
        for name, stream in plan.streams.items()
    }
    gates = {
        str(port): {
            "cycle_ns": gates.cycle_ns,
            "entries": [[f"{e.gate_states:#04x}", e.interval_ns] for e in gates.entries],
        }
        for port, gates in plan.gates.items()
    }
    limits = {str(port): asdict(stated) for port, stated in plan.intent.stated_limits.items()}
    parts = [
        f'"format": {json.dumps(FORMAT)}',
        f'"intent": {json.dumps(plan.intent.document, ensure_ascii=False, indent=1)}',
        *([f'"limits": {_lines(limits)}'] if limits else []),
        f'"algorithm": {json.dumps(plan.algorithm)}',
        f'"streams": {_lines(streams)}',
        f'"refused": {_lines(plan.refused)}',
        f'"gates": {_lines(gates)}',
    ]
    return "{" + ",\n".join(parts) + "}\n"


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
            f"{where}: not JSON: {error.msg} (column {error.colno})", hint=_HINT
        ) from error
    except RecursionError as error:
        raise InputError(f"{source}: nested too deeply", hint=_HINT) from error
    except ValueError as error:
        raise InputError(f"{source}: {error}", hint=_HINT) from error
    if not isinstance(document, dict):
        raise InputError(f"{source}: found {_shown(document)}, expected {_OBJECT}", hint=_HINT)
    # First of all: another format may well have other keys.
    found = document.get("format", FORMAT)
    if found == _FORMAT_2:
        return _upgraded(document)
    if found != FORMAT:
        older = found in _OLDER_FORMATS
        raise InputError(
            f"{source}: format: found {_shown(found)}, expected {FORMAT!r}",
            hint="an older cnc wrote it: run `cnc plan` on the intent again" if older else _HINT,
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


def _refused(expected: str, found: str) -> PydanticCustomError:
    """What is wrong with a value, where the message must name another value than all of it."""
    return PydanticCustomError("refused", "{expected}", {"expected": expected, "found": found})


def _intent(info: ValidationInfo) -> Intent:
    """The intent of the document: the first of its fields, so that all others can be held to it."""
    intent = info.context["intent"] if info.context else None
    if intent is None:
        raise PydanticOmit  # the intent itself is refused
    assert isinstance(intent, Intent)  # noqa: S101
    return intent


def _read_intent(value: Any, info: ValidationInfo) -> Intent:
    if not isinstance(value, dict):
        raise ValueError(_OBJECT)
    assert info.context is not None  # noqa: S101  `parse` gives it
    intent = intent_room.from_document(value, f"{info.context['source']}: intent")
    info.context["intent"] = intent
    return intent


def _whole_number(low: int) -> PlainValidator:
    def read(value: Any) -> int:
        if type(value) is not int or not low <= value <= _TIME_MAX_NS:  # True is an int, too
            raise ValueError(f"an integer from {low} to {_TIME_MAX_NS}")
        return value

    return PlainValidator(read)


def _check_port(port: PortRef, info: ValidationInfo) -> None:
    if port not in _intent(info).network.links:
        expected = "a connected port of the intent, NODE/PORT"
        raise _refused(expected, _shown(str(port).rstrip("/")))


def _known_port(name: str, info: ValidationInfo) -> str:
    _check_port(_port(name), info)
    return name


def _known_stream(name: str, info: ValidationInfo) -> str:
    if name not in _intent(info).streams:
        raise ValueError("a stream of the intent in this file")
    return name


def _class_number(number: int, info: ValidationInfo) -> int:
    numbers = sorted(each.number for each in _intent(info).classes.values())
    if number not in numbers:
        raise ValueError(f"the traffic-class of a class: one of {', '.join(map(str, numbers))}")
    return number


def _hop_shape(value: Any) -> Any:
    match value:
        case [str(), str(), _, _]:
            return value
    raise ValueError("[node, port, offset_ns, traffic_class]")


def _on_known_port(hop: _HopValues, info: ValidationInfo) -> _HopValues:
    _check_port(PortRef(*hop[:2]), info)
    return hop


def _entry_shape(value: Any) -> Any:
    match value:
        case [str(states), _] if states in _GATE_STATES:
            return value
    raise ValueError('["0x00" to "0xff", interval_ns]')


def _reason(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("the reason, a text")
    return value


def _algorithm(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("the name of an algorithm")
    return value


_Count = Annotated[int, _whole_number(0)]
_Positive = Annotated[int, _whole_number(1)]
_Port = Annotated[str, AfterValidator(_known_port)]
_Stream = Annotated[str, AfterValidator(_known_stream)]
_HopValues = tuple[str, str, _Count, Annotated[_Count, AfterValidator(_class_number)]]
_Hop = Annotated[_HopValues, BeforeValidator(_hop_shape), AfterValidator(_on_known_port)]
_Entry = Annotated[tuple[str, _Positive], BeforeValidator(_entry_shape)]


class _Object(BaseModel):
    """An object of the file: these keys and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _StreamObject(_Object):
    paths: Annotated[list[Annotated[list[_Hop], Field(min_length=1)]], Field(min_length=1)]
    latency_bound_ns: _Positive


class _GatesObject(_Object):
    cycle_ns: _Positive
    entries: Annotated[list[_Entry], Field(min_length=1)]


class _LimitsObject(_Object):
    entries_max: _Count
    interval_max_ns: _Count
    cycle_max_ns: _Count
    tick_ns: _Positive


class _PlanObject(_Object):
    """The whole file. The intent is read first: names and numbers in the rest must be its own."""

    format: str
    intent: Annotated[Any, PlainValidator(_read_intent)]
    algorithm: Annotated[str, PlainValidator(_algorithm)]
    streams: dict[_Stream, _StreamObject]
    refused: dict[_Stream, Annotated[str, PlainValidator(_reason)]]
    gates: dict[_Port, _GatesObject]
    limits: dict[_Port, _LimitsObject] = {}

    @field_validator("refused")
    @classmethod
    def _not_placed(cls, refused: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if both := [name for name in refused if name in info.data.get("streams", ())]:
            raise PydanticCustomError("placed", "{name}", {"name": both[0]})
        return refused


def _refusal(error: ValidationError, source: str) -> InputError:
    """The first thing that is wrong, in the words of this file."""
    detail = error.errors(include_url=False)[0]
    context = detail.get("ctx", {})
    place = tuple(step for step in detail["loc"] if step != "[key]")
    found, expected = _shown(detail["input"]), context.get("expected") or detail["msg"]
    match detail["type"]:
        case "value_error":
            expected = str(context["error"])
        case "refused":
            found = context["found"]
        case "placed":
            place = (*place, context["name"])
            found, expected = "it in streams as well", "it in one of the two"
        case "missing" | "extra_forbidden":
            missing = detail["type"] == "missing"
            place, key = place[:-1], place[-1]
            found = f"no {key}" if missing else _shown(key)
            expected = f"the keys {', '.join(_keys_at(place))}"
        case "list_type" | "too_short":
            expected = "a list [...] that is not empty"
        case "dict_type" | "model_type":
            expected = _OBJECT
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    where = f"{source}: {where.removeprefix('.')}" if place else source
    return InputError(f"{where}: found {found}, expected {expected}", hint=_HINT)


def _keys_at(place: Sequence[str | int]) -> list[str]:
    """The keys that the object at a place must have."""
    of_table: dict[str, type[_Object]] = {
        "streams": _StreamObject,
        "gates": _GatesObject,
        "limits": _LimitsObject,
    }
    model: type[_Object] = of_table[str(place[0])] if place else _PlanObject
    return [name for name, field in model.model_fields.items() if field.is_required()]


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
