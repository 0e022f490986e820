"""What `cnc lab trace` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo
from cnc.format import counted, microseconds

if TYPE_CHECKING:
    from cnc.lab.platform import Platform
    from cnc.traffic.trace.account import Account
    from cnc.traffic.trace.margins import HopMargin
    from cnc.traffic.trace.outliers import Outliers
    from cnc.traffic.trace.summary import TracedFlow

_BAR_CELLS = 40
_CAUSES_MAX = 3


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to print of a trace; None: not asked for."""

    platform: Platform
    start_ns: int
    flows: Sequence[TracedFlow]
    margins: Sequence[HopMargin]
    outliers: Sequence[Outliers] | None
    frames: Sequence[Account] | None


def trace(found: Found, *, as_json: bool) -> None:
    """The layers of each flow and the margins of its hops; or one frame, or the outliers."""
    if as_json:
        from cnc.cli.json_output.trace import Trace  # noqa: PLC0415

        print_json(Trace.model_validate(found))
        return
    if found.frames is not None:
        for each in found.frames:
            _frame(each, found.start_ns)
    if found.outliers is not None:
        _outliers(found.outliers)
    if found.frames is None and found.outliers is None:
        _layers(found.flows)
        _margins(found.margins)
    echo(f"Measured on {found.platform}.")


def _layers(flows: Sequence[TracedFlow]) -> None:
    from cnc.traffic.trace.account import Layer  # noqa: PLC0415

    # What is 0 in most traces has a column in others only.
    shown = [name for name in ("path", "lost", "incomplete") if any(map(attrgetter(name), flows))]
    table = new_table(
        "layers: frames, and mean microseconds in each layer",
        *("flow", ">frames", *(f">{name}" for name in shown)),
        *(*(f">{layer}" for layer in Layer), ">total", ">max"),
    )
    for flow in flows:
        counts = {"path": flow.path + 1, "lost": flow.lost, "incomplete": flow.incomplete}
        means = (flow.layers.get(layer) for layer in Layer)
        table.add_row(
            *(flow.flow, str(flow.frames), *(str(counts[name]) for name in shown)),
            *(microseconds(mean.mean_ns) if mean else "" for mean in means),
            microseconds(flow.total.mean_ns) if flow.total else "",
            microseconds(flow.total.max_ns) if flow.total else "",
        )
    print_table(table)


def _margins(margins: Sequence[HopMargin]) -> None:
    table = new_table(
        "margins of the plan: microseconds for which a frame may come late to a port",
        *("stream", ">path", "port", ">processing", ">clock", ">start", ">turn"),
        *(">margin", ">used at most"),
    )
    for hop in margins:
        parts_ns = (hop.processing_ns, hop.clock_ns, hop.start_ns, hop.turn_ns, hop.margin_ns)
        table.add_row(
            *(hop.flow, str(hop.path + 1), str(hop.port)),
            *(microseconds(part_ns) for part_ns in parts_ns),
            "" if hop.used_max_ns is None else microseconds(hop.used_max_ns),
        )
    print_table(table)


def _frame(account: Account, start_ns: int) -> None:
    from cnc.chart.terminal import cells  # noqa: PLC0415

    row = account.row
    path = "" if row.path is None else f" by path {row.path + 1}"
    planned = microseconds(row.planned_ns - start_ns)
    end = "lost" if row.delivered_ns is None else "incomplete"
    if account.total_ns is not None:
        end = f"{microseconds(account.total_ns)} µs"
    title = f"{row.flow.name}/{row.seq}, {row.flow.talker} to {row.flow.listener}{path} "
    title += f"({row.kind}), planned {planned} µs after the start: {end}"
    table = new_table(title, ">at µs", ">for µs", "where", "layer", "when")
    span_ns = sum(part.duration_ns or 0 for part in account.parts) or 1
    begin_ns: int | None = 0
    for part in account.parts:
        if part.duration_ns == 0:
            continue
        at, bar = "", ""
        if begin_ns is not None:
            at = microseconds(begin_ns)
        if begin_ns is not None and part.duration_ns is not None:
            bar = cells([(begin_ns, begin_ns + part.duration_ns)], span_ns, _BAR_CELLS)
        lasted = "" if part.duration_ns is None else microseconds(part.duration_ns)
        table.add_row(at, lasted, part.place, part.layer, bar)
        known = begin_ns is not None and part.duration_ns is not None
        begin_ns = (begin_ns or 0) + (part.duration_ns or 0) if known else None
    print_table(table)


def _outliers(outliers: Sequence[Outliers]) -> None:
    table = new_table(
        "outliers: frames later than Q3 + 1.5 IQR, and how many of them a part was such in, too",
        *("flow", ">path", ">frames", ">threshold µs", ">outliers", "causes"),
    )
    for way in (each for each in outliers if each.seqs):
        named = [f"{place} {layer} {count}" for place, layer, count in way.causes]
        causes = ", ".join(named[:_CAUSES_MAX])
        if len(named) > _CAUSES_MAX:
            causes += f", and {len(named) - _CAUSES_MAX} more"
        table.add_row(
            *(way.flow, str(way.path + 1), str(way.frames)),
            *(microseconds(round(way.threshold_ns)), str(len(way.seqs)), causes),
        )
    print_table(table)
    late = sum(len(way.seqs) for way in outliers)
    frames = sum(way.frames for way in outliers)
    echo(f"{counted(late, 'outlier')} of {counted(frames, 'frame')}.")
