"""The page of a trace, `report.html`: pictures, and all tables that `cnc lab trace` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.cli.render import trace
from cnc.testbed.experiments.experiment import Picture, Report, Sheet
from cnc.testbed.experiments.page import document

if TYPE_CHECKING:
    from rich.table import Table

_DRAWN = "when"  # the column of a frame's bars, which the page has as a picture


def page(
    title: str,
    facts: Mapping[str, str],
    found: trace.Found,
    pictures: Sequence[Picture],
    drawn: Mapping[str, str],
) -> str:
    """Of a trace of which everything was asked for; `drawn` has the SVG text of each picture."""
    blocks = list(trace.blocks(found, of_all=True))
    report = Report(
        summary={},
        sheets=[_sheet(each) for each in blocks if not isinstance(each, str)],
        pictures=pictures,
        disagreements=(),
        remarks=[each for each in blocks if isinstance(each, str)],
        modelled=None,
    )
    return document(title, facts, report, drawn)


def _sheet(table: Table) -> Sheet:
    shown = [column for column in table.columns if column.header != _DRAWN]
    rows = zip(*(map(str, column.cells) for column in shown), strict=True)
    titles = [">" * (column.justify == "right") + str(column.header) for column in shown]
    return Sheet(str(table.title), titles, [tuple(row) for row in rows])
