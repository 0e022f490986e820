"""Lists of streams in spreadsheets, from and to their files.

    sheet    rows of cells, and what a cell is called      ods     OpenDocument
    streams  a row for each stream, a column for each key  xlsx    Office Open XML, by openpyxl
    table    CSV

A file is data: no formula is computed, the values that it has of them count.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnc.errors import InputError
from cnc.stream_lists import ods, streams, table, xlsx
from cnc.support import whole_file

ENDINGS = (".csv", ".ods", ".xlsx")
SIZE_MAX_OCTETS = 4 << 20
_FORMS = {".csv": table, ".ods": ods, ".xlsx": xlsx}


def read(file: Path) -> dict[str, Any]:
    """The streams of a file, by name, with the keys that an intent has of them.

    Raises:
        InputError: it cannot be read, or has none, or something that no intent can say; with the
            line of CSV, or sheet and cell.
    """
    form = _FORMS[_ending(file)]
    try:
        whole_file.refuse_special(file)
        with file.open("rb") as opened:
            octets = opened.read(SIZE_MAX_OCTETS + 1)
    except OSError as error:
        raise InputError(
            f"{file}: cannot read it: {error.strerror}", hint="check the path and its permissions"
        ) from None
    if len(octets) > SIZE_MAX_OCTETS:
        raise InputError(f"{file}: found over {SIZE_MAX_OCTETS} octets, expected fewer")
    return streams.read(form.read(octets, str(file)), str(file))


def write(file: Path, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write streams, by name with their keys.

    Raises:
        InputError: the name of the file has none of `ENDINGS`, or it cannot be written.
    """
    octets = _FORMS[_ending(file)].octets(streams.rows(found))
    try:
        with whole_file.opened(file) as opened:
            opened.write(octets)
    except OSError as error:
        raise InputError(f"{file}: cannot write it: {error.strerror}") from None


def text(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Streams as CSV."""
    return table.octets(streams.rows(found)).decode()


def _ending(file: Path) -> str:
    if file.suffix not in _FORMS:
        raise InputError(f"{file}: expected a name that ends in {', '.join(ENDINGS)}")
    return file.suffix
