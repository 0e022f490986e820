"""The tables of the report."""

from __future__ import annotations

from collections.abc import Sequence

from cnc.testbed.experiments.characterizer.figures import PERCENT, Accuracy, Run
from cnc.testbed.experiments.experiment import Sheet
from cnc.testbed.traffic.echo.sampling import Sample

MS_PER_NS = 1e-6
_NOTHING = "–"  # noqa: RUF001


def echo_points_sheet(run: Run) -> Sheet:
    """A row for each echo point, with its difference from the one before."""
    rows = []
    befores = [None, *run.differences]
    for point, sample, before in zip(run.points, run.sampling.points, befores, strict=True):
        of = ["", "", "", ""]
        if before:
            of = [
                before.of,
                ms(before.sample.mean_ns),
                ms(before.modelled_ns),
                f"{before.off_ns:+.0f}",
            ]
        rows.append([point.name, ms(sample.mean_ns), *of])
    return Sheet(
        f"Echo points, in the order in which a command passes them; N = {run.sampling.rounds}",
        [
            *("echo point", ">round trip, ms", "from the one before"),
            *(">measured, ms", ">modelled, ms", ">off, ns"),
        ],
        rows,
    )


def accuracy_sheet(study: Sequence[Accuracy]) -> Sheet:
    """A row for each work that was set beside each rate of other frames."""
    rows = []
    for each in study:
        published_ns = each.published_ns
        rows.append(
            [
                f"{each.rate_bps / 1000:g}",
                ms(each.component.work_ns),
                with_margin(each.work.sample),
                f"{each.work.off * PERCENT:+.2f}",
                _NOTHING if published_ns is None else f"{published_ns * MS_PER_NS:.2f}",
                str(each.run.sampling.rounds),
            ]
        )
    return Sheet(
        "A component's work: set, measured here, and measured in the paper (table II)",
        [
            *(">other frames, kb/s", ">set, ms", ">measured, ms", ">error, %"),
            *(">paper, ms", ">N"),
        ],
        rows,
    )


def ms(time_ns: float) -> str:
    return f"{time_ns * MS_PER_NS:.4f}"


def with_margin(sample: Sample) -> str:
    """A mean, and half the width of its confidence interval."""
    return f"{sample.mean_ns * MS_PER_NS:.3f} ± {sample.margin_ns * MS_PER_NS:.3f}"
