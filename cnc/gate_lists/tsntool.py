"""Entry files of tsntool: `t0 00000001b 300000`, gates of class 7 to 0, nanoseconds."""

from __future__ import annotations

import re

from cnc.gate_lists.listed import Listed, listed, refused
from cnc.keys.problems import shown
from cnc.model import GateEntry

_ENTRY = re.compile(r"t(\d{1,6})\s+([01]{8})b?\s+(\d{1,10})")
_COMMENT = re.compile(r"#.*")


def is_entry_file(text: str) -> bool:
    """Whether the first line that says anything is such an entry."""
    lines = (_COMMENT.sub("", line).strip() for line in text.splitlines())
    return bool(_ENTRY.fullmatch(next(filter(None, lines), "")))


def read(text: str, source: str) -> list[Listed]:
    """The list, of a port that the file does not name. Raises InputError with the line."""
    entries: list[GateEntry] = []
    for line, written in enumerate(text.splitlines(), 1):
        words = _COMMENT.sub("", written).strip()
        if not words:
            continue
        its = _ENTRY.fullmatch(words)
        if its is None or int(its[1]) != len(entries):
            expected = (
                f"t{len(entries)}, eight gates and nanoseconds: t{len(entries)} 10000001b 300"
            )
            raise refused(f"{source}:{line}", shown(words), expected)
        entries.append(GateEntry(int(its[2], 2), int(its[3])))
    return [listed(source, None, entries)]
