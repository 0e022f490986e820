"""The figures of cyclic queuing: the latencies of one flow's frames, in intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cnc.support.format import duration
from cnc.testbed.experiments.beside_load import Measured


@dataclass(frozen=True, slots=True)
class Way:
    """What became of the frames of a stream at one listener, behind so many switches; its bound is
    that of the way to the farthest listener."""

    measured: Measured

    @property
    def interval_ns(self) -> int:
        return self.measured.planned.interval_ns

    @property
    def least_ns(self) -> int:
        """What annex T of IEEE 802.1Q says: (h - 1) T."""
        return (self.measured.switches - 1) * self.interval_ns

    @property
    def most_ns(self) -> int:
        """(h + 1) T."""
        return (self.measured.switches + 1) * self.interval_ns

    def disagreements(self) -> Iterator[str]:
        """What is not as planned, and what not as annex T has it."""
        yield from self.measured.disagreements()
        latency = self.measured.summary.latency
        if latency and not self.least_ns < latency.min_ns <= latency.max_ns < self.most_ns:
            yield (
                f"{self.measured.name}: frames took {duration(latency.min_ns)} to "
                f"{duration(latency.max_ns)} over {self.measured.switches} switches, not between "
                f"{duration(self.least_ns)} and {duration(self.most_ns)}"
            )
