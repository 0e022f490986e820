"""Single frames, layer after layer: figure 3 of X-LAP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments.pictures import GREY
from cnc.testbed.experiments.trace_pictures.style import (
    HEAD_INCHES,
    LAYER_COLOURS,
    ROW_INCHES,
    legend,
    name_of,
    unit_of,
)
from cnc.testbed.traffic.trace.account import Account, Layer, Part
from cnc.testbed.traffic.trace.columns import PathColumns
from cnc.testbed.traffic.trace.stages import Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def frames(figure: Figure, paths: Sequence[PathColumns]) -> None:
    figure.set_size_inches(9, HEAD_INCHES + 2 * len(paths) * ROW_INCHES)
    axes = figure.subplots()
    labels: list[tuple[float, str]] = []
    scale, unit = unit_of(max(max(path.total_ns) for path in paths))
    seen = set()
    for number, path in enumerate(paths):
        order = sorted(range(len(path)), key=path.total_ns.__getitem__)
        for which, index in (("median", order[(len(order) - 1) // 2]), ("latest", order[-1])):
            row = len(labels) + number * 0.5
            begin_ns = 0
            for (_, layer), column in zip(path.places, path.parts_ns, strict=True):
                lasted_ns = column[index]
                if lasted_ns:
                    axes.barh(
                        *(row, lasted_ns * scale, 0.8, begin_ns * scale),
                        color=LAYER_COLOURS[layer],
                        edgecolor="white",
                        linewidth=0.4,
                        label=None if layer in seen else str(layer),
                    )
                    seen.add(layer)
                begin_ns += lasted_ns
            labels.append((row, f"{name_of(path, paths)}/{path.seqs[index]}, {which}"))
    axes.set_yticks([row for row, _ in labels], [label for _, label in labels])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(_since(unit, has_channel=Stage.CHANNEL in paths[0].stages))
    legend(figure, axes, 5, [str(layer) for layer in Layer])


def timeline(figure: Figure, accounts: Sequence[Account]) -> None:
    """Each copy of a frame from its planned instant on: where it was, and in which layer, as far as
    that is known."""
    known = [list(_since_planned(account)) for account in accounts]
    rows = sum(map(len, known))
    figure.set_size_inches(9, len(known) * HEAD_INCHES / 2 + max(rows, 1) * 0.8 * ROW_INCHES)
    panels = figure.subplots(
        len(known), squeeze=False, height_ratios=[len(parts) + 2 for parts in known]
    )
    for axes, account, parts in zip(panels.flat, accounts, known, strict=True):
        span_ns = max((begin_ns + lasted_ns for _, begin_ns, lasted_ns in parts), default=1)
        scale, unit = unit_of(span_ns)
        for row, (part, begin_ns, lasted_ns) in enumerate(parts):
            width = lasted_ns * scale
            axes.barh(row, width, 0.8, begin_ns * scale, color=LAYER_COLOURS[part.layer])
            axes.annotate(
                f"{width:.3f}",
                ((begin_ns + lasted_ns) * scale, row),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=GREY,
            )
        axes.set_yticks(range(len(parts)), [f"{part.place}  {part.layer}" for part, *_ in parts])
        axes.set_ylim(len(parts) - 0.4, -0.6)
        axes.set_xlim(0, 1.08 * span_ns * scale)  # so that the last figure has room
        axes.grid(visible=False, axis="y")
        axes.set_title(_copy(account), fontsize=10, loc="left")
        axes.set_xlabel(_since(unit, has_channel=account.row.has_channel))


def _since_planned(account: Account) -> Iterator[tuple[Part, int, int]]:
    """The parts that took time, with when they began and how long they took, until one is absent:
    when those behind it began is not known."""
    begin_ns = 0
    for part in account.parts:
        if part.duration_ns is None:
            return
        if part.duration_ns:
            yield part, begin_ns, part.duration_ns
        begin_ns += part.duration_ns


def _since(unit: str, *, has_channel: bool) -> str:
    """What an axis of time says; two hosts have no common clock, and so no channel."""
    return f"{unit} after the planned instant" if has_channel else f"{unit}, without the channel"


def _copy(account: Account) -> str:
    row = account.row
    path = "" if row.path is None else f", path {row.path + 1}"
    return f"{row.flow.name}/{row.seq}, {row.flow.talker} to {row.flow.listener}{path} ({row.kind})"
