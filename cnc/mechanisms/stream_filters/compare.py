"""Compares the stream filters that a switch is to have with those that it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cnc.mechanism import Names, Whose, described
from cnc.mechanisms.stream_filters.model import (
    CyclicGate,
    FilteredStream,
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
    normal,
)
from cnc.model import StreamAddress
from cnc.support.format import duration, rate


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
    if address := its.address:
        return f"frames of {described(address, names)} at {its.of.port}"
    is_of_all = isinstance(its.gate, CyclicGate) and its.gate.is_free
    unidentified = "" if is_of_all else "unidentified "
    return f"{unidentified}frames with priority {its.priority} at {its.of.port}"


def _configured(was: StreamFilter | None, now: StreamFilter | None) -> str:
    if now is None:
        return "are no longer filtered"
    if was is None:
        return f"are filtered: {_does(now)}"
    return f"have another stream filter: {_does(now)}"


def _kernel(was: StreamFilter | None, now: StreamFilter | None) -> str:
    if now is None:
        return "are filtered, which is not planned"
    if was is None:
        return "are not filtered: the kernel has no stream filter"
    return f"have another stream filter than planned: {_does(was)}; planned: {_does(now)}"


def _does(its: StreamFilter) -> str:
    verb = {
        Policing.OFF: "all pass",
        Policing.COUNT: "violations are counted",
        Policing.DROP: "violations are dropped",
    }[its.policing]
    gate = its.gate
    if isinstance(gate, CyclicGate):
        return f"{_passing(its, gate, verb)}, {_by_interval(gate)}"
    if gate is FixedGate.CLOSED and its.policing in _VIOLATIONS:
        return _VIOLATIONS[its.policing]
    if meter := its.meter:
        return (
            f"{verb}, at most {its.max_sdu_octets} octets per frame, {rate(meter.rate_bps)} and "
            f"{meter.burst_octets} octets at once on the wire"
        )
    if not isinstance(gate, WindowGate):
        return f"{verb}, the gate is always {gate}"
    return (
        f"{verb}, the gate opens at {duration(gate.start_ns)} for {duration(gate.open_ns)} of each "
        f"{duration(gate.period_ns)}; at most {its.max_sdu_octets} octets per frame, "
        f"{gate.octets_max} in all"
    )


def _passing(its: StreamFilter, gate: CyclicGate, verb: str) -> str:
    if gate.is_free:
        return "all pass"
    if not gate.octets_max:
        return _VIOLATIONS.get(its.policing, "all pass")
    return (
        f"{verb}, at most {its.max_sdu_octets} octets per frame and {gate.octets_max} on the wire "
        "in an interval"
    )


def _by_interval(gate: CyclicGate) -> str:
    return (
        f"with priority {gate.even} inside the switch if they come in an even interval of "
        f"{duration(gate.interval_ns)}, {gate.odd} in an odd one"
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


def intervals_in_words(its: StreamFilters, priority: int, port: str) -> str | None:
    """What becomes of frames of a priority by the interval in which they come in; None where it is
    the same in all."""
    found = (
        _does(each)
        for each in its.filters
        if isinstance(each.gate, CyclicGate)
        and (each.of, each.priority) == (Strangers(port), priority)
    )
    return next(found, None)


def filter_in_words(its: StreamFilters, address: StreamAddress, port: str) -> str | None:
    """What the filter of a stream does where its frames come in, or those of the streams that share
    the address; None where there is none."""
    of = FilteredStream(address.destination_mac, address.vlan_id, port)
    found = {each.priority: _does(normal(each)) for each in its.filters if each.of == of}
    if len(found) > 1:
        return "; ".join(f"with PCP {priority} {does}" for priority, does in found.items())
    return next(iter(found.values()), None)
