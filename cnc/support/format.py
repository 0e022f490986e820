"""Figures as people read them: the one wording for every room that prints."""

from __future__ import annotations

import json
import re
import unicodedata

from cnc.model import NS_PER_S, GateControlList, GateLimits


def counted(count: int, one: str) -> str:
    """A number of things: 1 frame, 2 frames, 2 entries, 2 switches."""
    if count == 1:
        return f"1 {one}"
    if one.endswith("y"):
        return f"{count} {one[:-1]}ies"
    return f"{count} {one}{'es' if one.endswith(('s', 'ch')) else 's'}"


def microseconds(time_ns: int) -> str:
    """A time in microseconds without its unit, exact, no trailing zeros: 8.704."""
    return f"{time_ns / 1000:.3f}".rstrip("0").rstrip(".")


def duration(time_ns: int) -> str:
    """A time in the largest unit that keeps it readable: 312 ns, 4.5 µs, 1 ms, 1.2 s."""
    for unit, size_ns in (("s", NS_PER_S), ("ms", 1_000_000), ("µs", 1_000)):
        if abs(time_ns) >= size_ns:
            return f"{round(time_ns / size_ns, 3):g} {unit}"
    return f"{time_ns} ns"


def rate(rate_bps: int) -> str:
    """A link speed in the largest unit that keeps it readable: 100 Mb/s, 2.5 Gb/s."""
    for unit, size_bps in (("Gb/s", 1_000_000_000), ("Mb/s", 1_000_000), ("kb/s", 1_000)):
        if rate_bps >= size_bps:
            return f"{round(rate_bps / size_bps, 3):g} {unit}"
    return f"{rate_bps} b/s"


def nodes(switches: int, end_stations: int) -> str:
    """How many nodes a command is about."""
    stations = f" and {counted(end_stations, 'end station')}" if end_stations else ""
    return counted(switches, "switch") + stations


def gate_summary(gates: GateControlList | None) -> str:
    """A gate control list in a table's cell."""
    if gates is None:
        return "–"  # noqa: RUF001
    return f"{duration(gates.cycle_ns)}, {counted(len(gates.entries), 'entry')}"


def gate_limits(limits: GateLimits) -> str:
    """What a port can do, as far as it is known."""
    known = []
    if limits.entries_max:
        known.append(counted(limits.entries_max, "entry"))
    least = f" from {duration(limits.interval_min_ns)}" if limits.interval_min_ns else ""
    most = f" up to {duration(limits.interval_max_ns)}" if limits.interval_max_ns else ""
    if least or most:
        known.append(f"intervals{least}{most}")
    if limits.cycle_max_ns:
        known.append(f"cycles up to {duration(limits.cycle_max_ns)}")
    if limits.tick_ns > 1:
        known.append(f"a tick of {duration(limits.tick_ns)}")
    return ", ".join(known) or "no limits"


# Of the categories C and Z a text keeps what lines and tables are made of.
_KEPT = "\n\t"


class _Escapes(dict[int, str]):
    """For `str.translate`: each character that is not printed, as JSON escapes it."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if (category[0] != "C" and category not in {"Zl", "Zp"}) or character in _KEPT:
            shown = character
        elif code <= 0xFFFF:  # noqa: PLR2004  json leaves DEL as it is
            shown = f"\\u{code:04x}"
        else:
            shown = json.dumps(character)[1:-1]
        self[code] = shown
        return shown


_ESCAPES = _Escapes()


def printable(text: str) -> str:
    """`text` with its control characters, and those that change the direction of writing, escaped.

    The escapes are those of JSON, where such characters are in strings only: so a JSON document
    stays what it is.
    """
    return text.translate(_ESCAPES)


def natural(name: str) -> list[tuple[int, str]]:
    """Orders names as people count: s2 before s10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]
