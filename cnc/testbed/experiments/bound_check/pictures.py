"""The pictures of a bound check: latencies beside their bounds, and the slack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.bound_check.figures import Verdict

US_PER_NS = 1e-3
THICK = 7  # of a bar, in points: a stream's latencies hardly differ


def bound_check_pictures(verdicts: Sequence[Verdict]) -> list[Picture]:
    """Both, with the streams from the least bound to the greatest; those that had no frames left
    out."""
    shown = sorted(
        (verdict for verdict in verdicts if verdict.latency), key=lambda verdict: -verdict.bound_ns
    )
    return [
        Picture("latency", "Latency of every stream's frames, and its bound.", _latencies(shown)),
        Picture(
            "slack",
            "How long before its bound every stream's frames arrived. Per cent: what the slowest "
            "left of the bound.",
            _slack(shown),
        ),
    ]


def _latencies(verdicts: Sequence[Verdict]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for row, verdict in enumerate(verdicts):
            figures, bound = verdict.document(), verdict.bound_ns * US_PER_NS
            least, mean, greatest = (
                figures[f"{key}_ns"] * US_PER_NS for key in ("min", "mean", "max")
            )
            _bar(axes, row, (least, greatest), mean, "least to greatest")
            axes.plot(
                bound,
                row,
                "|",
                color=pictures.ORANGE,
                markersize=16,
                markeredgewidth=2,
                label=None if row else "bound",
            )
        axes.set_xlabel("latency, µs")
        axes.set_xlim(left=0)
        axes.legend(loc="upper right")
        _rows(axes, verdicts)

    return draw


def _slack(verdicts: Sequence[Verdict]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.axvline(0, color=pictures.ORANGE, linewidth=2, label="bound")
        for row, verdict in enumerate(verdicts):
            figures = verdict.document()
            last, mean, first = (
                (verdict.bound_ns - figures[f"{key}_ns"]) * US_PER_NS
                for key in ("max", "mean", "min")
            )
            _bar(axes, row, (last, first), mean, "slowest to fastest")
            axes.annotate(
                f"{100 * (verdict.slack_ns or 0) / verdict.bound_ns:.1f} %",
                (last, row),
                xytext=(-6, 0),
                textcoords="offset points",
                ha="right",
                va="center",
            )
        axes.set_xlabel("time left until the bound, µs")
        axes.set_xlim(left=min(0, *axes.get_xlim()))
        axes.legend(loc="center left", bbox_to_anchor=(0.1, 0.5))
        _rows(axes, verdicts)

    return draw


def _bar(axes: pictures.Axes, row: int, ends: tuple[float, float], mean: float, label: str) -> None:
    """One stream's latencies; the legend has them once."""
    axes.plot(
        ends,
        [row, row],
        color=pictures.BLUE,
        linewidth=THICK,
        solid_capstyle="butt",
        label=None if row else label,
    )
    axes.plot(mean, row, ".", color="black", label=None if row else "mean")


def _rows(axes: pictures.Axes, verdicts: Sequence[Verdict]) -> None:
    axes.set_yticks(range(len(verdicts)), [verdict.name for verdict in verdicts])
    axes.set_ylim(-0.6, len(verdicts) - 0.4)
