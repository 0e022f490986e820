"""`cnc lab measure`: run an experiment, leave its rows, figures, pictures and page."""

from __future__ import annotations

from pathlib import Path

import click

from cnc.cli import render
from cnc.cli.options import FILE, JSON
from cnc.cli.terminal import echo
from cnc.errors import CncError


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

    Writes rows.csv, summary.json, pictures (SVG and PNG) and report.html. If this machine's kernel
    has taprio the experiment runs on it in real time; otherwise in user-mode Linux in virtual time,
    where every run is the same. Control-plane experiments always run here, in real time.
    """
    from cnc import experiments  # noqa: PLC0415

    found = experiments.measure(file, output or Path(file.stem), lambda s: echo(s, err=True))
    render.measured(found, as_json=as_json)
    if found.report.disagreements:
        raise click.exceptions.Exit(CncError.exit_code)
