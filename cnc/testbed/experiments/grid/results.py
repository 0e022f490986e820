"""What comes of a grid: one table of all points, as CSV, as JSON, and on a page."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cnc.support import whole_file
from cnc.testbed import experiments
from cnc.testbed.experiments.experiment import Report, Sheet
from cnc.testbed.experiments.grid.points import Point
from cnc.testbed.experiments.keys import Description
from cnc.testbed.experiments.page import page

TABLE = "grid.csv"

# Of a summary, what is no figure of the run.
_NOT_FIGURES = {"platform", "disagreements", "remarks"}
_NAMES = ("id", "node")  # by which those of a list are called
_OF_MEASUREMENT = "wake_up_error_ns"  # how exact it is, which is beside what is compared
_PRINTED_FIGURES_MAX = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A point that has ended; `summary` is None if it left none."""

    point: Point
    exit_code: int
    summary: Mapping[str, Any] | None

    @property
    def figures(self) -> dict[str, float | bool | None]:
        """The figures of its summary by dotted name: `streams.motion.max_ns`, `hops.s2.mean_ns`,
        `points[0].lost`."""
        figures = dict(_figures(self.summary or {}, ""))
        return {name: its for name, its in figures.items() if name not in self.point.values}


def read_rows(points: Sequence[Point], codes: Mapping[str, int], directory: Path) -> list[Row]:
    """The points that have ended, with what they left in their directories below `directory`."""
    rows = []
    for point in points:
        if point.name in codes:
            place = directory / point.name
            has_one = (place / experiments.SUMMARY).exists()
            summary = experiments.summary_of(place) if has_one else None
            rows.append(Row(point, codes[point.name], summary))
    return rows


def summary_of(
    description: Description, rows: Sequence[Row], command: str | None
) -> dict[str, Any]:
    """The contents of the grid's `summary.json`."""
    return {
        "experiment": description.name,
        "kind": description.kind,
        "title": description.title,
        "command": command,
        "points": [
            {
                "point": row.point.name,
                "set": dict(row.point.values),
                "exit_code": row.exit_code,
                "summary": row.summary,
            }
            for row in rows
        ],
    }


def write(
    directory: Path, file: Path, description: Description, rows: Sequence[Row], command: str | None
) -> Report:
    """Write grid.csv, summary.json and report.html into `directory`; what is printed of them."""
    summary = summary_of(description, rows, command)
    _write_table(directory / TABLE, rows)
    text = json.dumps(summary, indent=2) + "\n"
    whole_file.write(directory / experiments.SUMMARY, text)
    found = Report(summary, [_sheet(rows)], [], _disagreements(rows), [], None)
    facts = {"points": str(len(rows))} | ({"command": command} if command else {})
    of_page = page(description.title, facts, found, {}, file.read_text(), rows=TABLE)
    whole_file.write(directory / experiments.PAGE, of_page)
    return replace(found, sheets=[_sheet(rows, _PRINTED_FIGURES_MAX)])


def _sheet(rows: Sequence[Row], figures_max: int | None = None) -> Sheet:
    """The keys, and the figures that are not the same in all points, those of the whole run before
    those of its parts; the first `figures_max` of them, as a terminal has room for."""
    keys = rows[0].point.varied if rows else []
    figures = [row.figures for row in rows]
    names = [
        name
        for name in _names(figures)
        if len({repr(each.get(name)) for each in figures}) > 1
        and not name.startswith(_OF_MEASUREMENT)
    ]
    names = sorted(names, key=lambda name: len(re.findall(r"[.\[]", name)))[:figures_max]
    cells = [
        [
            _verdict(row),
            *(row.point.values[key] for key in keys),
            *(_shown(its.get(name)) for name in names),
        ]
        for row, its in zip(rows, figures, strict=True)
    ]
    titles = [*keys, *(f">{name}" for name in names)]
    if figures_max is not None:  # for a terminal: in two lines they take half of the width
        titles = [".\n".join(title.rsplit(".", 1)) for title in titles]
    links = [f"{row.point.name}/{experiments.PAGE}" if row.summary else None for row in rows]
    return Sheet(f"Figures that differ; {TABLE} has all", ["run", *titles], cells, links)


def _write_table(path: Path, rows: Sequence[Row]) -> None:
    """A row for each point: its keys, how it ended, and its figures; none is empty."""
    keys = list(rows[0].point.values) if rows else []
    figures = [row.figures for row in rows]
    names = _names(figures)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["point", *keys, "exit_code", "disagreements", *names])
        for row, its in zip(rows, figures, strict=True):
            disagreements = len(row.summary["disagreements"]) if row.summary else None
            values = (row.point.values[key] for key in keys)
            cells = [its.get(name) for name in names]
            writer.writerow([row.point.name, *values, row.exit_code, disagreements, *cells])


def _names(figures: Sequence[Mapping[str, object]]) -> list[str]:
    """The names of all figures, in the order in which they come."""
    return list(dict.fromkeys(name for each in figures for name in each))


def _figures(value: object, name: str) -> Iterator[tuple[str, float | bool | None]]:
    match value:
        case dict():
            for key, its in value.items():
                if name or key not in _NOT_FIGURES:
                    yield from _figures(its, f"{name}.{key}".removeprefix("."))
        case list():
            for place, its in enumerate(value):
                yield from _figures(its, f"{name}{_label(its, place)}")
        case bool() | int() | float() | None:
            yield name, value


def _label(one: object, place: int) -> str:
    """What tells one of a list from the others: what it is called, or its place."""
    names = (one[key] for key in _NAMES if key in one) if isinstance(one, dict) else ()
    return next((f".{name}" for name in names), f"[{place}]")


def _shown(figure: float | bool | None) -> str:
    match figure:
        case None:
            return "–"  # noqa: RUF001
        case bool():
            return "yes" if figure else "no"
        case float():
            return f"{figure:.6g}"
    return str(figure)


def _verdict(row: Row) -> str:
    if row.summary is None:
        return f"failed ({row.exit_code})"
    return "DISAGREES" if row.exit_code else "agrees"


def _disagreements(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row.point.name}: {line}"
        for row in rows
        for line in (row.summary["disagreements"] if row.summary else ["it did not end"])
    ]
