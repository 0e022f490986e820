"""`cnc lab measure`: run an experiment, leave its rows, figures, pictures and page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc.cli.options import FILE, JSON, command_line
from cnc.cli.render.output import new_table, open_console, print_json, print_table
from cnc.cli.signals import until_signal
from cnc.cli.terminal import echo
from cnc.errors import CncError
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.testbed import experiments
    from cnc.testbed.experiments import Measured, grid
    from cnc.testbed.experiments.experiment import Report
else:
    experiments = lazy_import("cnc.testbed.experiments")
    grid = lazy_import("cnc.testbed.experiments.grid")


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for what comes out; it is made if it is not there.  [default: the name of "
    "FILE without its ending]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE[,VALUE...]",
    help="Another value for a key of FILE, or of the intent that it names; of several values each "
    "is a run of its own. May be repeated: then all values are combined.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many runs of --set go on at a time.  [default: one a processor]",
)
@click.option(
    "--dask",
    metavar="HOST:PORT",
    help="Let the runs of --set go on at the workers of this Dask scheduler.",
)
@JSON
def measure(  # noqa: PLR0917  one parameter an option
    file: Path,
    output: Path | None,
    settings: tuple[str, ...],
    jobs: int | None,
    dask: str | None,
    as_json: bool,
) -> None:
    """Run the experiment FILE; see schedules/experiments.

    Writes rows.csv, summary.json, pictures (SVG, PNG, PDF) and report.html. If this machine's
    kernel has taprio the experiment runs on it in real time; otherwise in user-mode Linux in
    virtual time, where every run is the same. One whose nodes have clocks of their own boots a
    kernel for each of them. Control-plane experiments always run here, in real time.

    With several values of --set each run has a directory of its own below the output, and grid.csv
    there has the figures of all, a row for each.
    """
    directory = output or Path(file.stem)
    if jobs is not None and dask is not None:
        raise click.UsageError("--jobs and --dask exclude each other")
    points = grid.points(file, settings) if settings else []
    if len(points) > 1:
        its = grid.Grid(file, directory, points, grid.place_of(points, jobs, dask))
        _measure_grid(its, len(points), directory, as_json=as_json)
        return
    if jobs is not None or dask is not None:
        raise click.UsageError("--jobs and --dask are about several runs, and this is one")
    described = points[0].write(directory) if points else file
    found = experiments.measure(described, directory, _progress, command=command_line())
    print_measured(found, as_json=as_json)
    if found.report.disagreements:
        raise click.exceptions.Exit(CncError.exit_code)


def _measure_grid(its: grid.Grid, points: int, directory: Path, *, as_json: bool) -> None:
    with until_signal(its.stop):
        found = its.run(_progress, command=command_line())
    if found.ended < points:
        table = f"; {directory / grid.TABLE} has what they measured" if found.ended else ""
        raise KeyboardInterrupt(f"{found.ended} of {points} points have ended{table}")
    if as_json:
        print_json(found.report.summary)
    else:
        _print_report(found.report, directory)
    if found.exit_code:
        raise click.exceptions.Exit(found.exit_code)


def _progress(step: str) -> None:
    echo(step, err=True)


def print_measured(found: Measured, *, as_json: bool) -> None:
    """The figures, what disagrees, and where the rest is."""
    if as_json:
        print_json(experiments.summary_of(found.directory))
        return
    echo(f"{found.description.title}\nMeasured on {found.platform}.\n")
    _print_report(found.report, found.directory)


def _print_report(report: Report, directory: Path) -> None:
    for sheet in report.sheets:
        table = new_table(sheet.title, *sheet.columns)
        for row in sheet.rows:
            table.add_row(*row)
        print_table(table)
    for remark in report.remarks:
        echo(f"{remark}\n")
    for line in report.disagreements:
        open_console().print(
            f"DISAGREES  {line}", style="bold red", highlight=False, soft_wrap=True
        )
    echo(f"{directory / experiments.PAGE} shows it all.")
