"""Stream filters in a plan: of which streams they drop frames, and what they cannot do."""

from __future__ import annotations

from collections.abc import Collection

from cnc.mechanism import Admission
from cnc.mechanisms.measurements import SENT, measured_on
from cnc.mechanisms.stream_filters.derive import stream_filters, window_gate
from cnc.mechanisms.stream_filters.model import (
    FilterCapacity,
    FilteredStream,
    PolicingRules,
    StreamFilter,
)
from cnc.mechanisms.stream_filters.room import FilterRoom
from cnc.model import Intent, Link, Plan, Stream
from cnc.support.format import counted, duration


def _refused(plan: Plan) -> dict[str, str]:
    """The reasons, by switch; empty if every switch can have its filters."""
    reasons: dict[str, str] = {}
    for switch, filters in stream_filters(plan).items():
        holds = plan.intent[FilterCapacity].of(switch)
        if len(filters) > holds:
            reasons[f"switch {switch}"] = (
                f"needs {counted(len(filters), 'stream filter')}, {_parts(filters)}, and holds "
                f"{holds:,} (stream-filters-max)"
            )
    return reasons


def _never_out_of_window(intent: Intent, stream: Stream, link: Link, window_ns: int) -> str | None:
    """Why frames of a stream that come over the link from its talker cannot be dropped; None if
    they can, or need not."""
    if (
        not intent.has_instants(stream)
        or not _may_drop(intent, stream.name, stream.traffic_classes)
        or link.target.node not in intent.network.bridges
    ):
        return None
    gate = window_gate(intent, stream, link, 0, window_ns)
    if gate.open_ns < gate.period_ns:
        return None
    text = (
        f"its frames may come to {link.target} at any time of their period of "
        f"{duration(gate.period_ns)}, so that none is out of its window: policing can "
        "count, not drop. A talker-lateness of less, or a longer period, would help"
    )
    if measured := intent.measured_lateness.get(stream.talker):
        text += f" (that of {stream.talker}: {measured_on(measured, SENT)})"
    return text


def _may_drop(intent: Intent, stream: str, class_names: Collection[str]) -> bool:
    return intent[PolicingRules].may_drop(stream, class_names)


def _parts(filters: tuple[StreamFilter, ...]) -> str:
    streams = sum(isinstance(its.of, FilteredStream) for its in filters)
    of_streams = f"{streams:,} for streams of its end stations"
    return f"{of_streams} and {len(filters) - streams:,} for frames of no stream"


ADMISSION = Admission(
    may_drop=_may_drop, impossible=_never_out_of_window, refused=_refused, room=FilterRoom
)
"""What a plan allows for stream filters."""
