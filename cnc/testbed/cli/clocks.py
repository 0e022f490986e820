"""`cnc lab clocks`: how far the clocks of a lab of kernels are off, and what they follow."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc.cli.options import JSON
from cnc.cli.terminal import echo
from cnc.errors import InputError
from cnc.support.lazy import lazy_import
from cnc.testbed.cli.completion import labs
from cnc.testbed.cli.render import clocks as render

if TYPE_CHECKING:
    from cnc.testbed import lab as emulator
    from cnc.testbed.lab.kernels.clock_history import ClockHistory
else:
    emulator = lazy_import("cnc.testbed.lab")

_ROLES = "roles.csv"


@click.command()
@click.argument("name", required=False, shell_complete=labs)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a picture of the clocks since the lab began (SVG, PNG, PDF), their true offsets "
    "and their roles (CSV) into this directory.",
)
@JSON
def clocks(name: str | None, output: Path | None, as_json: bool) -> None:
    """Show the clocks of the lab NAME, whose nodes are kernels of their own: what their ptp4l is to
    others, and how far each is off.

    A clock is off by as much as it is ahead of the first switch's, in true time, which only the lab
    knows.
    """
    from cnc.testbed.experiments import pictures  # noqa: PLC0415
    from cnc.testbed.lab.kernels import clock_history  # noqa: PLC0415

    if output:
        pictures.require()
    found = name or emulator.lifecycle.only()
    if found is None or found not in emulator.lifecycle.names():
        raise InputError(
            f"no lab {found} is up" if found else "no lab is up",
            hint="`cnc lab up FILE --kernels own` brings one up",
        )
    history = clock_history.read(found)
    render.clocks(history, as_json=as_json)
    if output:
        _write(history, output)
        if not as_json:
            echo(f"the picture is {output}/clocks.svg, the figures are in {output}")


def _write(history: ClockHistory, directory: Path) -> None:
    from cnc.testbed.experiments import pictures  # noqa: PLC0415
    from cnc.testbed.experiments.clock_pictures import clock_picture  # noqa: PLC0415

    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(history.record, directory / history.record.name)
    with (directory / _ROLES).open("w", newline="") as file:
        written = csv.writer(file, lineterminator="\n")
        written.writerow(("time_ns", "node", "role", "grandmaster"))
        for node, spans in history.roles.items():
            written.writerows((each.time_ns, node, each.role, each.grandmaster) for each in spans)
    pictures.save([clock_picture(history)], directory, {"lab": history.intent.name})
