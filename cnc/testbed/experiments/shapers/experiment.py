"""How long frames are on their way that a credit-based shaper or strict priority sends, beside
planned streams and best effort; each against its bound, and by which theory it has that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from cnc.model import StreamPlan, Theory
from cnc.support.format import microseconds
from cnc.testbed.experiments import sending
from cnc.testbed.experiments.beside_load import BesideLoad, Measured
from cnc.testbed.experiments.experiment import Report, Sheet, not_judged
from cnc.testbed.experiments.shapers.pictures import shapers_pictures
from cnc.testbed.lab.platform import Platform

_NOTHING = "–"  # noqa: RUF001


class Shapers(BesideLoad):
    """The experiment of a file of kind shapers."""

    __slots__ = ()
    refused: ClassVar = (
        "is forwarded once each interval",
        "choose a network without `shaping: cqf`; the experiment cyclic-queuing has that",
    )

    @staticmethod
    def is_subject(its: StreamPlan) -> bool:
        return its.theory is not Theory.CQF

    def report(self, directory: Path, platform: Platform) -> Report:
        found, of_all, remark = self.measured(directory, platform)
        found.sort(key=lambda its: (str(its.planned.theory), its.switches, its.name))
        wrong = [line for its in found for line in its.disagreements()]
        return Report(
            summary={
                "streams": [
                    {"theory": str(its.planned.theory), **its.document(), "of_bound": _part(its)}
                    for its in found
                ],
                **of_all,
            },
            sheets=[_table(found)],
            pictures=shapers_pictures(found),
            disagreements=wrong if platform.exact else [],
            remarks=[remark, *not_judged(platform)],
            modelled=sending.modelled(self.emulated.network, platform),
        )


def _part(its: Measured) -> float | None:
    """What the greatest latency is of the bound."""
    latency = its.summary.latency
    return round(latency.max_ns / its.bound_ns, 4) if latency else None


def _table(found: Sequence[Measured]) -> Sheet:
    def shown(time_ns: float | None) -> str:
        return _NOTHING if time_ns is None else microseconds(round(time_ns))

    rows = []
    for each in found:
        its, part = each.document(), _part(each)
        rows.append(
            [
                *(its["id"], str(each.planned.theory), str(its["switches"]), str(its["frames"])),
                *(str(its[key]) for key in ("lost", "late", "out_of_order")),
                *(shown(its[f"{key}_ns"]) for key in ("min", "mean", "max", "bound")),
                _NOTHING if part is None else f"{part:.0%}",
            ]
        )
    return Sheet(
        "Latency from the start of sending to reception, µs, against the bound",
        [
            *("stream", "bound by", ">switches", ">frames", ">lost", ">late", ">out of order"),
            *(">least", ">mean", ">greatest", ">bound", ">of the bound"),
        ],
        rows,
    )
