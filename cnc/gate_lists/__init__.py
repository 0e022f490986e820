"""Gate control lists as other programs write them, from and to their files.

    listed      what such a file has of a port     tsntool     entry files of tsntool
    tc          commands and scripts of iproute2   netconf     gate tables of 2018, 2020/21 and 2023
    table       CSV                                fragment    what an intent says of them

A file is data: no script is run, no variable is taken from the environment.
"""

from __future__ import annotations

import re
from pathlib import Path

from cnc.errors import InputError
from cnc.gate_lists import netconf, table, tc, tsntool
from cnc.gate_lists.fragment import fragment
from cnc.gate_lists.listed import HINT, Listed

__all__ = ["SIZE_MAX_OCTETS", "Listed", "fragment", "read"]

SIZE_MAX_OCTETS = 4 << 20


def read(text: bytes, source: str) -> list[Listed]:
    """The lists of a file, whose form is told by its name or by what it begins with.

    Raises:
        InputError: it has none, or something that no intent can say; with its line.
    """
    if len(text) > SIZE_MAX_OCTETS:
        raise InputError(f"{source}: found over {SIZE_MAX_OCTETS} octets, expected fewer")
    if text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return netconf.read(text, source)
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{source}: found other octets than UTF-8 text", hint=HINT) from None
    if re.search(r"\btaprio\b", decoded):
        return tc.read(decoded, source)
    if tsntool.is_entry_file(decoded):
        return tsntool.read(decoded, source)
    if Path(source).suffix == ".csv" or table.has_header(decoded):
        return table.read(decoded, source)
    raise InputError(f"{source}: found no gate control list", hint=HINT)
