"""What an experiment found, as tables and as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, open_console, print_json, print_table
from cnc.cli.terminal import echo

if TYPE_CHECKING:
    from cnc.experiments import Measured


def measured(found: Measured, *, as_json: bool) -> None:
    """The figures, what disagrees, and where the rest is."""
    from cnc import experiments  # noqa: PLC0415

    if as_json:
        print_json(experiments.summary_of(found.directory))
        return
    echo(f"{found.description.title}\nMeasured on {found.platform}.\n")
    for sheet in found.report.sheets:
        table = new_table(sheet.title, *sheet.columns)
        for row in sheet.rows:
            table.add_row(*row)
        print_table(table)
    for remark in found.report.remarks:
        echo(f"{remark}\n")
    for line in found.report.disagreements:
        open_console().print(
            f"DISAGREES  {line}", style="bold red", highlight=False, soft_wrap=True
        )
    echo(f"{found.directory / experiments.PAGE} shows it all.")
