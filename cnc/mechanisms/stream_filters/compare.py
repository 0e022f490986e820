"""Compares the stream filters that a switch is to have with those that it has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from cnc.mechanism import Names, Whose, described
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
    normal,
)
from cnc.model import BridgeForwarding, StreamAddress
from cnc.support.format import counted, duration
from cnc.switch.tree import BridgeReport, Cause, FilterCounts


def differences(
    desired: StreamFilters, actual: StreamFilters, whose: Whose, names: Names
) -> Iterator[str]:
    """What differs, in words. Of the configuration they say what a rollout would change, of the
    kernel what it does."""
    before, after = (
        {(its.of, its.priority): normal(its) for its in part.filters} for part in (actual, desired)
    )
    for key in sorted(before.keys() | after.keys(), key=str):
        was, now = before.get(key), after.get(key)
        if was != now:
            frames = frames_of(now or was, names)
            yield f"{frames} {(_configured if whose == 'configuration' else _kernel)(was, now)}"


def frames_of(its: StreamFilter | None, names: Names) -> str:
    """The frames that a filter takes, in words."""
    if its is None:
        return "frames"
    if isinstance(its.of, FilteredStream):
        address = StreamAddress.of(its.of)
        return f"frames of {described(address, names)} at {its.of.port}"
    return f"frames of no stream with priority {its.priority} at {its.of.port}"


def _configured(was: StreamFilter | None, now: StreamFilter | None) -> str:
    if now is None:
        return "are no longer filtered"
    if was is None:
        return f"are filtered: {_does(now)}"
    return f"are filtered otherwise than before: {_does(now)}"


def _kernel(was: StreamFilter | None, now: StreamFilter | None) -> str:
    if now is None:
        return "are filtered, which is not planned"
    if was is None:
        return "are not filtered: the kernel has no stream filter"
    return f"are filtered otherwise than planned: {_does(was)}; planned: {_does(now)}"


def _does(its: StreamFilter) -> str:
    verb = {
        Policing.OFF: "all pass",
        Policing.COUNT: "violations are counted",
        Policing.DROP: "violations are dropped",
    }[its.policing]
    gate = its.gate
    if gate is FixedGate.CLOSED and its.policing in _VIOLATIONS:
        return _VIOLATIONS[its.policing]
    if not isinstance(gate, WindowGate):
        return f"{verb}, the gate is always {gate}"
    return (
        f"{verb}, the gate opens at {duration(gate.start_ns)} for {duration(gate.open_ns)} of each "
        f"{duration(gate.period_ns)}, for frames of at most {its.max_sdu_octets} octets, "
        f"{gate.octets_max} octets in all"
    )


# What becomes of frames none of which is planned.
_VIOLATIONS = {
    Policing.COUNT: "all are counted as violations and forwarded",
    Policing.DROP: "all are dropped as violations",
}


def without_lists(desired: StreamFilters) -> StreamFilters:
    """What a bridge does while the lists of its stream gates wait for its clock, those of gates
    that stay closed too: all let pass at any time."""
    return StreamFilters(tuple(replace(its, gate=FixedGate.OPEN) for its in desired.filters))


def filter_in_words(forwarding: BridgeForwarding, address: StreamAddress, port: str) -> str | None:
    """What the filter of a stream does where its frames come in; None where it has none."""
    of = FilteredStream(address.destination_mac, address.vlan_id, port)
    return next(
        (_does(normal(its)) for its in forwarding[StreamFilters].filters if its.of == of), None
    )


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
    counts = {(its.of, its.priority): each for its, each in report.filter_counts.items()}
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
    counts = report.filter_counts if report else {}
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
    frames = counted(sum(causes.values()), "frame")
    fate = "dropped" if its.policing is Policing.DROP else "counted and forwarded"
    if lately:
        fate += f", {lately} of them just now"
    if isinstance(its.of, Strangers):
        return (
            f"{frames} of no stream with priority {its.priority} came in by {its.of.port}: {fate}"
        )
    stream = names.get(address := StreamAddress.of(its.of), address)
    met = {cause: count for cause, count in causes.items() if count}
    if len(met) == 1:
        (why,) = (f" {_WRONG[cause]}" for cause in met)
    else:
        why = f", {', and '.join(f'{count} {_WRONG[cause]}' for cause, count in met.items())}"
    return f"{frames} of {stream} came by {its.of.port}{why}: {fate}"


_WRONG = {Cause.GATE: "outside their window, or more than planned", Cause.LENGTH: "too long"}
