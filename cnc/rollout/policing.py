"""Compares the stream filters that a switch is to have with those that it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.format import counted, duration
from cnc.model import BridgeForwarding, PortSettings, StreamAddress
from cnc.policing import FilteredStream, Policing, Strangers, StreamFilter, WindowGate
from cnc.rollout.translations import Whose, described
from cnc.switch.stream_filters import normal
from cnc.switch.tree import BridgeReport, PortReport


def filter_differences(
    desired: BridgeForwarding, actual: BridgeForwarding, whose: Whose
) -> Iterator[str]:
    """What differs, in words. Of the configuration they say what a rollout would change, of the
    kernel what it does."""
    before, after = (
        {(its.of, its.priority): normal(its) for its in forwarding.filters}
        for forwarding in (actual, desired)
    )
    for key in sorted(before.keys() | after.keys(), key=str):
        was, now = before.get(key), after.get(key)
        if was != now:
            frames = frames_of(now or was, desired.names)
            yield f"{frames} {(_configured if whose == 'configuration' else _kernel)(was, now)}"


def frames_of(its: StreamFilter | None, names: Mapping[StreamAddress, str]) -> str:
    """The frames that a filter takes, in words."""
    if its is None:
        return "frames"
    if isinstance(its.of, FilteredStream):
        address = StreamAddress(its.of.destination_mac, its.of.vlan_id)
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
    return f"are filtered otherwise than planned: {_does(was)}; planned is {_does(now)}"


def _does(its: StreamFilter) -> str:
    verb = {
        Policing.OFF: "all pass",
        Policing.COUNT: "what is out of order is counted",
        Policing.DROP: "what is out of order is dropped",
    }[its.policing]
    if not isinstance(its.gate, WindowGate):
        return f"{verb}, the gate is always {its.gate}"
    gate = its.gate
    sizes = f"{its.max_sdu_octets} octets at most, {gate.octets_max} in all"
    return (
        f"{verb}, the gate opens at {duration(gate.start_ns)} of {duration(gate.period_ns)} for "
        f"{duration(gate.open_ns)}, {sizes}"
    )


def filter_in_words(forwarding: BridgeForwarding, address: StreamAddress, port: str) -> str | None:
    """What the filter of a stream does where its frames come in; None where it has none."""
    of = FilteredStream(address.destination_mac, address.vlan_id, port)
    return next((_does(normal(its)) for its in forwarding.filters if its.of == of), None)


def refused_counts(desired: BridgeForwarding, report: BridgeReport | None) -> dict[int, int]:
    """How many frames that did not come as planned each filter has met, by its place among those of
    the plan; without filters that the kernel does not have."""
    if report is None:
        return {}
    counts = {(its.of, its.priority): each for its, each in report.filter_counts.items()}
    keys = ((its.of, its.priority) for its in desired.filters)
    return {place: counts[key].refused for place, key in enumerate(keys) if key in counts}


def refused_frames(desired: PortSettings | None, report: PortReport | None) -> list[str]:
    """The frames that did not come as planned, in words; none of a port that is no bridge."""
    if not isinstance(desired, BridgeForwarding) or report is None:
        return []
    counts = refused_counts(desired, report.forwarding)
    return [
        refused(desired.filters[place], desired.names, count)
        for place, count in counts.items()
        if count
    ]


def refused(its: StreamFilter, names: Mapping[StreamAddress, str], count: int) -> str:
    """So many frames that a filter has met and that did not come as planned, in words."""
    fate = "dropped" if its.policing is Policing.DROP else "counted, and let pass"
    if isinstance(its.of, Strangers):
        what = f"of no stream with priority {its.priority} came in by {its.of.port}"
    else:
        address = StreamAddress(its.of.destination_mac, its.of.vlan_id)
        what = f"of {names.get(address, address)} came otherwise than planned by {its.of.port}"
    return f"{counted(count, 'frame')} {what}: {fate}"
