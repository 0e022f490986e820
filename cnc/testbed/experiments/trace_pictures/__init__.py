"""Pictures of a trace: the figures of X-LAP (Reif and others, RTN 2017) for the frames of a lab.

distributions  time in layers (figure 4) and stages    frames      single frames (figure 3)
reasons        causes (figure 5), all correlations     regression  one of them (figure 6)
over_run       drift                                   style       what they share

Where there are more flows than a picture has room for, it has those whose total varies most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.experiments.trace_pictures.distributions import layers, stages
from cnc.testbed.experiments.trace_pictures.frames import frames, timeline
from cnc.testbed.experiments.trace_pictures.over_run import drift
from cnc.testbed.experiments.trace_pictures.reasons import causes, correlation
from cnc.testbed.experiments.trace_pictures.regression import regression
from cnc.testbed.traffic.trace.account import Account
from cnc.testbed.traffic.trace.columns import PathColumns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLOWS_MAX = 6
_TITLE_SIZE = 11


def pictures_of(
    paths: Sequence[PathColumns], start_ns: int, wanted: Sequence[Account] = ()
) -> list[Picture]:
    """The pictures of a trace that began at `start_ns` (TAI); none of all frames if none is
    complete. `wanted` are the copies of a frame that has a picture of its own."""
    whole = [path for path in paths if len(path)]
    shown = _most_varying(whole)
    more = f" ({len(shown)} of {len(whole)} flows)" if len(shown) < len(whole) else ""
    found = []
    if wanted:
        row = wanted[0].row
        caption = f"Where the time of {row.flow.name}/{row.seq} went"
        draw = _titled(caption, lambda figure: timeline(figure, wanted))
        found.append(Picture("timeline", caption, draw))
    if not whole:
        return found
    drawn: list[tuple[str, str, Callable[[Figure], None]]] = [
        (
            "layers",
            "Time of frames in each layer: quartiles, 1.5 interquartile ranges, and outliers",
            lambda figure: layers(figure, shown),
        ),
        (
            "frames",
            "The frame with the median total of each flow, and the latest, layer after layer",
            lambda figure: frames(figure, shown),
        ),
        (
            "stages",
            "How long frames were in each stage: cumulated share",
            lambda figure: stages(figure, shown),
        ),
        (
            "causes",
            "Outliers of the total, by the layers that made them late",
            lambda figure: causes(figure, shown),
        ),
        (
            "correlation",
            "Correlation of the time in each layer with the total",
            lambda figure: correlation(figure, shown),
        ),
        (
            "regression",
            "Total over the time in the layer that it is most correlated with",
            lambda figure: regression(figure, shown),
        ),
        (
            "drift",
            "Total of frames over the run: median and quartiles of ten blocks",
            lambda figure: drift(figure, shown, start_ns),
        ),
    ]
    return found + [
        Picture(name, caption + more, _titled(caption + more, draw))
        for name, caption, draw in drawn
    ]


def _titled(title: str, draw: Callable[[Figure], None]) -> Callable[[Figure], None]:
    def draw_titled(figure: Figure) -> None:
        draw(figure)
        if figure.legends:  # it has the place of a title, and can have one
            figure.legends[0].set_title(title)
            figure.legends[0].get_title().set_fontsize(_TITLE_SIZE)
        else:
            figure.suptitle(title, fontsize=_TITLE_SIZE)

    return draw_titled


def _most_varying(paths: Sequence[PathColumns]) -> list[PathColumns]:
    by_range = sorted(paths, key=lambda path: min(path.total_ns) - max(path.total_ns))
    chosen = by_range[:FLOWS_MAX]
    return [path for path in paths if path in chosen]
