"""What a plan cannot have stream filters for: too many for a switch, or without an effect."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.format import counted, duration
from cnc.model import Plan, StreamAddress
from cnc.policing import FilteredStream, Policing, StreamFilter, WindowGate
from cnc.stream_filters import stream_filters


def refused(plan: Plan) -> dict[str, str]:
    """The reasons, by stream or switch; empty if every switch can have its filters."""
    names = {address: name for name, address in plan.addresses.items()}
    reasons: dict[str, str] = {}
    for switch, filters in stream_filters(plan).items():
        holds = plan.intent.network.bridges[switch].stream_filters_max
        if len(filters) > holds:
            reasons[f"switch {switch}"] = (
                f"needs {counted(len(filters), 'stream filter')}, {_parts(filters)}, and holds "
                f"{holds:,} (stream-filters-max)"
            )
        for of, gate in _dropping(filters):
            if gate.open_ns == gate.period_ns:
                name = names[StreamAddress(of.destination_mac, of.vlan_id)]
                reasons[name] = (
                    f"its frames may come to {switch}/{of.port} at any time of their period of "
                    f"{duration(gate.period_ns)}, so that none is out of its window: policing can "
                    "count, not drop. A talker-lateness of less, or a longer period, would help"
                )
    return reasons


def _parts(filters: tuple[StreamFilter, ...]) -> str:
    streams = sum(isinstance(its.of, FilteredStream) for its in filters)
    of_streams = f"{streams:,} for streams of its end stations"
    return f"{of_streams} and {len(filters) - streams:,} for strangers"


def _dropping(filters: tuple[StreamFilter, ...]) -> Iterator[tuple[FilteredStream, WindowGate]]:
    for its in filters:
        if its.policing is not Policing.DROP or not isinstance(its.of, FilteredStream):
            continue
        if isinstance(its.gate, WindowGate):
            yield its.of, its.gate
