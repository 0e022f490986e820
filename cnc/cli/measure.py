"""`cnc lab measure`: run an experiment, leave its rows, figures, pictures and page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc.cli.options import FILE, JSON, command_line
from cnc.cli.render.output import new_table, open_console, print_json, print_table
from cnc.cli.terminal import echo
from cnc.errors import CncError
from cnc.lazy import lazy_import

if TYPE_CHECKING:
    from cnc import experiments
    from cnc.experiments import Measured
else:
    experiments = lazy_import("cnc.experiments")


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for what comes out; it is made if it is not there.  [default: the name of "
    "FILE without its ending]",
)
@JSON
def measure(file: Path, output: Path | None, as_json: bool) -> None:
    """Run the experiment FILE; see schedules/experiments.

    Writes rows.csv, summary.json, pictures (SVG, PNG, PDF) and report.html. If this machine's
    kernel has taprio the experiment runs on it in real time; otherwise in user-mode Linux in
    virtual time, where every run is the same. One whose nodes have clocks of their own boots a
    kernel for each of them. Control-plane experiments always run here, in real time.
    """
    directory = output or Path(file.stem)
    found = experiments.measure(
        file, directory, lambda s: echo(s, err=True), command=command_line()
    )
    print_measured(found, as_json=as_json)
    if found.report.disagreements:
        raise click.exceptions.Exit(CncError.exit_code)


def print_measured(found: Measured, *, as_json: bool) -> None:
    """The figures, what disagrees, and where the rest is."""
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
