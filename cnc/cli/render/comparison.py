"""What `cnc diff` prints: how two plans differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cnc.cli.render.output import new_table, print_json, print_table, some
from cnc.cli.terminal import echo
from cnc.model import GateControlList, Hop, PortRef, StreamPlan
from cnc.support.format import counted, duration, gate_summary

if TYPE_CHECKING:
    from cnc.model import LoopDelay
    from cnc.plans.difference import Change, PlanDifference

_ROWS_MAX = 100
_NOTHING = "–"  # noqa: RUF001
_MAY_BE_MISSING = (
    "addresses",
    "jitter_ns",
    "loops",
    "macs",
)  # of the JSON, where nothing differs in it


class _Row(NamedTuple):
    of: str
    what: str
    before: str
    after: str


def plan_difference(found: PlanDifference, *, as_json: bool) -> None:
    if as_json:
        from cnc.json_output.comparison import Difference  # noqa: PLC0415

        left_out = {part for part in _MAY_BE_MISSING if not getattr(found, part)}
        print_json(Difference.model_validate(found).model_dump(exclude=left_out))
        return
    if found.same:
        echo("no difference in streams, gate control lists or the figures that they depend on")
        return
    _names(found)
    wanted = _requirements(found)
    placed = [row for name, its in found.placed.items() for row in _placement(name, its)]
    sent = [
        _Row(name, "address", str(its.before or _NOTHING), str(its.after or _NOTHING))
        for name, its in found.addresses.items()
    ]
    jitter = [row for name, its in found.jitter_ns.items() for row in _jitter(name, its)]
    _print_rows("stream", wanted + placed + sent + jitter)
    _print_rows("loop", [_loop(name, its) for name, its in found.loops.items()])
    macs = [
        _Row(f"end station {name}", "mac", its.before or _NOTHING, its.after or _NOTHING)
        for name, its in found.macs.items()
    ]
    foundations = (row for name, its in found.foundations.items() for row in _foundation(name, its))
    _print_rows("rests on", [*foundations, *macs])
    _print_rows("port", [_gates(port, its) for port, its in found.gates.items()])


def streams(found: PlanDifference) -> None:
    """What a push changes for streams, before anything is sent; `moves` tells which ones move."""
    _names(found)
    _print_rows("stream", _requirements(found))
    kept = found.kept
    if kept and found.changes_streams:
        echo(f"{counted(kept, 'other stream')} {'keeps' if kept == 1 else 'keep'} path and offsets")


def _names(found: PlanDifference) -> None:
    for names, what in (
        (found.added, "added"),
        (found.removed, "removed"),
        (found.refused, "new but not placed"),
    ):
        if names:
            echo(f"streams {what}: {some(names, ', ')}")


def _requirements(found: PlanDifference) -> list[_Row]:
    return [row for name, its in found.wanted.items() for row in _fields(name, its)]


def _print_rows(of: str, rows: Sequence[_Row]) -> None:
    if rows:
        table = new_table("", of, "what", "before", "after")
        for row in rows[:_ROWS_MAX]:
            table.add_row(*row)
        print_table(table, len(rows), whole="--json")


def _fields(name: str, change: Change[Any]) -> Iterator[_Row]:
    """A row for each field that differs, if there is something on both sides."""
    if change.before is None or change.after is None:
        return
    for field in dataclasses.fields(change.before):
        before, after = (getattr(side, field.name) for side in (change.before, change.after))
        if before != after:
            words = field.name.removesuffix("_ns").replace("_", " ")
            yield _Row(name, words, _value(field.name, before), _value(field.name, after))


def _foundation(name: str, change: Change[object]) -> Iterator[_Row]:
    if change.before is None:
        yield _Row(name, "", _NOTHING, "new")
    elif change.after is None:
        yield _Row(name, "", "there", _NOTHING)
    else:
        yield from _fields(name, change)


def _value(name: str, value: Any) -> str:
    """A field's value in words; its name tells the unit."""
    if value is None:
        return _NOTHING
    if name.endswith("_ns"):
        return duration(value)
    if isinstance(value, tuple) and not isinstance(value, PortRef):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {its}" for key, its in sorted(value.items())) or _NOTHING
    if dataclasses.is_dataclass(value):
        its = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return ", ".join(f"{name.replace('_', ' ')} {_value(name, part)}" for name, part in its)
    return str(value)


def _placement(name: str, change: Change[StreamPlan]) -> Iterator[_Row]:
    """Where a stream that stays goes now, when it leaves, in which class, and its bound."""
    before, after = change.before, change.after
    if before is None or after is None:
        return
    routes = [_route(before), _route(after)]
    if routes[0] != routes[1]:
        yield _Row(name, "path", *routes)
    else:
        yield from _offsets(name, before, after)
    classes = [str(its.hops[0].traffic_class) for its in (before, after)]
    if classes[0] != classes[1]:
        yield _Row(name, "traffic class", *classes)
    if before.latency_bound_ns != after.latency_bound_ns:
        bounds = [duration(its.latency_bound_ns) for its in (before, after)]
        yield _Row(name, "latency bound", *bounds)


def _offsets(name: str, before: StreamPlan, after: StreamPlan) -> Iterator[_Row]:
    """The first port on the way that a stream leaves at another time, or in another window."""
    moved = [
        (mine, its)
        for mine, its in zip(before.hops, after.hops, strict=True)
        if (mine.offset_ns, mine.window_ns) != (its.offset_ns, its.window_ns)
    ]
    if moved:
        mine, its = moved[0]
        others = f" and {counted(len(moved) - 1, 'port')} more" if len(moved) > 1 else ""
        yield _Row(
            name,
            f"leaves {mine.egress}{others}",
            _times(mine),
            _times(its),
        )


def _times(hop: Hop) -> str:
    if hop.is_shared:
        return f"from {duration(hop.offset_ns)} to {duration(hop.window_end_ns)}"
    return f"at {duration(hop.offset_ns)}"


def _jitter(name: str, change: Change[Mapping[str, int]]) -> Iterator[_Row]:
    """A row for each listener whose bound differs."""
    before, after = change.before or {}, change.after or {}
    for listener in sorted(before.keys() | after.keys()):
        bounds = [before.get(listener), after.get(listener)]
        if bounds[0] != bounds[1]:
            words = [_NOTHING if bound is None else duration(bound) for bound in bounds]
            yield _Row(name, f"jitter bound at {listener}", *words)


def _loop(name: str, change: Change[LoopDelay]) -> _Row:
    delays = (
        _NOTHING if its is None else duration(its.total_ns) for its in (change.before, change.after)
    )
    return _Row(name, "delay", *delays)


def _route(placed: StreamPlan) -> str:
    return " + ".join(" ".join(str(hop.egress) for hop in path) for path in placed.paths)


def _gates(port: PortRef, change: Change[GateControlList]) -> _Row:
    from cnc.plans.difference import differ_from_ns  # noqa: PLC0415

    before, after = change.before, change.after
    what = "gate control list"
    if before and after and before.cycle_ns == after.cycle_ns:
        what += f", from {duration(differ_from_ns(before, after))} on"
    return _Row(str(port), what, gate_summary(before), gate_summary(after))
