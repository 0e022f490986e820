"""The tables of the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cnc.loops.model import Accepted
from cnc.testbed.experiments.experiment import Sheet
from cnc.testbed.experiments.step_responses.figures import PERCENT, Cell
from cnc.testbed.experiments.step_responses.tuning import Comparison
from cnc.testbed.traffic.loop.response import StepResponse

_NOTHING = "–"  # noqa: RUF001
MS_PER_NS = 1e-6
MS_PER_S = 1e3


def grid(cells: Sequence[Cell], accepted: Accepted) -> Sheet:
    """A row for each round-trip time and loss."""
    rows = []
    for cell in cells:
        responses = [each.response for each in cell.curves]
        rows.append(
            [
                f"{cell.round_trip_ns * MS_PER_NS:g}",
                str(cell.loss_percent),
                f"{cell.good(accepted)} of {len(responses)}",
                *_ranges(responses),
                _span([each.curve.lost_samples for each in cell.curves], "g"),
                _span([each.curve.lost_commands for each in cell.curves], "g"),
                "yes" if all(each.differs_at is None for each in cell.curves) else "no",
            ]
        )
    return Sheet(
        "Step responses, from the least to the greatest of all seeds; IAE is the integral of the "
        "error's amount",
        [
            *(">round trip, ms", ">lost, %", ">good", ">rise time, ms", ">overshoot, %"),
            *(">settling time, ms", ">IAE, ms", ">samples lost", ">commands lost", "as computed"),
        ],
        rows,
    )


def tuning(comparison: Comparison) -> Sheet:
    """The gains of the loop beside those that were found, at each round-trip time."""
    rows = []
    for name, its in comparison.by_name.items():
        for round_trip_ns, response in zip(comparison.round_trips_ns, its.responses, strict=True):
            separation_s = its.separation_s
            rows.append(
                [
                    *(name, f"{its.gains.kp.normalize():f}", f"{its.gains.ki_per_s.normalize():f}"),
                    _NOTHING if separation_s is None else f"{separation_s * MS_PER_S:.3f}",
                    f"{round_trip_ns * MS_PER_NS:g}",
                    *_ranges([response]),
                ]
            )
    return Sheet(
        "Gains, computed; the separation is how far the two curves are apart that are least so",
        [
            *("gains", ">kp", ">ki, 1/s", ">separation, ms", ">round trip, ms"),
            *(">rise time, ms", ">overshoot, %", ">settling time, ms", ">IAE, ms"),
        ],
        rows,
    )


def _ranges(responses: Sequence[StepResponse]) -> Iterable[str]:
    """Rise time, overshoot, settling time and integral error."""
    yield _span([_scaled(each.rise_time_ns, MS_PER_NS) for each in responses], "g")
    yield _span([_scaled(each.overshoot, PERCENT) for each in responses], ".1f")
    yield _span([_scaled(each.settling_time_ns, MS_PER_NS) for each in responses], "g")
    yield _span([_scaled(each.absolute_error_s, MS_PER_S) for each in responses], ".2f")


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _span(values: Sequence[float | None], form: str) -> str:
    """From the least to the greatest; a dash stands for the curves that never came so far."""
    known = [value for value in values if value is not None]
    ends = [f"{end:{form}}" for end in (min(known), max(known))] if known else []
    if len(known) < len(values):
        ends = [*ends[:1], _NOTHING]
    return " … ".join(dict.fromkeys(ends))
