"""The pictures of a gate's share: over the shares, or how frames are spread at one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.experiments.gate_share import gateway
from cnc.testbed.experiments.gate_share.gateway import BEST_EFFORT, HIGH_PRIORITY, WHOLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cnc.testbed.experiments.description import GateShareDescription
    from cnc.testbed.experiments.gate_share.figures import Point

COLOURS = {HIGH_PRIORITY: pictures.BLUE, BEST_EFFORT: pictures.ORANGE}
LABELS = {HIGH_PRIORITY: "high priority", BEST_EFFORT: "best effort"}
US_PER_NS = 1e-3
P80 = 0.8


def gate_share_pictures(
    description: GateShareDescription, points: Sequence[Point]
) -> list[Picture]:
    """Two for a sweep, two for a single share."""
    if len({point.share for point in points}) > 1:
        return [
            Picture(
                "latency",
                "Mean time at the gate over high priority's share.",
                _means(description, points),
            ),
            Picture("jitter", "Jitter over high priority's share.", _jitters(points)),
        ]
    return [
        Picture(
            "cdf-latency",
            "How long frames were at the gate.",
            _cdf(points, lambda point: point.at_gate_ns, "time at the gate, µs"),
        ),
        Picture(
            "cdf-jitter",
            "How much two frames in a row differ.",
            _cdf(points, lambda point: point.jitter_ns, "jitter, µs"),
        ),
    ]


def _means(description: GateShareDescription, points: Sequence[Point]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        shares = range(WHOLE + 1)
        for name, class_points in _by_class(points).items():
            curve = [
                gateway.expected_mean_ns(
                    gateway.shut_ns(description, name, share), description.cycle_ns
                )
                for share in shares
            ]
            if description.closed_form:
                axes.plot(
                    shares,
                    [value * US_PER_NS for value in curve],
                    color=COLOURS[name],
                    linewidth=1,
                    label=f"{LABELS[name]}, closed form",
                )
            axes.plot(
                [point.share for point in class_points],
                [point.mean_ns * US_PER_NS for point in class_points],
                "o",
                color=COLOURS[name],
                label=f"{LABELS[name]}, measured",
            )
        axes.set_ylabel("mean time at the gate, µs")
        _over_shares(axes)

    return draw


def _jitters(points: Sequence[Point]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for name, class_points in _by_class(points).items():
            shares = [point.share for point in class_points]
            documents = [point.document() for point in class_points]
            for key, style, what in (
                ("mean_jitter_ns", "o-", "mean"),
                ("p80_jitter_ns", "s--", "80th percentile"),
            ):
                axes.plot(
                    shares,
                    [each[key] * US_PER_NS for each in documents],
                    style,
                    color=COLOURS[name],
                    linewidth=1,
                    label=f"{LABELS[name]}, {what}",
                )
        axes.set_ylabel("jitter, µs")
        _over_shares(axes)

    return draw


def _over_shares(axes: pictures.Axes) -> None:
    axes.set_xlabel("share of the cycle that is open for high priority, %")
    axes.set_xlim(0, WHOLE)
    axes.set_ylim(bottom=0)
    pictures.legend_above(axes)


def _cdf(
    points: Sequence[Point], values: Callable[[Point], Sequence[int]], label: str
) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.axhline(P80, color=pictures.GREY, linewidth=0.8, linestyle=":")
        axes.annotate("80 %", (1, P80), xycoords=("axes fraction", "data"), va="center")
        for name, class_points in _by_class(points).items():
            ordered = sorted(value for point in class_points for value in values(point))
            axes.step(
                [value * US_PER_NS for value in ordered],
                [number / len(ordered) for number in range(1, len(ordered) + 1)],
                where="post",
                color=COLOURS[name],
                label=LABELS[name],
            )
        axes.set_xlabel(label)
        axes.set_ylabel("share of the frames")
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1)
        pictures.legend_above(axes)

    return draw


def _by_class(points: Sequence[Point]) -> dict[str, list[Point]]:
    return {name: [point for point in points if point.name == name] for name in COLOURS}
