"""Style of pictures, and their files: the same figures give the same bytes."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cnc.errors import CncError
from cnc.testbed.experiments.experiment import Picture

Axes = Any  # matplotlib's; it is imported only where something is drawn

# Distinguishable in print, and with red-green colour blindness.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#767676"

_SIZE_INCHES = (7.2, 4.2)
# Of a legend: characters that fit the width, and what an entry takes beside its name.
_LEGEND_CHARACTERS, _ENTRY_CHARACTERS = 84, 8
_FOOTNOTE_CHARACTERS = 130  # that fit a line
_STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "cnc",
}


def require() -> None:
    """Raise CncError if matplotlib is missing: before a measurement rather than after it."""
    try:
        import matplotlib  # noqa: F401, PLC0415
    except ImportError:
        raise CncError(
            "pictures are drawn with matplotlib, which is not installed",
            hint="scripts/setup installs it, and so does "
            "`pip install 'tsn-control-plane-lab[report]'`",
        ) from None


def legend_above(axes: Axes, columns_max: int = 2) -> None:
    """A legend outside of the drawing area, in as many columns as fit, up to `columns_max`."""
    _, names = axes.get_legend_handles_labels()
    fit = _LEGEND_CHARACTERS // (_ENTRY_CHARACTERS + max(map(len, names), default=0))
    columns = max(1, min(columns_max, fit))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns)


def save(pictures: Iterable[Picture], directory: Path, facts: Mapping[str, str]) -> dict[str, str]:
    """Write each picture as SVG, PNG and PDF, with the facts below it, since pictures are used
    alone; returns the SVG texts by name."""
    import matplotlib  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    texts = {}
    for picture in pictures:
        with matplotlib.rc_context(_STYLE):
            figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
            picture.draw(figure)
            footnote = "; ".join(f"{name} {value}" for name, value in facts.items())
            footnote = textwrap.fill(footnote, _FOOTNOTE_CHARACTERS)
            figure.supxlabel(footnote, fontsize=7, color=GREY, x=0.99, ha="right")
            figure.savefig(directory / f"{picture.name}.png", metadata={"Software": None})
            figure.savefig(directory / f"{picture.name}.pdf", metadata={"CreationDate": None})
            svg = io.StringIO()
            figure.savefig(svg, format="svg", metadata={"Date": None})
        texts[picture.name] = svg.getvalue()
        (directory / f"{picture.name}.svg").write_text(texts[picture.name])
    return texts
