"""Office Open XML (.xlsx), by openpyxl."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cnc.errors import CncError, InputError
from cnc.stream_lists.sheet import NAME, Row, Sheet, Value, chosen, counted, unpacked

if TYPE_CHECKING:
    import openpyxl


def _library() -> Any:
    try:
        import openpyxl  # noqa: PLC0415
    except ImportError:
        raise CncError(
            "spreadsheets of the form .xlsx need openpyxl, which is not installed",
            hint="pip install 'tsn-control-plane[spreadsheet]', or save it as .ods or .csv",
        ) from None
    return openpyxl


def read(octets: bytes, source: str) -> Sheet:
    """The rows of the sheet that is read. Raises InputError."""
    library = _library()
    unpacked(octets, source)
    try:
        book: openpyxl.Workbook = library.load_workbook(
            io.BytesIO(octets), read_only=True, data_only=True
        )
        sheet = book.worksheets[chosen(book.sheetnames)]
        rows = [*counted(_rows(sheet), source)]
    except (KeyError, IndexError, ValueError, SyntaxError) as error:
        raise InputError(
            f"{source}: found no spreadsheet: {error}",
            hint="save it as .ods, .xlsx or .csv again",
        ) from None
    return Sheet(sheet.title, rows, range(1, len(rows) + 1))


def _rows(sheet: Any) -> Iterator[Row]:
    for row in sheet.iter_rows(values_only=True):
        yield [_value(value) for value in row]


def _value(value: object) -> Value:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def octets(rows: Sequence[Row]) -> bytes:
    """The file."""
    book = _library().Workbook()
    book.active.title = NAME
    for row in rows:
        book.active.append([*row])
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()
