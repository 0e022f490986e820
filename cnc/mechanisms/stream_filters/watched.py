"""What `cnc status` and `cnc watch` tell of stream filters, and their metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from cnc.data_tree.tree import BridgeReport
from cnc.mechanism import Counts, Metric, Observed, Trouble, Watched, stream_of
from cnc.mechanisms.stream_filters.counts import (
    Refused,
    as_planned_before,
    counts_by_place,
    ports_between_plans,
    refused_counts,
    refused_frames,
)
from cnc.mechanisms.stream_filters.model import (
    Cause,
    CountedFrames,
    CyclicGate,
    FilteredStream,
    Policing,
    StreamFilter,
    StreamFilters,
)
from cnc.model import BridgeForwarding, Intent
from cnc.support.counter_delta import CounterDelta, grown
from cnc.support.wording import named

HINT_TALKERS = (
    "`cnc talkers PLAN` lists when stations are to send; where one may be later than that, "
    "state its `talker-lateness`"
)

HINT_SENDERS = (
    "its talker sends more than `frames` of `payload` in each `period`: correct the talker, or "
    "state what it sends"
)


class Kind(StrEnum):
    """The kinds of conditions."""

    POLICED = "policed"  # an end station sends otherwise than planned


# The attributes' docstrings are in the JSON schema of `cnc status`.
@dataclass(frozen=True, slots=True)
class FilteredFrames:
    """What a stream filter has counted since it was set."""

    stream: str | None
    """null: it takes frames of no stream that have its priority."""
    port: str
    """Where they come in."""
    priority: int
    policing: Policing
    """What becomes of frames that do not come as planned."""
    frames: int
    """All that it has taken."""
    out_of_window: int
    """Of these, out of their window or too many, for which there is one counter."""
    too_long: int
    beyond_rate: int
    """Of these, more than the stream's rate and burst allow; of streams of shaped classes."""
    lately: int
    """Of these three together, those that came while `cnc status` looked."""


def counted(bridge: str, desired: BridgeForwarding, first: Observed, second: Observed) -> Counts:
    """What the filters of a bridge have counted by the second of two looks."""
    reports = [look.state.bridge(bridge) for look in (first, second)]
    before, now = (refused_counts(desired, its) for its in reports)
    ignored = as_planned_before(desired, frozenset[str]().union(*map(ports_between_plans, reports)))
    lately = {key: more for key, more in grown(before, now).items() if key not in ignored}
    places = {key.place for key in lately}
    past = {key: count for key, count in now.items() if key.place not in places}
    going_on = {key: count for key, count in now.items() if key.place in places}
    filters = desired[StreamFilters].filters
    return Counts(
        tuple(_filtered(desired, reports[1], lately)),
        past=tuple(refused_frames(desired, past)),
        problems=tuple(refused_frames(desired, going_on, lately)),
        hints=tuple(dict.fromkeys(_hint(filters[place]) for place in sorted(places))),
    )


def again_ns(
    bridge: str, desired: BridgeForwarding, look: Observed, _intent: Intent
) -> Iterator[int]:
    """At once, where frames came otherwise than planned."""
    if any(refused_counts(desired, look.state.bridge(bridge)).values()):
        yield 0


class Conditions:
    """Compares the looks at the filters of one bridge."""

    def __init__(self) -> None:
        self._refused = CounterDelta[Refused]()
        self._between = frozenset[str]()

    def update(self, bridge: str, desired: BridgeForwarding, look: Observed) -> Iterator[Trouble]:
        """Whether frames come to the bridge otherwise than planned."""
        report = look.state.bridge(bridge)
        between = ports_between_plans(report)
        # What has come since the last look may have come before the list began that was pending
        # then.
        ignored = as_planned_before(desired, between | self._between)
        self._between = between
        counts = refused_counts(desired, report)
        if refused := self._refused.update(counts, look.state.answered_ns, ignored):
            yield Trouble(Kind.POLICED, bridge, named(refused_frames(desired, refused)))


def metrics(answers: Mapping[str, Observed]) -> Iterator[Metric]:
    """The counters of all filters."""
    labels = ("switch", "port", "priority", "destination_mac", "vlan")
    matching = Metric(
        "tsn_stream_filter_frames",
        "Frames that a stream filter has looked at; without an address those of no stream.",
        labels,
        is_counter=True,
        samples=[],
    )
    refused = Metric(
        "tsn_stream_filter_refused_frames",
        "Frames out of their window, too many, too long, or of no stream; dropped or counted.",
        (*labels, "cause"),
        is_counter=True,
        samples=[],
    )
    for name, its in answers.items():
        reports = filter(None, (each.get(BridgeReport) for each in its.state.ports.values()))
        for each, counts in (
            pair for report in reports for pair in report.counts[CountedFrames].by_filter.items()
        ):
            address = ("", "")
            if isinstance(each.of, FilteredStream):
                address = each.of.destination_mac, str(each.of.vlan_id)
            values = (name, each.of.port, str(each.priority), *address)
            matching.samples.append((values, counts.matching))
            refused.samples.extend(((*values, why), n) for why, n in counts.refused.items())
    yield from (matching, refused)


def _hint(its: StreamFilter) -> str:
    """What to do about frames that a filter has met and that do not come as planned."""
    if its.meter or (its.address and isinstance(its.gate, CyclicGate)):
        return HINT_SENDERS
    if isinstance(its.of, FilteredStream):
        return HINT_TALKERS
    hint = f"find the program that sends on the station at {its.of.port}"
    if its.policing is Policing.COUNT:
        hint += "; `policing: drop` keeps its frames out"
    return hint


def _filtered(
    desired: BridgeForwarding, report: BridgeReport | None, lately: Mapping[Refused, int]
) -> Iterator[FilteredFrames]:
    for place, counts in counts_by_place(desired, report).items():
        its = desired[StreamFilters].filters[place]
        stream = stream_of(its.address, desired.names) if its.address else None
        yield FilteredFrames(
            stream,
            its.of.port,
            its.priority,
            its.policing,
            frames=counts.matching,
            out_of_window=counts.not_passing,
            too_long=counts.not_passing_sdu,
            beyond_rate=counts.red,
            lately=sum(lately.get(Refused(place, cause), 0) for cause in Cause),
        )


WATCHED = Watched(
    key="filters",
    row=FilteredFrames,
    counted=counted,
    again_ns=again_ns,
    kinds=Kind,
    conditions=Conditions,
    metrics=metrics,
)
