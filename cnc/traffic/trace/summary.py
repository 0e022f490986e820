"""What a trace says of each flow: how long its frames were in each layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cnc.traffic.measure import Spread, spread
from cnc.traffic.trace.account import Account, Layer


@dataclass(frozen=True, slots=True)
class TracedFlow:
    """The frames of a flow by one path, counted from 0.

    `lost` never came to the listener; `incomplete` did, and a stamp of theirs is absent. The
    figures are those of the others, and empty if there are none. `repeated` are copies that came
    once more, by whichever path; the first path has them.
    """

    flow: str
    listener: str
    path: int
    frames: int
    lost: int
    incomplete: int
    repeated: int
    layers: Mapping[Layer, Spread]
    total: Spread | None


def summarise(accounts: Iterable[Account]) -> list[TracedFlow]:
    """One for each flow and path, in the order in which they first occur."""
    by_way: dict[tuple[str, int], list[Account]] = {}
    for each in accounts:
        by_way.setdefault((each.row.flow.name, each.row.path or 0), []).append(each)
    return [_summary(path, same) for (_, path), same in by_way.items()]


def _summary(path: int, accounts: Sequence[Account]) -> TracedFlow:
    flow = accounts[0].row.flow
    rows = [each.row for each in accounts if each.row.path is not None]
    complete = [each for each in accounts if each.row.is_complete]
    lost = sum(row.delivered_ns is None for row in rows)
    totals_ns = [total_ns for each in complete if (total_ns := each.total_ns) is not None]
    layers = {
        layer: spread(durations_ns)
        for layer in Layer
        if (durations_ns := [ns for each in complete if (ns := each.layer_ns(layer)) is not None])
    }
    return TracedFlow(
        flow=flow.name,
        listener=flow.listener,
        path=path,
        frames=len(rows),
        lost=lost,
        incomplete=len(rows) - lost - len(complete),
        repeated=len(accounts) - len(rows),
        layers=layers,
        total=spread(totals_ns) if totals_ns else None,
    )
