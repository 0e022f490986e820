"""The figures of a gate's share: the times of one class at the gate, beside the closed form."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cnc.support.format import counted, microseconds
from cnc.testbed.experiments.gate_share import gateway
from cnc.testbed.traffic.measure import spread


@dataclass(frozen=True, slots=True)
class Point:
    """One class at one share: the times at the gate of its frames in the order of their numbers.

    A frame that was lost has none. `path_ns` is what a frame takes where there is no schedule,
    `jitter_ns` how much two frames in a row differ. `expected_mean_ns` is that of the closed form,
    None where it is not to be judged by it.
    """

    share: int
    name: str
    sent: int
    path_ns: int
    at_gate_ns: Sequence[int]
    closed_ns: int
    expected_mean_ns: float | None

    @property
    def jitter_ns(self) -> list[int]:
        return [abs(after - before) for before, after in pairwise(self.at_gate_ns)]

    @property
    def mean_ns(self) -> float:
        return statistics.fmean(self.at_gate_ns)

    @property
    def lost(self) -> int:
        return self.sent - len(self.at_gate_ns)

    def disagreement(self) -> str | None:
        """What is not as the closed form says, if anything."""
        expected_ns = self.expected_mean_ns
        if expected_ns is None:
            return None
        here = f"{self.name} at {self.share} %"
        if self.lost:
            return f"{here}: {self.lost} of {counted(self.sent, 'frame')} lost"
        if abs(self.mean_ns - expected_ns) > gateway.tolerance_ns(expected_ns):
            return (
                f"{here}: {microseconds(round(self.mean_ns))} µs on average, the closed form says "
                f"{microseconds(round(expected_ns))} µs"
            )
        return None

    def document(self) -> dict[str, Any]:
        at_gate, jitter = spread(self.at_gate_ns), spread(self.jitter_ns)
        expected_ns = self.expected_mean_ns
        return {
            "share": self.share,
            "class": self.name,
            "frames": self.sent,
            "lost": self.lost,
            "mean_ns": round(self.mean_ns, 1),
            "p80_ns": at_gate.p80_ns,
            "p99_ns": at_gate.p99_ns,
            "max_ns": at_gate.max_ns,
            "mean_jitter_ns": round(statistics.fmean(self.jitter_ns), 1),
            "p80_jitter_ns": jitter.p80_ns,
            "max_jitter_ns": jitter.max_ns,
            "expected_mean_ns": None if expected_ns is None else round(expected_ns, 1),
            "closed_ns": self.closed_ns,
            "path_ns": self.path_ns,
        }
