"""The figures of launch times: how late frames left, one way to send them, beside something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cnc.support.format import duration

SLEEPS, LAUNCHES = "sleeps", "launches"
NAMES = {SLEEPS: "the program sends", LAUNCHES: "SO_TXTIME and etf"}
STAMP_NS = 1_000  # as exact as stamps are in virtual time


@dataclass(frozen=True, slots=True)
class Point:
    """`late_ns` of the frames that left; the program woke up to `lateness_ns` late by what was
    drawn, or as it did beside so many `busy` programs."""

    way: str
    lateness_ns: int
    busy: int
    late_ns: Sequence[int]
    did_not_leave: int

    def quantile_ns(self, per_mille: int) -> int | None:
        """What so many of a thousand frames keep to; None: none left."""
        ordered = sorted(self.late_ns)
        return ordered[-(-len(ordered) * per_mille // 1_000) - 1] if ordered else None

    def disagreement(self, error_ns: int) -> str | None:
        """What is not as the plan has it, if anything: frames with a time of transmission leave
        within the launch error."""
        if self.way != LAUNCHES:
            return None
        if self.did_not_leave:
            return f"{self.did_not_leave} frames with a time of transmission did not leave"
        worst_ns = self.quantile_ns(1_000)
        if worst_ns is None or not -STAMP_NS <= min(self.late_ns) <= worst_ns <= error_ns:
            return (
                f"a frame with a time of transmission left {duration(worst_ns or 0)} late, "
                f"{duration(error_ns)} are planned"
            )
        return None

    def document(self) -> dict[str, Any]:
        return {
            "way": self.way,
            "lateness_ns": self.lateness_ns,
            "busy": self.busy,
            "frames": len(self.late_ns),
            "did_not_leave": self.did_not_leave,
            "p50_ns": self.quantile_ns(500),
            "p99_ns": self.quantile_ns(990),
            "p999_ns": self.quantile_ns(999),
            "max_ns": self.quantile_ns(1_000),
        }
