"""The shape of a plan file: its keys, their types and ranges, names that its intent must have.

`cnc.plans.file` describes the format. Messages read `FILE: PATH: found X, expected Y`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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

from cnc import intent as intent_room
from cnc.errors import InputError
from cnc.loops.model import Loops
from cnc.model import Forwarding, Intent, PortRef, Shaper

_MAC = re.compile("([0-9a-f]{2}:){5}[0-9a-f]{2}")
_VLAN_ID_MAX = 4095  # twelve bits; which of them a stream may have is for the judge to say
GATE_STATES = {f"{states:#04x}": states for states in range(256)}
OBJECT = "an object {...}"
HINT = "write plan files with `cnc plan`; edit the intent instead of the plan"
_TIME_MAX_NS = 2**63 - 1  # the kernel's and YANG's int64
_SHOWN_MAX = 60


def port_of(name: str) -> PortRef:
    """The port that is written `node/port`."""
    node, _, port = name.partition("/")
    return PortRef(node, port)


def _refused(expected: str, found: str) -> PydanticCustomError:
    """What is wrong with a value, where the message must name another value than all of it."""
    return PydanticCustomError("refused", "{expected}", {"expected": expected, "found": found})


def _intent(info: ValidationInfo) -> Intent:
    """The intent of the document: the first of its fields, so that all others can be held to it."""
    intent = info.context.get("intent") if info.context else None
    if intent is None:
        raise PydanticOmit  # the intent itself is refused
    assert isinstance(intent, Intent)  # noqa: S101
    return intent


def _read_intent(value: Any, info: ValidationInfo) -> Intent:
    if not isinstance(value, dict):
        raise ValueError(OBJECT)
    assert info.context is not None  # noqa: S101  `parse` gives it
    intent = intent_room.from_document(value, f"{info.context['source']}: intent", of_plan=True)
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
        raise _refused(expected, shown(str(port).rstrip("/")))


def _known_port(name: str, info: ValidationInfo) -> str:
    _check_port(port_of(name), info)
    return name


def _known_node(name: str, info: ValidationInfo) -> str:
    if name not in _intent(info).network.managed:
        raise ValueError("a switch or a managed end station of the intent in this file")
    return name


def _known_stream(name: str, info: ValidationInfo) -> str:
    if name not in _intent(info).streams:
        raise ValueError("a stream of the intent in this file")
    return name


def _known_loop(name: str, info: ValidationInfo) -> str:
    if name not in _intent(info)[Loops].by_name:
        raise ValueError("a loop of the intent in this file")
    return name


def _known_listener(name: str, info: ValidationInfo) -> str:
    if all(name not in stream.listeners for stream in _intent(info).streams.values()):
        raise ValueError("a listener of a stream of the intent in this file")
    return name


def _class_number(number: int, info: ValidationInfo) -> int:
    numbers = sorted(each.number for each in _intent(info).classes.values())
    if number not in numbers:
        raise ValueError(f"the traffic-class of a class: one of {', '.join(map(str, numbers))}")
    return number


def _hop_shape(value: Any) -> Any:
    match value:
        case [str(), str(), _, _]:
            return [*value, 0]
        case [str(), str(), _, _, window_ns] if window_ns != 0:
            return value
    raise ValueError("[node, port, offset_ns, traffic_class] or the same with window_ns")


def _on_known_port(hop: _HopValues, info: ValidationInfo) -> _HopValues:
    _check_port(PortRef(*hop[:2]), info)
    return hop


def _entry_shape(value: Any) -> Any:
    match value:
        case [str(states), _] if states in GATE_STATES:
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


def _mac(value: Any) -> str:
    if not isinstance(value, str) or not _MAC.fullmatch(value):
        raise ValueError('a MAC address such as "03:54:53:4e:00:01"')
    return value


def _vlan_id(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _VLAN_ID_MAX:
        raise ValueError(f"an integer from 0 to {_VLAN_ID_MAX}")
    return value


_Count = Annotated[int, _whole_number(0)]
_Positive = Annotated[int, _whole_number(1)]
_Port = Annotated[str, AfterValidator(_known_port)]
_Stream = Annotated[str, AfterValidator(_known_stream)]
_Listener = Annotated[str, AfterValidator(_known_listener)]
_HopValues = tuple[str, str, _Count, Annotated[_Count, AfterValidator(_class_number)], _Count]
_Hop = Annotated[_HopValues, BeforeValidator(_hop_shape), AfterValidator(_on_known_port)]
_Entry = Annotated[tuple[str, _Positive], BeforeValidator(_entry_shape)]


class _Object(BaseModel):
    """An object of the file: these keys and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _StreamObject(_Object):
    paths: Annotated[list[Annotated[list[_Hop], Field(min_length=1)]], Field(min_length=1)]
    latency_bound_ns: _Positive
    interval_ns: _Positive | None = None
    shaper: Shaper | None = None


class _GatesObject(_Object):
    cycle_ns: _Positive
    entries: Annotated[list[_Entry], Field(min_length=1)]


class _LimitsObject(_Object):
    entries_max: _Count
    interval_max_ns: _Count
    cycle_max_ns: _Count
    tick_ns: _Positive
    interval_min_ns: _Count = 0


class MeasuredObject(_Object):
    port: _Port
    maximum_ns: _Count
    count: _Positive


class _LoopObject(_Object):
    sensor_ns: _Positive
    compute_ns: _Count
    wait_ns: _Count
    actuator_ns: _Positive


class _AddressObject(_Object):
    destination_mac: Annotated[str, PlainValidator(_mac)]
    vlan_id: Annotated[int, PlainValidator(_vlan_id)]


class GateMarginObject(_Object):
    value_ns: _Count
    measured: MeasuredObject | None = None


class ClocksApartObject(_Object):
    first: Annotated[str, AfterValidator(_known_node)]
    second: Annotated[str, AfterValidator(_known_node)]
    apart_ns: _Count
    links: _Count


class ClockErrorObject(_Object):
    value_ns: _Positive
    measured: ClocksApartObject


class TalkerLatenessObject(_Object):
    value_ns: _Count
    measured: MeasuredObject


def _talker(name: Any, info: ValidationInfo) -> str:
    """An end station of which the intent states no lateness."""
    stations = _intent(info).network.end_stations
    if not isinstance(name, str) or name not in stations:
        raise _refused("an end station of the intent", shown(name))
    if _intent(info).states_lateness(name):
        raise _refused("none, since the intent states one", "a lateness of its talkers")
    return name


def _not_stated(found: GateMarginObject | None, info: ValidationInfo) -> GateMarginObject | None:
    if found and _intent(info).states_gate_margin:
        raise _refused("none, since the intent states one", "a gate margin")
    return found


def _if_measured(found: ClockErrorObject | None, info: ValidationInfo) -> ClockErrorObject | None:
    is_wanted = _intent(info).wants_measured_clock_error
    if found and not is_wanted:
        raise _refused("none, since the intent states one", "a clock error")
    if is_wanted and not found:
        raise _refused("the one that was measured, since the intent states none", "no clock error")
    return found


def _of_bridged(
    found: dict[str, _AddressObject], info: ValidationInfo
) -> dict[str, _AddressObject]:
    """Every planned stream of a bridged network has an address, and no other one."""
    if _intent(info).network.forwarding is not Forwarding.BRIDGED:
        if found:
            raise _refused("none, since the intent's forwarding is routed", "addresses")
        return found
    planned = info.data.get("streams", {})
    if missing := sorted(planned.keys() - found.keys()):
        expected = "one for each stream of the plan, since the intent's forwarding is bridged"
        raise _refused(expected, f"no address of {shown(missing[0])}")
    if stray := sorted(found.keys() - planned.keys()):
        raise _refused("only streams of the plan", f"an address of {shown(stray[0])}")
    return found


class DecisionObject(_Object):
    version: _Positive
    rows: list[Any]


class PlanObject(_Object):
    """The whole file. The intent is read first: names and numbers in the rest must be its own."""

    format: str
    intent: Annotated[Any, PlainValidator(_read_intent)]
    algorithm: Annotated[str, PlainValidator(_algorithm)]
    streams: dict[_Stream, _StreamObject]
    jitter_ns: dict[_Stream, dict[_Listener, _Count]] = {}
    recovery_ns: dict[_Stream, _Count] = {}
    loops: dict[Annotated[str, AfterValidator(_known_loop)], _LoopObject] = {}
    refused: dict[_Stream, Annotated[str, PlainValidator(_reason)]]
    gates: dict[_Port, _GatesObject]
    limits: dict[_Port, _LimitsObject] = {}
    gate_margin: Annotated[GateMarginObject | None, AfterValidator(_not_stated)] = None
    clock_error: Annotated[
        ClockErrorObject | None, AfterValidator(_if_measured), Field(validate_default=True)
    ] = None
    talker_lateness: dict[Annotated[str, PlainValidator(_talker)], TalkerLatenessObject] = {}
    addresses: Annotated[
        dict[_Stream, _AddressObject], AfterValidator(_of_bridged), Field(validate_default=True)
    ] = {}
    decisions: dict[str, DecisionObject] = {}

    @field_validator("refused")
    @classmethod
    def _not_placed(cls, refused: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if both := [name for name in refused if name in info.data.get("streams", ())]:
            raise PydanticCustomError("placed", "{name}", {"name": both[0]})
        return refused


def refusal(error: ValidationError, source: str) -> InputError:
    """The first thing that is wrong, in the words of this file."""
    detail = error.errors(include_url=False)[0]
    context = detail.get("ctx", {})
    place = tuple(step for step in detail["loc"] if step != "[key]")
    found, expected = shown(detail["input"]), context.get("expected") or detail["msg"]
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
            found = f"no {key}" if missing else shown(key)
            expected = f"the keys {', '.join(_keys_at(place))}"
        case "list_type" | "too_short":
            expected = "a list [...] that is not empty"
        case "dict_type" | "model_type":
            expected = OBJECT
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    where = f"{source}: {where.removeprefix('.')}" if place else source
    return InputError(f"{where}: found {found}, expected {expected}", hint=HINT)


def _keys_at(place: Sequence[str | int]) -> list[str]:
    """The keys that the object at a place must have."""
    of_table: dict[str, type[_Object]] = {
        "streams": _StreamObject,
        "gates": _GatesObject,
        "limits": _LimitsObject,
        "addresses": _AddressObject,
        "loops": _LoopObject,
        "decisions": DecisionObject,
        "talker_lateness": MeasuredObject if len(place) > 2 else TalkerLatenessObject,  # noqa: PLR2004
        "clock_error": ClocksApartObject if len(place) > 1 else ClockErrorObject,
        "gate_margin": MeasuredObject if len(place) > 1 else GateMarginObject,
    }
    model: type[_Object] = of_table[str(place[0])] if place else PlanObject
    return [name for name, field in model.model_fields.items() if field.is_required()]


def shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
