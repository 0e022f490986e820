"""CSV, with commas, semicolons (as spreadsheets write it where the comma is decimal) or tabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from cnc.errors import InputError
from cnc.stream_lists.sheet import Row, Sheet, counted

_DELIMITERS = ",;\t"


def read(octets: bytes, source: str) -> Sheet:
    """The rows of a file. Raises InputError with the line."""
    try:
        decoded = octets.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{source}: found other octets than UTF-8 text", hint="save it as CSV in UTF-8"
        ) from None
    header = decoded.partition("\n")[0]
    reader = csv.reader(io.StringIO(decoded), delimiter=max(_DELIMITERS, key=header.count))
    numbers: list[int] = []

    def rows() -> Iterator[Row]:
        begin = 1
        for row in reader:
            numbers.append(begin)
            begin = reader.line_num + 1
            yield [cell.strip() for cell in row]

    try:
        return Sheet(None, [*counted(rows(), source)], numbers)
    except csv.Error as error:
        raise InputError(
            f"{source}:{reader.line_num}: found no CSV: {error}, expected CSV"
        ) from None


def octets(rows: Sequence[Row]) -> bytes:
    """The file."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue().encode()
