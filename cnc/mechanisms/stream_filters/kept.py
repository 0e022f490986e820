"""Stream filters in the history, a row each: of those without a flow meter as versions have written
them that knew none, which still read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cnc.mechanism import Kept
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FlowMeter,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
    StreamGate,
)


@dataclass(frozen=True, slots=True)
class FilterRow:
    """A filter without a flow meter."""

    of: FilteredStream | Strangers
    priority: int
    max_sdu_octets: int
    gate: StreamGate
    policing: Policing


@dataclass(frozen=True, slots=True)
class MeteredRow(FilterRow):
    """One with a flow meter."""

    meter: FlowMeter


def _rows(its: StreamFilters) -> Iterator[FilterRow]:
    for each in its.filters:
        plain = each.of, each.priority, each.max_sdu_octets, each.gate, each.policing
        yield MeteredRow(*plain, each.meter) if each.meter else FilterRow(*plain)


def _part(rows: tuple[FilterRow, ...]) -> StreamFilters:
    return StreamFilters(
        tuple(
            StreamFilter(
                each.of,
                each.priority,
                each.max_sdu_octets,
                each.gate,
                each.policing,
                each.meter if isinstance(each, MeteredRow) else None,
            )
            for each in rows
        )
    )


KEPT = Kept(key="filters", row=MeteredRow | FilterRow, rows=_rows, part=_part)
