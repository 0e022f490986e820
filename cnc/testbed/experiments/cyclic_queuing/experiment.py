"""How long frames are on their way that are forwarded once each interval.

The plan is pushed like every other; then all streams are sent, in all phases of the intervals, and
beside them the first switch floods the network with best effort.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from cnc.model import StreamPlan
from cnc.support.format import duration
from cnc.testbed.experiments import sending
from cnc.testbed.experiments.beside_load import BesideLoad
from cnc.testbed.experiments.cyclic_queuing.figures import Way
from cnc.testbed.experiments.cyclic_queuing.pictures import cyclic_queuing_pictures
from cnc.testbed.experiments.experiment import Report, Sheet, not_judged
from cnc.testbed.lab.platform import Platform

_NOTHING = "–"  # noqa: RUF001


class CyclicQueuing(BesideLoad):
    """The experiment of a file of kind cyclic-queuing."""

    __slots__ = ()
    refused: ClassVar = (
        "is not forwarded once each interval",
        "choose a network all of whose streams have a class with `shaping: cqf`",
    )

    @staticmethod
    def is_subject(its: StreamPlan) -> bool:
        return its.is_cyclic

    def report(self, directory: Path, platform: Platform) -> Report:
        found, of_all, remark = self.measured(directory, platform)
        ways = [Way(its) for its in found]
        wrong = [line for way in ways for line in way.disagreements()]
        interval_ns = ways[0].interval_ns
        return Report(
            summary={
                "interval_ns": interval_ns,
                "streams": [way.measured.document() for way in ways],
                **of_all,
            },
            sheets=[_table(ways)],
            pictures=cyclic_queuing_pictures(ways),
            disagreements=wrong if platform.exact else [],
            remarks=[f"Intervals of {duration(interval_ns)}. {remark}", *not_judged(platform)],
            modelled=sending.modelled(self.emulated.network, platform),
        )


def _table(ways: Sequence[Way]) -> Sheet:
    def intervals(way: Way, time_ns: float | None) -> str:
        return _NOTHING if time_ns is None else f"{time_ns / way.interval_ns:.3f}"

    rows = []
    for way in ways:
        its = way.measured.document()
        rows.append(
            [
                *(its["id"], str(its["switches"]), str(its["frames"])),
                *(str(its[key]) for key in ("lost", "late", "out_of_order")),
                *(intervals(way, its[f"{key}_ns"]) for key in ("min", "mean", "max", "bound")),
            ]
        )
    return Sheet(
        "Latency from the planned start of sending to reception, in intervals T; annex T says "
        "h - 1 to h + 1",
        [
            *("stream", ">switches h", ">frames", ">lost", ">late", ">out of order"),
            *(">least, T", ">mean, T", ">greatest, T", ">bound, T"),
        ],
        rows,
    )
