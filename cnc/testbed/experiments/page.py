"""`report.html`: one file that opens by itself, without a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import quote
from xml.etree import ElementTree

from cnc.testbed.experiments.experiment import ROWS, Report, Sheet

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b;
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { line-height: 1.2 }
figure { margin: 2rem 0 }
figure svg { width: 100%; height: auto }
figcaption, .facts, caption { color: #555; font-size: .9rem }
caption { text-align: left; padding: .5rem 0 }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums;
        margin: 1.5rem 0 }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: left;
         white-space: nowrap }
th.number, td.number { text-align: right }
.scroll, pre { overflow-x: auto }
.wrong { color: #a40000; font-weight: 600 }
pre { background: #f5f5f5; padding: 1rem }
dl { display: grid; grid-template-columns: max-content auto; gap: .2rem 1rem }
dd { margin: 0 }
"""
_SVG = "http://www.w3.org/2000/svg"


def page(
    title: str,
    facts: Mapping[str, str],
    report: Report,
    drawn: Mapping[str, str],
    description: str,
    *,
    rows: str = ROWS,
) -> str:
    """That of an experiment. `drawn` has the SVG text of each picture, `description` the file's
    text; `rows` names the file of all rows."""
    ending = (
        "<h2>The experiment</h2>",
        f"<pre>{escape(description)}</pre>",
        f"<p>Every row is in <code>{rows}</code>, every figure in <code>summary.json</code>.</p>",
    )
    return document(title, facts, report, drawn, ending)


def document(
    title: str,
    facts: Mapping[str, str],
    report: Report,
    drawn: Mapping[str, str],
    ending: Iterable[str] = (),
) -> str:
    """A page of a report's pictures, tables and remarks; `ending` is HTML, the rest text."""
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<dl class="facts">{"".join(_fact(*each) for each in facts.items())}</dl>',
        *(f'<p class="wrong">{escape(line)}</p>' for line in report.disagreements),
        *(
            f"<figure>{_inline(drawn[each.name])}<figcaption>{escape(each.caption)}</figcaption>"
            "</figure>"
            for each in report.pictures
        ),
        *map(_table, report.sheets),
        *(f"<p>{escape(line)}</p>" for line in report.remarks),
        *ending,
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>'
        + "\n".join(body)
        + "</body></html>\n"
    )


def _fact(name: str, value: str) -> str:
    return f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"


def _table(sheet: Sheet) -> str:
    numeric = [column.startswith(">") for column in sheet.columns]
    head = _row("th", (column.lstrip(">") for column in sheet.columns), numeric)
    links = sheet.links or [None] * len(sheet.rows)
    rows = "".join(
        _row("td", row, numeric, link) for row, link in zip(sheet.rows, links, strict=True)
    )
    return (
        f'<div class="scroll"><table><caption>{escape(sheet.title)}</caption>'
        f"<thead>{head}</thead><tbody>{rows}</tbody></table></div>"
    )


def _row(tag: str, cells: Iterable[str], numeric: Sequence[bool], link: str | None = None) -> str:
    texts = [escape(cell) for cell in cells]
    if link:
        texts[0] = f'<a href="{escape(quote(link))}">{texts[0]}</a>'
    filled = (
        f"<{tag}{' class=number' if right else ''}>{text}</{tag}>"
        for text, right in zip(texts, numeric, strict=True)
    )
    return f"<tr>{''.join(filled)}</tr>"


def _inline(svg: str) -> str:
    """The picture without an XML document's head, which HTML does not allow."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)  # noqa: S314  written by matplotlib
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    return ElementTree.tostring(root, encoding="unicode")
