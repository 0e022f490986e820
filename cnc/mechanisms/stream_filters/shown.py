"""How stream filters are told: in documents, on the path of a stream, on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

from cnc.mechanism import AtHop, Lack, Names, Shown, stream_of
from cnc.mechanisms.stream_filters.compare import filter_in_words, intervals_in_words
from cnc.mechanisms.stream_filters.derive import uncounted
from cnc.mechanisms.stream_filters.model import (
    CyclicGate,
    FilterCapacity,
    FixedGate,
    Policing,
    StreamFilters,
    WindowGate,
)
from cnc.model import Plan, PortRef, StreamAddress


# The attributes' docstrings are in the JSON schemas.
@dataclass(frozen=True, slots=True)
class Window:
    """When a stream gate is open, once in each period."""

    period_ns: int
    start_ns: int
    """After the beginning of the period, before it if negative."""
    open_ns: int
    octets_max: int
    """The most that passes in that time."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """What priority frames get inside a switch, by the interval in which they come."""

    interval_ns: int
    even: int
    odd: int
    octets_max: int | None
    """The most that passes in an interval; null: any number."""
    overhead_octets: int
    """What each frame counts of it beside what is behind its EtherType."""


@dataclass(frozen=True, slots=True)
class Meter:
    """How much passes of a stream of a shaped class."""

    rate_bps: int
    burst_octets: int
    """The most that passes at once."""
    overhead_octets: int
    """What each frame counts more than from its destination address to its frame check sequence."""


@dataclass(frozen=True, slots=True)
class FilterOfStream:
    """What a switch does with frames that it receives from an end station."""

    stream: str | None
    """null: not known, or it is about frames of no stream."""
    destination_mac: str | None
    """null, as `vlan_id`: it is about frames of no stream."""
    vlan_id: int | None
    port: str
    """Where they come in."""
    priority: int
    max_sdu_octets: int
    """The longest that passes, without MAC addresses, VLAN tag and EtherType; 0: any."""
    gate: FixedGate | None
    """Of a gate that never changes; null: it has a window, or tells intervals apart."""
    window: Window | None
    intervals: Intervals | None
    policing: Policing
    """What becomes of frames that do not pass."""
    meter: Meter | None
    """null: as many as the gate lets pass."""


def _rows(its: StreamFilters, names: Names) -> Iterator[FilterOfStream]:
    for each in its.filters:
        of = each.address
        gate = each.gate
        window = intervals = None
        if isinstance(gate, CyclicGate):
            intervals = Intervals(*astuple(gate))
        if isinstance(gate, WindowGate):
            window = Window(gate.period_ns, gate.start_ns, gate.open_ns, gate.octets_max)
        yield FilterOfStream(
            stream_of(of, names) if of else None,
            of.destination_mac if of else None,
            of.vlan_id if of else None,
            each.of.port,
            each.priority,
            each.max_sdu_octets,
            gate if isinstance(gate, FixedGate) else None,
            window,
            intervals,
            each.policing,
            Meter(*astuple(each.meter)) if each.meter else None,
        )


def _at_hop(
    does: StreamFilters, planned: StreamFilters, address: StreamAddress, port: str
) -> AtHop:
    return _compared(*(filter_in_words(its, address, port) for its in (does, planned)))


def _at_hop_of_class(
    does: StreamFilters, planned: StreamFilters, priority: int, port: str
) -> AtHop:
    return _compared(*(intervals_in_words(its, priority, port) for its in (does, planned)))


def _compared(running: str | None, wanted: str | None) -> AtHop:
    if running == wanted:
        return AtHop(running)
    return AtHop(running, f"stream filter: {running or 'none'}; planned: {wanted or 'none'}")


def _guards(its: StreamFilters, switch: str) -> Iterator[tuple[StreamAddress, str, object]]:
    """{"filters": [{"port", "policing", "max_sdu_octets",
    "opens_ns", "closes_ns", "octets_max"}, ...]}, of streams of shaped classes "rate_bps" and
    "burst_octets" in place of the last three, of those that are forwarded once each interval
    "interval_ns" and "octets_max".
    """
    for each in its.filters:
        if (address := each.address) and each.policing is not Policing.OFF:
            what: dict[str, object] = {
                "port": str(PortRef(switch, each.of.port)),
                "policing": each.policing,
                "max_sdu_octets": each.max_sdu_octets,
            }
            if isinstance(each.gate, WindowGate):
                what |= {
                    "opens_ns": each.gate.start_ns,
                    "closes_ns": each.gate.start_ns + each.gate.open_ns,
                    "octets_max": each.gate.octets_max,
                }
            elif isinstance(each.gate, CyclicGate):
                what |= {
                    "interval_ns": each.gate.interval_ns,
                    "octets_max": each.gate.octets_max,
                }
            elif each.meter:
                what |= {
                    "rate_bps": each.meter.rate_bps,
                    "burst_octets": each.meter.burst_octets,
                }
            yield address, "filters", what


def _lack(plan: Plan) -> Lack | None:
    """The switches at which `policing`, of which the intent says nothing, counts nothing."""
    capacity = plan.intent[FilterCapacity]
    few = [
        f"{switch} holds {capacity.of(switch):,} of {needed:,}"
        for switch, needed in uncounted(plan).items()
    ]
    text = "too few stream filters to count frames that are out of profile"
    return Lack(text, few, "stream-filters-max") if few else None


SHOWN = Shown(
    key="filters",
    row=FilterOfStream,
    rows=_rows,
    key_text="Left out where nothing is policed.",
    hop_key="filters",
    hop_text="What the stream filter does that their first switch has for them, in words; left out "
    "where it\nhas none.",
    hop_column=None,
    at_hop=_at_hop,
    at_hop_of_class=_at_hop_of_class,
    guards=_guards,
    lack=_lack,
)
