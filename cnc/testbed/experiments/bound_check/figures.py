"""The figures of a bound check: the latencies of one stream's frames, compared with its bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cnc.testbed.traffic.measure import Spread, Summary


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one stream's frames, beside what it was promised."""

    summary: Summary
    bound_ns: int

    @property
    def name(self) -> str:
        return self.summary.flow.name

    @property
    def latency(self) -> Spread | None:
        return self.summary.latency

    @property
    def slack_ns(self) -> int | None:
        """The bound less the greatest latency; below 0 a frame was late."""
        return None if self.latency is None else self.bound_ns - self.latency.max_ns

    def document(self) -> dict[str, Any]:
        latency = self.latency
        return {
            "id": self.name,
            "frames": self.summary.sent,
            "bound_ns": self.bound_ns,
            "min_ns": latency.min_ns if latency else None,
            "mean_ns": latency.mean_ns if latency else None,
            "max_ns": latency.max_ns if latency else None,
            "slack_ns": self.slack_ns,
            "late": self.summary.late,
            "lost": self.summary.lost,
        }
