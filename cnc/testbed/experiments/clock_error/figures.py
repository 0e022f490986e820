"""The figures of a clock error: what all streams did while the clocks were wrong by so much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cnc.support.format import duration
from cnc.testbed.traffic.measure import Summary


@dataclass(frozen=True, slots=True)
class Point:
    """All streams while the clocks are ahead by `error_ns`; below 0 they are behind."""

    error_ns: int
    streams: Sequence[Summary]

    @property
    def frames(self) -> int:
        return sum(stream.sent for stream in self.streams)

    @property
    def late(self) -> int:
        return sum(stream.late for stream in self.streams)

    @property
    def lost(self) -> int:
        return sum(stream.lost for stream in self.streams)

    @property
    def max_ns(self) -> int | None:
        """The greatest latency; None if nothing arrived."""
        return max((s.latency.max_ns for s in self.streams if s.latency), default=None)

    @property
    def worst_over_bound_ns(self) -> int | None:
        """How far the worst frame was beyond its bound; below 0 the slack."""
        return max(
            (
                s.latency.max_ns - s.flow.latency_bound_ns
                for s in self.streams
                if s.latency and s.flow.latency_bound_ns
            ),
            default=None,
        )

    def disagreement(self, planned_ns: int) -> str | None:
        """What is not as it was planned for, if anything."""
        if abs(self.error_ns) > planned_ns or not self.late + self.lost:
            return None
        return (
            f"a clock error of {duration(self.error_ns)} is within the planned "
            f"{duration(planned_ns)}, but of {self.frames} frames {self.late} were late and "
            f"{self.lost} lost"
        )

    def document(self) -> dict[str, Any]:
        return {
            "error_ns": self.error_ns,
            "frames": self.frames,
            "late": self.late,
            "lost": self.lost,
            "max_ns": self.max_ns,
            "worst_over_bound_ns": self.worst_over_bound_ns,
            "out_of_window": sum(stream.outside for stream in self.streams),
            "streams": {
                s.flow.name: {"late": s.late, "max_ns": s.latency.max_ns if s.latency else None}
                for s in self.streams
            },
        }
