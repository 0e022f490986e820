"""A manual page, from texts as --help has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from inspect import cleandoc
from pathlib import Path

Described = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """A manual page. `sections` are titles with text as click has it, or with a list of terms."""

    name: str
    number: int
    summary: str
    synopsis: str
    sections: Sequence[tuple[str, str | Described]]
    distribution: str = "tsn-control-plane"

    def roff(self) -> str:
        """The page in the macros of man(7)."""
        version = metadata.version(self.distribution)
        head = f'.TH "{self.name.upper()}" {self.number} "" "tsn-control-plane {version}"'
        lines = [head, ".SH NAME", f"{escaped(self.name)} \\- {escaped(self.summary)}"]
        command, _, rest = self.synopsis.partition(" [")
        lines += [".SH SYNOPSIS", f".B {escaped(command)}", escaped(f"[{rest}" if rest else "")]
        for title, content in self.sections:
            if content:
                lines.append(f".SH {title}")
                lines += paragraphs(content) if isinstance(content, str) else terms(content)
        return "\n".join(filter(None, lines)) + "\n"

    def write(self, directory: Path) -> None:
        """Into a file named as man(1) looks for it."""
        (directory / f"{self.name}.{self.number}").write_text(self.roff(), encoding="ascii")


def paragraphs(text: str) -> Iterator[str]:
    """Text whose paragraphs are parted by blank lines; one that begins with \\b keeps its lines."""
    for i, paragraph in enumerate(re.split(r"\n\s*\n", cleandoc(text))):
        if i:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield ".nf"
            yield from map(escaped, paragraph.splitlines()[1:])
            yield ".fi"
        else:
            yield emphasised(" ".join(paragraph.split()))


def terms(described: Described) -> Iterator[str]:
    """Terms, and what each means."""
    for term, text in described:
        yield ".TP"
        yield f"\\fB{escaped(term)}\\fP"
        yield emphasised(" ".join(text.split())) or "\\&"


def emphasised(text: str) -> str:
    """Escaped text with what stands in backquotes in bold."""
    parts = [escaped(part) for part in text.split("`")]
    return "".join(f"\\fB{part}\\fP" if i % 2 else part for i, part in enumerate(parts))


def escaped(text: str) -> str:
    """Text that roff takes for itself: no escapes, no requests, ASCII only, hyphens to copy."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    text = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)
    return f"\\&{text}" if text[:1] in {".", "'"} else text


def summary(text: str) -> str:
    """The first sentence."""
    first = " ".join(cleandoc(text).split("\n\n")[0].split())
    return re.split(r"[.:](?: |$)|(?<=\?) ", first)[0].replace("`", "")
