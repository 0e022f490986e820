"""What became of the frames of a stream that is planned beside a share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cnc.support.format import counted, microseconds
from cnc.testbed.experiments.experiment import Sheet
from cnc.testbed.traffic.flows import Flow


@dataclass(frozen=True, slots=True)
class Beside:
    """The frames at one share: each counts from when it was to be sent until it was received.
    `late` are those that took longer than `bound_ns`; `max_ns` is None where none arrived."""

    share: int
    frames: int
    lost: int
    late: int
    max_ns: int | None
    bound_ns: int

    @classmethod
    def of(cls, share: int, flow: Flow, rows: Sequence[Mapping[str, str]]) -> Beside:
        """The frames of the flow, by the rows of them all."""
        bound_ns = flow.latency_bound_ns or 0
        took_ns = [
            int(row["received_ns"]) - int(row["planned_ns"]) for row in rows if row["received_ns"]
        ]
        return cls(
            share,
            frames=len(rows),
            lost=len(rows) - len(took_ns),
            late=sum(time_ns > bound_ns for time_ns in took_ns),
            max_ns=max(took_ns, default=None),
            bound_ns=bound_ns,
        )

    def disagreement(self) -> str | None:
        """What is not as planned, if anything."""
        if not self.late and not self.lost:
            return None
        return (
            f"{self.lost} lost and {self.late} late of {counted(self.frames, 'planned frame')} "
            f"beside a share of {self.share} %: the bound is {microseconds(self.bound_ns)} µs"
        )

    def document(self) -> dict[str, Any]:
        return asdict(self)


def beside_table(found: Sequence[Beside]) -> Sheet:
    """For the report."""
    return Sheet(
        "The stream planned beside the share, from the planned start of sending to reception",
        [">share, %", ">frames", ">lost", ">late", ">max, µs", ">bound, µs"],
        [
            [
                *map(str, (its.share, its.frames, its.lost, its.late)),
                *("–" if ns is None else f"{ns / 1000:.1f}" for ns in (its.max_ns, its.bound_ns)),  # noqa: RUF001
            ]
            for its in found
        ],
    )
