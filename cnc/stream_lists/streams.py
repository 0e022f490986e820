"""Streams as rows: the first row names the columns, each other one is a stream.

A column is called as its key in an intent; `stream` has the names. A unit may stand behind a key,
`period [us]`: then cells are numbers. A cell has what an intent has there; several values are
separated by commas, and what is more than that is written as in an intent, `{earliest: 10us}`. An
empty cell leaves its key out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from cnc.errors import InputError
from cnc.intent import source as intent_source
from cnc.intent import validate
from cnc.keys import shape
from cnc.keys.mapping import Shape, fields_of
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.values import Name
from cnc.stream_lists.sheet import Row, Sheet, Value

NAME = "stream"
_WRITTEN_OUT = ("template", "for")  # what they stand for is in the rows
_HEADER = re.compile(r"([a-z-]+)(?: ?[\[(](%|[A-Za-zµμ]+)[\])])?")
_LISTS = {"class", "route"}  # one value stands for itself
_INTEGRAL = re.compile(r"[+-]?[0-9]+")


class _Streams(Shape):
    """The part of an intent that a list has."""

    streams: dict[Name, shape.Stream]


def keys() -> list[str]:
    """The keys of a stream that have a column, in the order of columns."""
    found = [str(its.alias) for its in fields_of(shape.Stream)]
    return [key for key in found if key not in _WRITTEN_OUT]


def read(sheet: Sheet, source: str) -> dict[str, Any]:
    """The streams of a sheet, by name, with their keys as an intent has them.

    Raises:
        InputError: with one line for each problem found, and its place.
    """
    places: list[str] = []
    lines: dict[KeyPath, int] = {}

    def at(path: KeyPath, row: int, column: int) -> None:
        places.append(sheet.place(row, column))
        lines[path] = len(places)

    found: dict[str, dict[str, Any]] = {}
    columns = _columns(sheet, source)
    for number, row in enumerate(sheet.rows[1:], 1):
        if all(cell in (None, "") for cell in row):
            continue
        its = _cells(columns, row, source, sheet, number)
        name = its.pop(NAME, (None, 0))[0]
        column = next(place for place, (key, _) in columns.items() if key == NAME)
        if name is None or str(name) in found:
            what = "no name" if name is None else f"{name} again"
            raise InputError(
                f"{source}{sheet.place(number, column)}: found {what}, expected a name for each "
                "stream, once"
            )
        found[str(name)] = {key: value for key, (value, _) in its.items()}
        at(("streams", str(name)), number, column)
        for key, (_, place) in its.items():
            at(("streams", str(name), key), number, place)
    if not found:
        raise InputError(f"{source}: found no stream, expected a row for each below the header")
    try:
        validate(Problems(source, lines, {"streams": found}), _Streams)
    except InputError as error:
        raise InputError(_placed(str(error), source, places), hint=error.hint) from None
    return found


def _placed(message: str, source: str, places: Sequence[str]) -> str:
    """A message whose lines name places by their number."""
    begin = re.compile(rf"^{re.escape(source)}:([0-9]+): ", re.MULTILINE)
    return begin.sub(lambda its: f"{source}{places[int(its[1]) - 1]}: ", message)


def _columns(sheet: Sheet, source: str) -> dict[int, tuple[str, str]]:
    """Key and unit of each column that has a name."""
    known = [NAME, *keys()]
    found: dict[int, tuple[str, str]] = {}
    for column, cell in enumerate(sheet.rows[0] if sheet.rows else ()):
        if cell in (None, ""):
            continue
        place = f"{source}{sheet.place(0, column)}"
        header = _HEADER.fullmatch(str(cell).strip())
        if header is None or header[1] not in known:
            raise InputError(
                f"{place}: found the column {shown(str(cell))}, expected {one_of(known, str(cell))}"
                ", a unit in brackets behind it"
            )
        if header[1] in [key for key, _ in found.values()]:
            raise InputError(f"{place}: found {header[1]} again, expected each column once")
        found[column] = header[1], header[2] or ""
    if NAME not in [key for key, _ in found.values()]:
        place = f"{source}{sheet.place(0, 0)}" if sheet.rows else source
        raise InputError(
            f"{place}: found no column {NAME}, expected one, and columns called as keys of streams"
        )
    return found


def _cells(
    columns: Mapping[int, tuple[str, str]], row: Row, source: str, sheet: Sheet, number: int
) -> dict[str, tuple[Any, int]]:
    """The values of a row by key, each with its column."""
    found: dict[str, tuple[Any, int]] = {}
    for column, cell in enumerate(row):
        if cell in (None, ""):
            continue
        place = f"{source}{sheet.place(number, column)}"
        if column not in columns:
            raise InputError(
                f"{place}: found {shown(cell)} in a column without a name, expected none",
                hint="name the column in the first row, or take it out",
            )
        key, unit = columns[column]
        found[key] = _value(cell, key, unit, place), column
    return found


def _value(cell: Value, key: str, unit: str, place: str) -> Any:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if unit:
        return f"{cell}{unit}"
    return _of_text(cell.strip(), key, place) if isinstance(cell, str) else cell


def _of_text(text: str, key: str, place: str) -> Any:
    if key == NAME:
        return text
    if text[:1] in ("{", "["):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            expected = "one as an intent has it, such as [s1, s2]"
            raise InputError(f"{place}: found {shown(text)}, expected {expected}") from None
    if key == "listeners" or ("," in text and key in _LISTS):
        return [each.strip() for each in text.split(",")]
    # As in an intent, but that nothing else than whole numbers is a number: 1e3 may be a name.
    is_number = _INTEGRAL.fullmatch(text) or text.startswith("0x")
    return intent_source.parse(text.encode(), place).document if is_number else text


def rows(streams: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """The rows of streams, by name with their keys as an intent has them; inverse of `read`."""
    used = {key for its in streams.values() for key in its}
    columns = [key for key in keys() if key in used]
    return [
        [NAME, *columns],
        *([name, *(_cell(its.get(key)) for key in columns)] for name, its in streams.items()),
    ]


def _cell(value: Any) -> Value:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    if isinstance(value, list | dict):
        return yaml.safe_dump(value, default_flow_style=True, width=1_000_000).strip()
    return value if value is None or isinstance(value, str | int | float) else str(value)
