"""A plan as a file: JSON with the operator's intent in it, so that it stands on its own.

    {"format": "cnc-plan/2",
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

A plan file is input like any other: `load` checks shapes, ranges and names. Whether the plan keeps
its promises is for `cnc.check` to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from cnc import collector, whole_file
from cnc import intent as intent_room
from cnc.errors import InputError
from cnc.model import GateControlList, GateEntry, GateLimits, Hop, Plan, PortRef, StreamPlan

FORMAT = "cnc-plan/2"
_OLDER_FORMATS = ("cnc-plan/1",)
SIZE_MAX_OCTETS = 256 * 1024 * 1024
_GATE_STATES = {f"{states:#04x}": states for states in range(256)}
_TIME_MAX_NS = 2**63 - 1  # the kernel's and YANG's int64
_SHOWN_MAX = 60
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
    return _Reader(source).plan(text)


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


class _Reader:
    """Turns the document into a plan; every refusal names the file and the path in it."""

    def __init__(self, source: str) -> None:
        self._source = source

    def plan(self, text: str) -> Plan:
        document = self._table("", self._json(text))
        # First of all: another format may well have other keys.
        if document.get("format", FORMAT) != FORMAT:
            raise self._other_format(document["format"])
        limits = self._table("limits", document.pop("limits", {}))
        found = self._object(
            "", document, ("format", "intent", "algorithm", "streams", "refused", "gates")
        )
        self._intent = intent_room.from_document(
            self._table("intent", found["intent"]), f"{self._source}: intent"
        )
        self._intent = self._intent.within(
            dict(self._limits(name, value) for name, value in limits.items())
        )
        self._class_numbers = sorted(c.number for c in self._intent.classes.values())
        algorithm = found["algorithm"]
        if not isinstance(algorithm, str):
            raise self._refusal("algorithm", algorithm, "the name of an algorithm")
        streams = self._table("streams", found["streams"])
        refused = self._table("refused", found["refused"])
        gates = self._table("gates", found["gates"])
        return Plan(
            intent=self._intent,
            streams={name: self._stream(name, value) for name, value in streams.items()},
            gates=dict(self._gates(name, value) for name, value in gates.items()),
            algorithm=algorithm,
            refused={name: self._reason(name, value, streams) for name, value in refused.items()},
        )

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            where = f"{self._source}:{error.lineno}"
            raise InputError(
                f"{where}: not JSON: {error.msg} (column {error.colno})", hint=_HINT
            ) from error
        except RecursionError as error:
            raise self._error("", "nested too deeply") from error
        except ValueError as error:
            raise self._error("", str(error)) from error

    def _stream(self, name: str, value: Any) -> StreamPlan:
        path = self._known_stream("streams", name)
        found = self._object(path, value, ("paths", "latency_bound_ns"))
        bound = self._integer(f"{path}.latency_bound_ns", found["latency_bound_ns"], 1)
        paths = self._list(f"{path}.paths", found["paths"])
        return StreamPlan(
            tuple(self._way(f"{path}.paths[{i}]", way) for i, way in enumerate(paths)), bound
        )

    def _reason(self, name: str, value: Any, streams: Mapping[str, Any]) -> str:
        path = self._known_stream("refused", name)
        if name in streams:
            raise self._error(path, "found it in streams as well, expected it in one of the two")
        if not isinstance(value, str) or not value:
            raise self._refusal(path, value, "the reason, a text")
        return value

    def _known_stream(self, table: str, name: str) -> str:
        """The path of a stream's entry in `table`."""
        path = f"{table}.{name}"
        if name not in self._intent.streams:
            raise self._refusal(path, name, "a stream of the intent in this file")
        return path

    def _way(self, path: str, value: Any) -> tuple[Hop, ...]:
        return tuple(
            self._hop(f"{path}[{i}]", hop) for i, hop in enumerate(self._list(path, value))
        )

    def _hop(self, path: str, value: Any) -> Hop:
        match value:
            case [str(node), str(port), offset, number]:
                return Hop(
                    self._port(path, PortRef(node, port)),
                    self._integer(f"{path}[2]", offset, 0),
                    self._class(f"{path}[3]", number),
                )
        raise self._refusal(path, value, "[node, port, offset_ns, traffic_class]")

    def _class(self, path: str, value: Any) -> int:
        number = self._integer(path, value, 0)
        if number not in self._class_numbers:
            numbers = ", ".join(map(str, self._class_numbers))
            raise self._refusal(path, number, f"the traffic-class of a class: one of {numbers}")
        return number

    def _limits(self, name: str, value: Any) -> tuple[PortRef, GateLimits]:
        path = f"limits.{name}"
        ref = self._named_port(path, name)
        found = self._object(path, value, tuple(f.name for f in fields(GateLimits)))
        return ref, GateLimits(
            **{
                key: self._integer(f"{path}.{key}", found[key], 1 if key == "tick_ns" else 0)
                for key in found
            }
        )

    def _gates(self, name: str, value: Any) -> tuple[PortRef, GateControlList]:
        path = f"gates.{name}"
        ref = self._named_port(path, name)
        found = self._object(path, value, ("cycle_ns", "entries"))
        cycle = self._integer(f"{path}.cycle_ns", found["cycle_ns"], 1)
        entries = self._list(f"{path}.entries", found["entries"])
        return ref, GateControlList(
            cycle, tuple(self._entry(f"{path}.entries[{i}]", e) for i, e in enumerate(entries))
        )

    def _entry(self, path: str, value: Any) -> GateEntry:
        match value:
            case [str(states), interval] if states in _GATE_STATES:
                return GateEntry(_GATE_STATES[states], self._integer(f"{path}[1]", interval, 1))
        raise self._refusal(path, value, '["0x00" to "0xff", interval_ns]')

    def _named_port(self, path: str, name: str) -> PortRef:
        node, _, port = name.partition("/")
        return self._port(path, PortRef(node, port))

    def _port(self, path: str, port: PortRef) -> PortRef:
        if port not in self._intent.network.links:
            raise self._refusal(
                path, str(port).rstrip("/"), "a connected port of the intent, NODE/PORT"
            )
        return port

    def _object(self, path: str, value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
        table = self._table(path, value)
        expected = f"the keys {', '.join(keys)}"
        if strange := [key for key in table if key not in keys]:
            raise self._refusal(path, strange[0], expected)
        if missing := [key for key in keys if key not in table]:
            raise self._error(path, f"found no {missing[0]}, expected {expected}")
        return table

    def _other_format(self, found: Any) -> InputError:
        refusal = self._refusal("format", found, repr(FORMAT))
        if found in _OLDER_FORMATS:
            refusal.hint = "an older cnc wrote it: run `cnc plan` on the intent again"
        return refusal

    def _table(self, path: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._refusal(path, value, "an object {...}")
        return value

    def _list(self, path: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise self._refusal(path, value, "a list [...] that is not empty")
        return value

    def _integer(self, path: str, value: Any, low: int, high: int = _TIME_MAX_NS) -> int:
        if type(value) is not int or not low <= value <= high:  # True is an int, too
            raise self._refusal(path, value, f"an integer from {low} to {high}")
        return value

    def _refusal(self, path: str, found: Any, expected: str) -> InputError:
        shown = repr(found) if isinstance(found, str) else json.dumps(found)
        if len(shown) > _SHOWN_MAX:
            shown = shown[:_SHOWN_MAX] + "…"
        return self._error(path, f"found {shown}, expected {expected}")

    def _error(self, path: str, message: str) -> InputError:
        where = f"{self._source}: {path}" if path else self._source
        return InputError(f"{where}: {message}", hint=_HINT)
