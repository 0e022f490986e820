"""What stream filters count of the frames that do not come as planned (802.1Q 12.31.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from cnc.data_tree.tree import BridgeReport
from cnc.mechanism import Names, stream_of
from cnc.mechanisms.stream_filters.model import (
    Cause,
    CountedFrames,
    CyclicGate,
    FilterCounts,
    Policing,
    StreamFilter,
    StreamFilters,
)
from cnc.model import BridgeForwarding
from cnc.support.format import counted


class Refused(NamedTuple):
    """Frames that a filter has met and that did not come as planned."""

    place: int  # of the filter, among those of the plan
    cause: Cause


def counts_by_place(
    desired: BridgeForwarding, report: BridgeReport | None
) -> dict[int, FilterCounts]:
    """What each filter has counted, by its place among those of the plan; without filters that the
    kernel does not have."""
    if report is None:
        return {}
    counts = {
        (its.of, its.priority): each for its, each in report.counts[CountedFrames].by_filter.items()
    }
    keys = ((its.of, its.priority) for its in desired[StreamFilters].filters)
    return {place: counts[key] for place, key in enumerate(keys) if key in counts}


def refused_counts(desired: BridgeForwarding, report: BridgeReport | None) -> dict[Refused, int]:
    """How many frames did not come as planned."""
    return {
        Refused(place, cause): count
        for place, its in counts_by_place(desired, report).items()
        for cause, count in its.refused.items()
    }


def ports_between_plans(report: BridgeReport | None) -> frozenset[str]:
    """The ports by which talkers still send as planned before: the gate of one of their filters at
    least has not begun its list. What is too long for the new plan, or has the priority of another
    class, is as planned until then."""
    counts = report.counts[CountedFrames].by_filter if report else {}
    return frozenset(its.of.port for its, each in counts.items() if each.is_pending)


def as_planned_before(desired: BridgeForwarding, ports: Collection[str]) -> frozenset[Refused]:
    """The counters that tell nothing of talkers, while these ports are between two plans."""
    return frozenset(
        Refused(place, cause)
        for place, its in enumerate(desired[StreamFilters].filters)
        if its.of.port in ports
        for cause in Cause
    )


def refused_frames(
    desired: BridgeForwarding,
    counts: Mapping[Refused, int],
    lately: Mapping[Refused, int] | None = None,
) -> list[str]:
    """So many frames that did not come as planned, in words, by filter; `lately` are those of them
    that have come since the look before."""
    found = []
    for place, its in enumerate(desired[StreamFilters].filters):
        causes = {cause: counts.get(Refused(place, cause), 0) for cause in Cause}
        if any(causes.values()):
            more = sum((lately or {}).get(Refused(place, cause), 0) for cause in Cause)
            found.append(_refused(its, desired.names, causes, more))
    return found


def _refused(
    its: StreamFilter,
    names: Names,
    causes: Mapping[Cause, int],
    lately: int,
) -> str:
    total = sum(causes.values())
    fate = "dropped" if its.policing is Policing.DROP else "counted and forwarded"
    if lately:
        fate += f", {lately} of them just now"
    if (address := its.address) is None:
        frames = counted(total, "unidentified frame")
        return f"{frames} with priority {its.priority} arrived at {its.of.port}: {fate}"
    stream = stream_of(address, names) or address
    wrong = _WRONG
    if isinstance(its.gate, CyclicGate):
        wrong = {**_WRONG, Cause.GATE: "beyond what may come in an interval"}
    met = {cause: count for cause, count in causes.items() if count}
    if len(met) == 1:
        (why,) = (f" {wrong[cause]}" for cause in met)
    else:
        why = f", {', and '.join(f'{count} {wrong[cause]}' for cause, count in met.items())}"
    return f"{counted(total, 'frame')} of {stream} arrived at {its.of.port}{why}: {fate}"


_WRONG = {
    Cause.GATE: "outside their window or beyond their limit",
    Cause.LENGTH: "too long",
    Cause.RATE: "beyond their rate and burst",
}
