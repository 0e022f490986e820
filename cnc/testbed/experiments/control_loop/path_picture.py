"""Pictures of loops that follow a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.traffic.loop.axes import planned
from cnc.testbed.traffic.loop.path_error import distances, driven
from cnc.testbed.traffic.loop.run import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MS_PER_NS = 1e-6


def path_picture(curve: Curve) -> Picture:
    """Where the output was to be and where it was, and how far apart that is at each sample."""
    loop = curve.loop
    times = tuple(period.sampled_ns * MS_PER_NS for period in curve.periods)
    wanted, reached = planned(loop), driven(loop, curve.axes)
    off = distances(loop, curve.axes)
    unit = f", {loop.unit}" if loop.unit else ""

    def draw(figure: Figure) -> None:
        way, error = figure.subplots(1, 2)
        columns = [[*zip(*points, strict=True)] for points in (wanted, reached)]
        if len(columns[0]) == 1:
            columns = [[times, *its] for its in columns]
            way.set_xlabel("time, ms")
            way.set_ylabel(f"output of the plant{unit}")
        else:
            way.set_aspect("equal", adjustable="datalim")
            way.set_xlabel(f"x{unit}")
            way.set_ylabel(f"y{unit}")
        way.plot(*columns[0], color=pictures.GREY, linewidth=3, alpha=0.4, label="planned")
        way.plot(*columns[1], ".-", color=pictures.BLUE, linewidth=1, markersize=3, label="driven")
        pictures.legend_above(way)
        error.plot(times, off, color=pictures.ORANGE, linewidth=1)
        error.set_ylim(bottom=0)
        error.set_xlabel("time, ms")
        error.set_ylabel(f"path error{unit}")

    return Picture("path", f"Path of loop {loop.name}, planned and driven, at its samples.", draw)
