"""What pictures of traces share: colours, units, names, panels and a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments.pictures import BLUE, GREEN, GREY, ORANGE, Axes
from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.columns import PathColumns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

US_PER_NS = 1e-3
MS_PER_NS = 1e-6
_LONG_NS = 10_000_000  # from here on labels in microseconds run into each other
ROW_INCHES, HEAD_INCHES = 0.34, 1.5
# Of Okabe and Ito, distinguishable with red-green colour blindness, and in their order.
LAYER_COLOURS = {
    Layer.WAKE_UP: "#e69f00",
    Layer.SOCKET: "#f0e442",
    Layer.RETRANSMISSION: "#aa4499",
    Layer.QDISC: "#56b4e9",
    Layer.PROCESSING: GREEN,
    Layer.GATE_CLOSED: BLUE,
    Layer.OWN_CLASS: "#cc79a7",
    Layer.OTHER_CLASS: ORANGE,
    Layer.WIRE: "#b3b3b3",
    Layer.HEAD_OF_LINE: "#117733",
    Layer.LISTENER_WAKE_UP: "#882255",
    Layer.LISTENER: "#332288",
}
FLOW_COLOURS = (BLUE, ORANGE, GREEN, "#cc79a7", "#e69f00", GREY)


def layers_of(paths: Sequence[PathColumns]) -> list[Layer]:
    """Those that the way of any of them has."""
    known = {layer for path in paths for _, layer in path.places}
    return [layer for layer in Layer if layer in known]


def name_of(path: PathColumns, paths: Sequence[PathColumns]) -> str:
    alone = sum(each.flow == path.flow for each in paths) == 1 and path.path == 0
    return path.flow if alone else f"{path.flow}, path {path.path + 1}"


def sized(figure: Figure, panels: int, row_inches: float) -> tuple[int, int]:
    """Make a figure as high as so many panels need, two beside each other; rows and columns."""
    columns = min(2, panels)
    rows = -(-panels // columns)
    figure.set_size_inches(9, HEAD_INCHES / 2 + rows * row_inches)
    return rows, columns


def panels_of(figure: Figure, paths: Sequence[PathColumns], row_inches: float) -> list[Axes]:
    """A panel for each flow, two beside each other, with its name."""
    shape = sized(figure, len(paths), row_inches)
    axes: list[Axes] = list(figure.subplots(*shape, squeeze=False).flat)
    for spare in axes[len(paths) :]:
        spare.remove()
    for each, path in zip(axes, paths, strict=False):
        each.set_title(name_of(path, paths), fontsize=10, loc="left")
    return axes[: len(paths)]


def unit_of(most_ns: float) -> tuple[float, str]:
    """How many units of an axis that reaches so far a nanosecond is, and which."""
    return (MS_PER_NS, "ms") if most_ns >= _LONG_NS else (US_PER_NS, "µs")


def legend(figure: Figure, axes: Axes, columns: int, order: Sequence[str] = ()) -> None:
    """One legend for the whole figure above its panels; names in `order` if there is one."""
    handles, names = axes.get_legend_handles_labels()
    labelled = dict(zip(names, handles, strict=True))
    names = [name for name in order or names if name in labelled]
    figure.legend(
        [labelled[name] for name in names],
        names,
        loc="outside upper center",
        ncols=columns,
        fontsize=9,
    )
