"""The page of a trace has what the terminal shows, whatever things are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import html
from rich.table import Table

from cnc.plans import file as planfile
from cnc.testbed.cli.render import trace
from cnc.testbed.cli.render.trace_page import page
from cnc.testbed.experiments.trace_pictures import pictures_of
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.trace.columns import gather
from cnc.testbed.traffic.trace.correlation import correlations
from cnc.testbed.traffic.trace.drift import drifts
from cnc.testbed.traffic.trace.outliers import outliers
from cnc.testbed.traffic.trace.summary import summarise
from tests.unit.traced_frames import T0, Record, torque

NAME = '<b>torque</b> & "more"'


@pytest.fixture(scope="module")
def found() -> trace.Found:
    """Of 40 frames of torque, one of which is late, and one lost."""
    record = Record(planfile.load(Path(__file__).parent / "data" / "line3-plan.json"))
    for seq in range(40):
        late_ns = 9_000 if seq == 7 else 10 * seq
        torque(record, seq, late_ns=late_ns, up_to=4 if seq == 9 else 8)
    accounts = record.accounts()
    paths = gather(accounts)
    for path in paths:
        path.flow = NAME
    return trace.Found(
        platform=Platform("6.12", "a test", exact=True),
        start_ns=T0,
        flows=summarise(paths),
        margins=[],
        outliers=outliers(paths),
        correlations=correlations(paths),
        drifts=drifts(paths),
        frames=[accounts[7]],
    )


def read(found: trace.Found) -> html.HtmlElement:
    pictures = pictures_of([], T0, found.frames or ())
    drawn = {"timeline": "<svg xmlns='http://www.w3.org/2000/svg'><desc>bars</desc></svg>"}
    text = page(f"Frames of {NAME}", {"network": NAME}, found, pictures, drawn)
    return html.document_fromstring(text)


def texts(element: html.HtmlElement, path: str) -> list[str]:
    return [each.text_content() for each in element.iterfind(path)]


def test_the_page_has_the_tables_of_the_terminal_cell_for_cell(found: trace.Found):
    tables = list(read(found).iter("table"))
    printed = [each for each in trace.blocks(found, of_all=True) if isinstance(each, Table)]
    assert len(tables) == len(printed) == 7
    for its, table in zip(tables, printed, strict=True):
        columns = [column for column in table.columns if column.header != "when"]
        assert texts(its, "caption") == [table.title]
        assert texts(its, "thead/tr/th") == [column.header for column in columns]
        rows = [texts(row, "td") for row in its.iterfind("tbody/tr")]
        assert rows == [list(row) for row in zip(*(c.cells for c in columns), strict=True)]


def test_the_page_has_the_picture_of_the_frame_that_was_asked_for(found: trace.Found):
    (figure,) = read(found).iter("figure")
    assert texts(figure, "svg/desc") == ["bars"]
    assert texts(figure, "figcaption") == ["Where the time of torque/7 went"]


def test_names_are_text_on_the_page_and_nothing_comes_from_elsewhere(found: trace.Found):
    shown = read(found)
    assert texts(shown, ".//title") == texts(shown, ".//h1") == [f"Frames of {NAME}"]
    assert not list(shown.iter("b", "script", "link", "img", "iframe"))
    assert texts(shown, ".//p")[-1] == "Measured on 6.12, a test."
