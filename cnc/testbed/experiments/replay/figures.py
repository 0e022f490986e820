"""Latency of a flow beside captured traffic, measured, and computed for a queue in order of
arrival."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from cnc.support.format import counted, duration
from cnc.testbed.traffic.measure import RESOLUTION_NS, Spread, spread
from cnc.testbed.traffic.recording import Frame

SENT_WITHIN_NS = 1_000  # of its instant, each packet
OVERLOADED_TIMES = 10  # as long on average as without others


@dataclass(frozen=True, slots=True)
class Point:
    """The frames of the flow on one way with the others at one speed, of which at least one came.

    A latency lasts from the planned instant of sending to the time stamp of the listener's kernel.
    `sent_within_ns` is how long after its instant a packet was sent at worst, of the others, too;
    `computed_ns` how long the flow's packets take with one queue in order of arrival.
    """

    way: str
    rate_bps: int
    speed: Decimal
    lost: int
    latencies_ns: Sequence[int]
    sent_within_ns: int
    computed_ns: Sequence[int]

    @property
    def latency(self) -> Spread:
        return spread(self.latencies_ns)

    @property
    def deviation_ns(self) -> float:
        return statistics.pstdev(self.latencies_ns)

    @property
    def here(self) -> str:
        others = f"others at {self.speed} times their speed" if self.speed else "no others"
        return f"{self.way}, {others}"

    def document(self) -> dict[str, Any]:
        return {
            "way": self.way,
            "rate_bps": self.rate_bps,
            "speed": float(self.speed),
            "sent": self.lost + len(self.latencies_ns),
            "lost": self.lost,
            "latency": asdict(self.latency),
            "deviation_ns": round(self.deviation_ns),
            "sent_within_ns": self.sent_within_ns,
            "computed": asdict(spread(self.computed_ns)),
        }


def latencies_ns(frames: Sequence[Frame]) -> list[int]:
    """Of those that came."""
    return [f.received_ns - f.planned_ns for f in frames if f.received_ns is not None]


def waits_ns(arrivals: Sequence[tuple[int, int, bool]]) -> Iterator[int]:
    """How long each packet of the flow waits for one sender that takes them in order of arrival.

    `arrivals`, in order of time: the instant, for how long the packet is sent, and whether it is
    one of the flow. Lindley's recursion ("The theory of queues with a single server", 1952).
    """
    free_ns = 0
    for at_ns, lasts_ns, is_of_flow in arrivals:
        if is_of_flow:
            yield max(0, free_ns - at_ns)
        free_ns = max(free_ns, at_ns) + lasts_ns


def disagreements(points: Sequence[Point], *, is_overloaded: bool) -> Iterator[str]:
    """What is not as expected of one way; its points go by speed, rising from 0.

    `is_overloaded`: whether at the greatest speed the flow is to take OVERLOADED_TIMES as long on
    average as without others.
    """
    for each in points:
        if each.lost:
            yield f"{each.here}: {counted(each.lost, 'frame')} did not come"
        if each.sent_within_ns > SENT_WITHIN_NS:
            yield (
                f"{each.here}: a packet was sent {duration(each.sent_within_ns)} after its instant"
            )
        worst_ns = max(each.computed_ns) + RESOLUTION_NS
        if (took_ns := each.latency.max_ns) > worst_ns:
            yield (
                f"{each.here}: {duration(took_ns)} at worst, at most {duration(worst_ns)} expected"
            )
    for slower, faster in pairwise(points):
        if faster.latency.mean_ns < slower.latency.mean_ns:
            yield f"{faster.here}: less on average than with {slower.here.split(', ')[1]}"
    alone, fastest = points[0], points[-1]
    times = fastest.latency.mean_ns / alone.latency.mean_ns
    if (times >= OVERLOADED_TIMES) != is_overloaded:
        expected = f"{OVERLOADED_TIMES} times or more" if is_overloaded else "less than 10 times"
        yield (
            f"{fastest.here}: {times:.1f} times as long on average as without others, {expected} "
            "expected"
        )
