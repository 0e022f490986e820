"""Whether a command printed what the page shows, as far as two runs can print the same."""

from __future__ import annotations

import re

_NUMBER = re.compile(
    r"(?<!\w)(?:[0-9a-f]{4}(?=:)|[-+]?\d[\d.,]*(?: ?(?:ns|µs|us|ms|s|min|kB|MB|KiB|MiB)\b)?)"
)
_RULE = re.compile(r"[─-]{2,}")
_ANYTHING = "…"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def alike(shown: str, printed: str) -> bool:
    """Whether both say the same.

    Numbers that stand alone are equal to each other, with their time unit; blanks and rules may be
    longer or shorter, as the columns of a table are. `…` shown as a line stands for any number of
    lines, inside a line for anything.
    """
    return re.fullmatch(_pattern(shown), "".join(f"{x}\n" for x in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    """The lines that count: normalised, and not empty."""
    lines = (_normal(line) for line in _COLOURS.sub("", text).splitlines())
    return [line for line in lines if line]


def _normal(line: str) -> str:
    return " ".join(_RULE.sub("──", _NUMBER.sub("0", line)).split())


def _pattern(shown: str) -> str:
    parts = []
    for wanted in _lines(shown.replace("...", _ANYTHING)):
        if wanted == _ANYTHING:
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(re.escape(wanted).replace(_ANYTHING, r"[^\n]*") + r"\n")
    return "".join(parts)
