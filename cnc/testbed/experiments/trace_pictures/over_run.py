"""How the total of frames moves over a run: X-LAP, section 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments.pictures import BLUE
from cnc.testbed.experiments.trace_pictures.style import MS_PER_NS, name_of, panels_of, unit_of
from cnc.testbed.traffic.trace.columns import PathColumns
from cnc.testbed.traffic.trace.drift import drifts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def drift(figure: Figure, paths: Sequence[PathColumns], start_ns: int) -> None:
    panels = panels_of(figure, paths, 1.9)
    for axes, path, drift in zip(panels, paths, drifts(paths), strict=True):
        if drift.trend is None:
            axes.text(0.5, 0.5, "too few frames", ha="center", transform=axes.transAxes)
            continue
        slope, within = drift.slope_ns_per_s or 0, drift.confidence_ns_per_s or 0
        axes.set_title(
            f"{name_of(path, paths)}: {round(slope):+,d} ± {within:,.0f} ns/s, {drift.trend}",
            fontsize=10,
            loc="left",
        )
        at_ms = [(block.begin_ns - start_ns) * MS_PER_NS for block in drift.blocks]
        scale, unit = unit_of(max(block.third_quartile_ns for block in drift.blocks))
        quartiles = [
            [value * scale for value in same]
            for same in zip(
                *((b.first_quartile_ns, b.median_ns, b.third_quartile_ns) for b in drift.blocks),
                strict=True,
            )
        ]
        axes.fill_between(at_ms, quartiles[0], quartiles[2], color=BLUE, alpha=0.2, linewidth=0)
        axes.plot(at_ms, quartiles[1], "o-", color=BLUE, markersize=3, linewidth=1)
        axes.ticklabel_format(axis="y", useOffset=False)
        axes.set_xlabel("ms after the start")
        axes.set_ylabel(f"total, {unit}")
