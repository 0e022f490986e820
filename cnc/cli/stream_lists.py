"""`cnc import streams` and `cnc export streams`: lists of streams in spreadsheets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.completion import Files
from cnc.cli.options import DOCUMENT, history_option, load
from cnc.cli.terminal import echo
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc import stream_lists
    from cnc.intent import source
else:
    source = lazy_import("cnc.intent.source")
    stream_lists = lazy_import("cnc.stream_lists")


@click.command(name="streams")
@click.argument("file", type=Files(".csv", ".ods", ".xlsx"))
def import_streams(file: Path) -> None:
    """Print the streams of FILE, a spreadsheet, as the part of an intent that has them.

    FILE is CSV, OpenDocument (.ods) or Office Open XML (.xlsx), whose sheet `streams`, or first
    sheet, is read. Its first row names the columns: stream, and keys of streams, with a unit in
    brackets where cells are numbers, such as `period [us]`. Each other row is a stream.
    """
    echo(source.dump({"streams": stream_lists.read(file)}), nl=False)


@click.command(name="streams")
@click.argument("file", metavar="PLAN", type=DOCUMENT)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it: .csv, .ods or .xlsx (default: CSV to the standard output).",
)
@history_option
def export_streams(file: Path, output: Path | None, state_dir: Path) -> None:
    """Write the streams of PLAN, a plan, an intent or the number of a rollout, as a spreadsheet."""
    streams = app.intent_of(load(file, state_dir)).document["streams"]
    if output is None:
        echo(stream_lists.text(streams), nl=False)
    else:
        stream_lists.write(output, streams)
