"""CSV with a row for each entry: port, cycle_ns, base_offset_ns, gate_states, interval_ns.

Only the last two columns must be there. Rows of one port follow each other in the list's order.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping

from cnc.gate_lists.listed import Listed, listed, number, refused
from cnc.keys.problems import shown
from cnc.model import GateControlList, GateEntry

COLUMNS = ("port", "cycle_ns", "base_offset_ns", "gate_states", "interval_ns")
_NEEDED = set(COLUMNS[3:])
_HEADER_MAX = 1000
_MASK = re.compile(r"0x([0-9a-fA-F]{1,2})|([01]{8})b?")


def has_header(text: str) -> bool:
    """Whether the first line names the columns."""
    return set(_header(text)) >= _NEEDED


def _header(text: str) -> list[str]:
    """The names in the first line, of which no table of a list has a longer one than this."""
    first = text.partition("\n")[0][:_HEADER_MAX]
    return [name.strip() for name in first.split(",")]


def read(text: str, source: str) -> list[Listed]:
    """The lists by port, in the order of the file. Raises InputError with the line."""
    names = _header(text)
    if not set(names) >= _NEEDED or set(names) - set(COLUMNS):
        expected = f"{', '.join(COLUMNS)}, of which the last two are needed"
        raise refused(f"{source}:1", f"the columns {', '.join(names)}", expected)
    rows = io.StringIO(text.partition("\n")[2])
    reader = csv.DictReader(rows, names, skipinitialspace=True)
    entries: dict[str, list[GateEntry]] = {}
    times: dict[str, tuple[str, str]] = {}
    for row in _rows(reader, source):
        where = f"{source}:{reader.line_num + 1}"
        if None in row or None in row.values():
            raise refused(where, "a row of another length", "a value for each column")
        port = row.get("port", "")
        its = row.get("cycle_ns", ""), row.get("base_offset_ns", "")
        if times.setdefault(port, its) != its:
            raise refused(where, f"another cycle or offset of {port}", "those of its first row")
        entries.setdefault(port, []).append(_entry(row, where))
    if not entries:
        raise refused(source, "no rows", "one for each entry")
    return [
        listed(
            f"{source}: {port}" if port else source,
            port or None,
            entries[port],
            cycle_ns=number(source, cycle, "cycle_ns") if cycle else None,
            base_time_ns=number(source, offset, "base_offset_ns") if offset else 0,
        )
        for port, (cycle, offset) in times.items()
    ]


def _rows(reader: csv.DictReader[str], source: str) -> Iterator[dict[str, str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise refused(f"{source}:{reader.line_num + 1}", f"no CSV: {error}", "CSV") from None


def _entry(row: Mapping[str, str], where: str) -> GateEntry:
    mask = _MASK.fullmatch(row["gate_states"].strip())
    if mask is None:
        found = f"gate states {shown(row['gate_states'])}"
        raise refused(where, found, "a mask such as 0x81, or eight gates such as 10000001")
    states = int(mask[1], 16) if mask[1] else int(mask[2], 2)
    return GateEntry(states, number(where, row["interval_ns"], "interval_ns"))


def text(lists: Iterable[tuple[str, GateControlList]]) -> str:
    """The rows of ports, with their header."""
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(COLUMNS)
    for port, gates in lists:
        for each in gates.entries:
            rows.writerow((port, gates.cycle_ns, 0, f"{each.gate_states:#04x}", each.interval_ns))
    return written.getvalue()
