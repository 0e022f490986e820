"""What `cnc lab clocks` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo
from cnc.model import NS_PER_S
from cnc.support.format import duration

if TYPE_CHECKING:
    from cnc.testbed.lab.kernels.clock_history import ClockHistory, NodeClock

_NOTHING = "–"  # noqa: RUF001


def clocks(history: ClockHistory, *, as_json: bool) -> None:
    """The clock of each node."""
    if as_json:
        from cnc.testbed.json_output.clocks import LabClocks  # noqa: PLC0415

        print_json(LabClocks.of(history))
        return
    table = new_table(
        f"clocks of lab {history.intent.name}; the plan allows "
        f"{duration(history.intent.network.clock_error_ns)}",
        *("node", "role", "grandmaster", ">since", f">ahead of {history.reference}"),
        *(">least in 10 s", ">greatest"),
    )
    for each in history.nodes():
        table.add_row(*_cells(each))
    print_table(table)
    if not any(history.roles.values()):
        echo("no node runs a ptp4l: nothing keeps these clocks together")


def _cells(clock: NodeClock) -> list[str]:
    since = _NOTHING if clock.since_ns is None else f"{clock.since_ns / NS_PER_S:.3f} s"
    figures_ns = (clock.ahead_ns, clock.least_ns, clock.greatest_ns)
    return [
        clock.node,
        clock.role or _NOTHING,
        clock.grandmaster or _NOTHING,
        since,
        *map(duration, figures_ns),
    ]
