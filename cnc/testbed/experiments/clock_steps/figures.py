"""What became of each rollout, of the frames meanwhile, and of the clock that was set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cnc.support.format import duration
from cnc.testbed.experiments.clock_loss.figures import Part
from cnc.testbed.lab.kernels.offsets import TrueOffsets

PUSHED = "pushed"
PUSH_COLUMNS = ("part", "by_ns", "result", "runs", "stepped_ns")


class Runs(StrEnum):
    """Which schedule all switches run after a rollout."""

    NEW = "new"
    OLD = "old"
    MIXED = "mixed"  # neither everywhere


@dataclass(frozen=True, slots=True)
class Push:
    """A rollout. `result` is PUSHED, or why it was not; `stepped_ns` when the clock was set ahead
    by `by_ns`, from the start of sending on, None where it was not."""

    part: str
    by_ns: int
    result: str
    runs: Runs
    stepped_ns: int | None

    @property
    def is_pushed(self) -> bool:
        return self.result == PUSHED

    def row(self) -> tuple[object, ...]:
        return self.part, self.by_ns, self.result, self.runs, self.stepped_ns

    @classmethod
    def of(cls, row: Mapping[str, str]) -> Push:
        """Inverse of `row`, for a row as text under PUSH_COLUMNS."""
        stepped = row["stepped_ns"]
        return cls(
            row["part"],
            int(row["by_ns"]),
            row["result"],
            Runs(row["runs"]),
            int(stepped) if stepped else None,
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """A step in the middle of a rollout: the distance of the clock of `switch` from that which all
    follow, `follows`, is known by the true offsets of the part."""

    push: Push
    part: Part
    switch: str
    follows: str

    def distances_ns(self) -> list[tuple[int, int]]:
        """How far the clock was ahead, at each record since it was set; instants count from
        there."""
        stepped_ns = self.push.stepped_ns or 0
        times_ns, own_ns = self.part.offsets.series(self.switch)
        _, others_ns = self.part.offsets.series(self.follows)
        return [
            (time_ns - stepped_ns, own - other)
            for time_ns, own, other in zip(times_ns, own_ns, others_ns, strict=True)
            if time_ns >= stepped_ns
        ]

    def in_step_after_ns(self, allowed_ns: int) -> int | None:
        """How long after the step the clock was within what is allowed and stayed there; None:
        never."""
        distances = self.distances_ns()
        off_ns = [time_ns for time_ns, off in distances if abs(off) > allowed_ns]
        if not off_ns:
            return 0
        return min((time_ns for time_ns, _ in distances if time_ns > off_ns[-1]), default=None)

    def last_bad_after_ns(self) -> int | None:
        """How long after the step the last frame was planned that was late or lost; None: none."""
        bad_ns = [each.last_late_ns for each in self.part.streams]
        last_ns = max((ns for ns in bad_ns if ns is not None), default=None)
        return None if last_ns is None else last_ns - (self.push.stepped_ns or 0)

    def disagreements(self, allowed_ns: int) -> list[str]:
        lines = []
        step = f"a step of {duration(abs(self.push.by_ns))}"
        if self.push.runs is Runs.MIXED:
            lines.append(f"{step}: some switches run the new schedule, others the old one")
        if self.push.is_pushed != (self.push.runs is Runs.NEW):
            lines.append(
                f"{step}: the push said {self.push.result!r}, and the switches run the "
                f"{self.push.runs} schedule"
            )
        if self.in_step_after_ns(allowed_ns) is None:
            lines.append(f"{step}: the clock of {self.switch} was not in step again at the end")
        return lines

    def document(self, allowed_ns: int) -> dict[str, Any]:
        return {
            "by_ns": self.push.by_ns,
            "result": self.push.result,
            "runs": self.push.runs,
            "frames": self.part.frames,
            "late": self.part.late,
            "lost": self.part.lost,
            "last_late_after_ns": self.last_bad_after_ns(),
            "in_step_after_ns": self.in_step_after_ns(allowed_ns),
        }


def settling_disagreements(refused: Push, accepted: Push, switch: str) -> list[str]:
    """What is wrong with the two pushes around the settling of a clock."""
    lines = []
    if refused.is_pushed:
        lines.append(f"a push while the clock of {switch} settled was not refused")
    elif switch not in refused.result:
        lines.append(f"a push while the clock of {switch} settled: {refused.result}")
    if not accepted.is_pushed:
        lines.append(f"a push with clocks in step was refused: {accepted.result}")
    return lines


def truth_of(offsets: Mapping[str, Iterable[Any]]) -> dict[str, TrueOffsets]:
    """The true offsets of each part."""
    return {part: TrueOffsets(its) for part, its in offsets.items()}
