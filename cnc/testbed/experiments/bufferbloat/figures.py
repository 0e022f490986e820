"""Latency and loss of a flow over the buffers of switches and its own interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from cnc.support.format import counted, duration
from cnc.testbed.traffic.measure import Spread, spread
from cnc.testbed.traffic.recording import Frame

TOGETHER, APART = "together", "apart"
NAMES = {TOGETHER: "one queue for all", APART: "a queue of its own"}
PERCENT = 100


@dataclass(frozen=True, slots=True)
class Point:
    """The frames of the flow with one buffer, sent at one interval, of which at least one came.

    A latency lasts from the talker's call to the time stamp of the listener's kernel.
    """

    queues: str
    buffer: int
    interval_ns: int
    lost: int
    latencies_ns: Sequence[int]

    @classmethod
    def of(cls, queues: str, buffer: int, interval_ns: int, frames: Sequence[Frame]) -> Point:
        took_ns = [f.received_ns - f.sent_ns for f in frames if f.received_ns is not None]
        return cls(queues, buffer, interval_ns, len(frames) - len(took_ns), took_ns)

    @property
    def sent(self) -> int:
        return self.lost + len(self.latencies_ns)

    @property
    def loss_percent(self) -> float:
        return PERCENT * self.lost / self.sent

    @property
    def latency(self) -> Spread:
        return spread(self.latencies_ns)

    @property
    def here(self) -> str:
        return f"{NAMES[self.queues]}, buffer {self.buffer}, every {duration(self.interval_ns)}"

    def document(self) -> dict[str, Any]:
        return {
            "queues": self.queues,
            "buffer": self.buffer,
            "interval_ns": self.interval_ns,
            "sent": self.sent,
            "lost": self.lost,
            "latency": asdict(self.latency),
        }


def disagreements(points: Sequence[Point], bound_ns: int, longest_ns: int) -> list[str]:
    """What is not as expected; points go by interval and then by buffer, both rising.

    `bound_ns` limits the mean of the first, `longest_ns` what a frame in a queue of its own takes.
    """
    together = [each for each in points if each.queues == TOGETHER]
    wrong = [*_unbounded(together[0], bound_ns), *_not_rising(together), *_not_falling(together)]
    for each in (each for each in points if each.queues == APART):
        if each.lost:
            wrong.append(f"{each.here}: {counted(each.lost, 'frame')} did not come")
        if (took_ns := each.latency.max_ns) > longest_ns:
            expected = f"at most {duration(longest_ns)} expected"
            wrong.append(f"{each.here}: {duration(took_ns)} at worst, {expected}")
    return wrong


def _unbounded(first: Point, bound_ns: int) -> Iterator[str]:
    if (mean_ns := first.latency.mean_ns) > bound_ns:
        yield (
            f"{first.here}: {duration(mean_ns)} on average, at most {duration(bound_ns)} expected"
        )


def _not_rising(together: Sequence[Point]) -> Iterator[str]:
    """At each interval: with the buffer the mean never falls, and from the first to the last it
    rises. In between it stays where even the smaller buffer never fills."""
    for its in _by(together, "interval_ns").values():
        for smaller, larger in pairwise(its):
            if larger.latency.mean_ns < smaller.latency.mean_ns:
                yield _less(larger, smaller)
        if its[-1].latency.mean_ns == its[0].latency.mean_ns:
            yield f"{its[-1].here}: no longer than with buffer {its[0].buffer}"


def _not_falling(together: Sequence[Point]) -> Iterator[str]:
    """With the largest buffer: who sends more often never waits less."""
    *_, largest = _by(together, "buffer").values()
    for oftener, other in pairwise(largest):
        if oftener.latency.mean_ns < other.latency.mean_ns:
            yield _less(oftener, other)


def _by(points: Sequence[Point], key: str) -> Mapping[int, list[Point]]:
    found: dict[int, list[Point]] = {}
    for each in points:
        found.setdefault(getattr(each, key), []).append(each)
    return found


def _less(one: Point, other: Point) -> str:
    return (
        f"{one.here}: {duration(one.latency.mean_ns)} on average, less than with buffer "
        f"{other.buffer} every {duration(other.interval_ns)}, {duration(other.latency.mean_ns)}"
    )
