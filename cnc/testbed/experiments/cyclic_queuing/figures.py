"""The figures of cyclic queuing: the latencies of one flow's frames, in intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cnc.support.format import duration
from cnc.testbed.traffic.measure import Summary


@dataclass(frozen=True, slots=True)
class Way:
    """What became of the frames of a stream at one listener, behind so many switches.

    `bound_ns` is that of the way to the farthest listener.
    """

    summary: Summary
    switches: int
    interval_ns: int
    bound_ns: int
    latencies_ns: Sequence[int]

    @property
    def name(self) -> str:
        return self.summary.flow.name

    @property
    def least_ns(self) -> int:
        """What annex T of IEEE 802.1Q says: (h - 1) T."""
        return (self.switches - 1) * self.interval_ns

    @property
    def most_ns(self) -> int:
        """(h + 1) T."""
        return (self.switches + 1) * self.interval_ns

    def disagreements(self) -> Iterator[str]:
        """What is not as planned, and what not as annex T has it."""
        yield from self.summary.violations()
        if self.summary.out_of_order:
            yield f"{self.name}: {self.summary.out_of_order} frames out of order"
        if (latency := self.summary.latency) is None:
            yield f"{self.name}: nothing arrived"
        elif not self.least_ns < latency.min_ns <= latency.max_ns < self.most_ns:
            yield (
                f"{self.name}: frames took {duration(latency.min_ns)} to "
                f"{duration(latency.max_ns)} over {self.switches} switches, not between "
                f"{duration(self.least_ns)} and {duration(self.most_ns)}"
            )

    def document(self) -> dict[str, Any]:
        latency = self.summary.latency
        return {
            "id": self.name,
            "switches": self.switches,
            "frames": self.summary.sent,
            "lost": self.summary.lost,
            "late": self.summary.late,
            "out_of_order": self.summary.out_of_order,
            "min_ns": latency.min_ns if latency else None,
            "mean_ns": latency.mean_ns if latency else None,
            "max_ns": latency.max_ns if latency else None,
            "bound_ns": self.bound_ns,
        }
