"""Rows of cells, and what a cell is called."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cnc.errors import InputError

Value = str | int | float | bool | None
Row = Sequence[Value]

NAME = "streams"  # of the sheet that is read, if there are several, and of that which is written
CELLS_MAX = 1_000_000
UNPACKED_MAX_OCTETS = 64 << 20
_LETTERS = 26


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet by its name, None for CSV; `numbers` are those of its rows, from 1."""

    name: str | None
    rows: Sequence[Row]
    numbers: Sequence[int]

    def place(self, row: int, column: int) -> str:
        """How a cell is called, behind the name of its file."""
        number = self.numbers[row]
        return f":{number}" if self.name is None else f": {self.name}!{letters(column)}{number}"


def letters(column: int) -> str:
    """The name of a column that is counted from 0: A, B, … Z, AA."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, _LETTERS)
        name = chr(ord("A") + rest) + name
    return name


def chosen(names: Sequence[str]) -> int:
    """Which of the sheets of a file is read: that called `NAME`, or the first."""
    return names.index(NAME) if NAME in names else 0


def counted(rows: Iterator[Row], source: str) -> Iterator[Row]:
    """The rows, as long as they are not too many. Raises InputError."""
    cells = 0
    for row in rows:
        cells += len(row) + 1
        if cells > CELLS_MAX:
            raise InputError(f"{source}: found over {CELLS_MAX} cells, expected fewer")
        yield row


def unpacked(octets: bytes, source: str) -> zipfile.ZipFile:
    """The archive that a file is, unless it is far larger than it looks. Raises InputError."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(octets))
    except zipfile.BadZipFile:
        raise InputError(
            f"{source}: found no spreadsheet", hint="save it as .ods, .xlsx or .csv again"
        ) from None
    if sum(each.file_size for each in archive.infolist()) > UNPACKED_MAX_OCTETS:
        raise InputError(f"{source}: found over {UNPACKED_MAX_OCTETS} octets in it, expected fewer")
    return archive
