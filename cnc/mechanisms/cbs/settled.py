"""Idle slopes by which all streams keep what is promised to them.

They are the least, so that classes below have the rest. Where some bound would rise by them, as
where a stream has gone for which its class had a higher slope, those of a class, or of several, are
no lower than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from cnc.mechanisms.cbs.bounds import Bounds, bounds
from cnc.mechanisms.cbs.flows import Ways
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.model import GateControlList, Intent, PortRef


def settled(
    intent: Intent,
    ways: Mapping[str, Ways],
    gates: Mapping[PortRef, GateControlList],
    promised_ns: Mapping[str, int],
    before: IdleSlopes,
) -> Bounds:
    """The bounds of these streams with such slopes; where there are none, with the least."""
    found = bounds(intent, ways, gates)
    if not _keep(intent, found, promised_ns):
        for held in _held(found, before):
            tried = bounds(intent, ways, gates, held)
            if _keep(intent, tried, promised_ns):
                return tried
    return found


def _held(found: Bounds, before: IdleSlopes) -> Iterator[IdleSlopes]:
    """The slopes before of one class that has lower ones now, of two such, and so on."""
    numbers = {
        number
        for port, slopes in before.by_port.items()
        for number, slope_bps in slopes.items()
        if slope_bps > found.slopes_bps.get(port, {}).get(number, 0)
    }
    for count in range(1, len(numbers) + 1):
        for some in combinations(sorted(numbers), count):
            yield IdleSlopes(
                {
                    port: {n: slope_bps for n, slope_bps in slopes.items() if n in some}
                    for port, slopes in before.by_port.items()
                }
            )


def is_late(intent: Intent, name: str, latency_ns: int) -> bool:
    """Whether a stream may take longer than its `max-latency`."""
    return latency_ns > intent.streams[name].max_latency_ns


def is_raised(name: str, latency_ns: int, promised_ns: Mapping[str, int]) -> bool:
    """Whether a stream may take longer than is promised, if anything is."""
    return latency_ns > promised_ns.get(name, latency_ns)


def _keep(intent: Intent, found: Bounds, promised_ns: Mapping[str, int]) -> bool:
    return not found.refused and not any(
        is_late(intent, name, its_ns) or is_raised(name, its_ns, promised_ns)
        for name, its_ns in found.latency_ns.items()
    )
