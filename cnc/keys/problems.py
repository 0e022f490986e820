"""The problems of a document: collected, located by line, and raised as one error."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cnc.errors import InputError

KeyPath = tuple[str | int, ...]
LineMap = Mapping[KeyPath, int]

_FOUND_CHARACTERS_MAX = 60
_CHOICES_MAX = 12
_QUOTED_CHARACTERS_MAX = 100

# Plain text that some YAML readers take for another type. Here it is text, and the message says
# so.
_YAML_TRAPS = (
    (re.compile(r"[-+]?0[0-9_]+"), "a leading zero makes it octal to some YAML readers"),
    (re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?"), "some YAML readers take it base sixty"),
    (
        re.compile(r"on|off|yes|no|y|n", re.IGNORECASE),
        "some YAML readers take it for true or false",
    ),
)


class Origin(NamedTuple):
    """Where the operator wrote a stream: in an entry of `streams`, but `inherited` keys in a
    template."""

    entry: str
    template: str | None
    inherited: frozenset[str]


@dataclass(slots=True)
class Problems:
    """A document and its problems. `lines` is empty when it came without a file, whose `text` is
    quoted.

    `origins` has, by name, the streams of the document that are written otherwise. Of several that
    one entry or template makes, a problem is told once, of the first.
    """

    source: str
    lines: LineMap
    document: Any = None
    unread: set[KeyPath] = field(default_factory=set)  # what stands there is refused already
    origins: Mapping[str, Origin] = field(default_factory=dict)
    text: str = ""
    _found: list[tuple[int, str, str]] = field(default_factory=list)
    _told_of: dict[KeyPath, str] = field(default_factory=dict)

    def add(self, path: KeyPath, found: str, expected: str) -> None:
        """Note that `path` holds `found` where `expected` belongs; both complete a sentence."""
        path = self._written(path)
        origin = self.origins.get(str(path[1])) if path[:1] == ("streams",) and path[1:] else None
        if origin:
            stream, path = str(path[1]), _place(origin, path[2:])
            if self._told_of.setdefault(path, stream) != stream:
                return
            found += "" if path[:2] == ("streams", stream) else f" (stream {stream})"
        if path in self.unread:
            return
        line = next((self.lines[p] for p in _prefixes(path) if p in self.lines), 0)
        self.add_at(line, path, found, expected)

    def add_at(self, line: int, path: KeyPath, found: str, expected: str) -> None:
        """Note a problem that the line map cannot place: the second of two equal keys."""
        place = f"{self.source}:{line}" if line else self.source
        text = f"{place}: {dotted(path)}: found {found}, expected {expected}"
        self._found.append((line, dotted(path), text))

    def refuse_routed(
        self, stated: Iterable[tuple[KeyPath, object]], why: str = "it has no effect"
    ) -> None:
        """Note that these keys, and what they hold, belong to a bridged network alone."""
        for path, value in stated:
            found = f"{value} in a routed network, where {why}"
            self.add(path, found, "forwarding: bridged, or no such key")

    @property
    def empty(self) -> bool:
        return not self._found

    def raise_if_any(self) -> None:
        """Raise `InputError` with one line for each problem, in the order of the file."""
        if self._found:
            found = sorted(self._found)
            lines = self.text.splitlines()
            raise InputError(
                "\n".join(text for *_, text in found),
                quoted={text: quoted(lines, line) for line, _, text in found},
            )

    def _written(self, path: KeyPath) -> KeyPath:
        """`path` as the operator wrote it, up to the last step that exists in the document.

        Short forms have fewer levels than the model, or a list in place of a mapping's names.
        """
        value, written = self.document, []
        for step in path:
            place = step
            if isinstance(value, list) and isinstance(step, str):
                if step not in value:
                    continue
                place = value.index(step)
            elif isinstance(value, str) and isinstance(step, str):
                continue
            if isinstance(value, Mapping):
                if place not in value:
                    break
            elif not isinstance(value, list) or place not in range(len(value)):
                break
            value = value[place]
            written.append(place)
        return tuple(written)


def quoted(lines: Sequence[str], line: int) -> str:
    """One of the lines of a file, from 1 on, as it stands below a message about it; nothing where
    there is no such line."""
    if not 0 < line <= len(lines):
        return ""
    its = lines[line - 1].rstrip()
    cut = f"{its[: _QUOTED_CHARACTERS_MAX - 1]}…" if len(its) > _QUOTED_CHARACTERS_MAX else its
    return f"{line:>5} | {cut}"


def dotted(path: KeyPath) -> str:
    """`("links", 0, "ends")` as `links[0].ends`; the document itself is `(document)`."""
    steps = (
        f"[{step}]" if isinstance(step, int) else f".{step if step.isprintable() else ascii(step)}"
        for step in path
    )
    return "".join(steps).removeprefix(".") or "(document)"


def shown(value: object) -> str:
    """A value as the operator wrote it, short enough for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    if len(text) > _FOUND_CHARACTERS_MAX:
        text = f"{text[: _FOUND_CHARACTERS_MAX - 1]}…"
    if isinstance(value, str):
        text += "".join(f" ({why})" for trap, why in _YAML_TRAPS if trap.fullmatch(value))
    return text


def one_of(names: Iterable[str], misspelt: str = "") -> str:
    """The choices for an `expected`, and which of them `misspelt` may have been meant to be."""
    choices = sorted(names)
    if len(choices) < 2:  # noqa: PLR2004 - no "one of" to choose from
        return choices[0] if choices else "one, but none is defined"
    more = f" and {len(choices) - _CHOICES_MAX} more" if len(choices) > _CHOICES_MAX else ""
    close = difflib.get_close_matches(misspelt, choices, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"one of {', '.join(choices[:_CHOICES_MAX])}{more}{meant}"


def _place(origin: Origin, below: KeyPath) -> KeyPath:
    """Where the value stands that a stream has at the path `below` it."""
    if origin.template is not None and below and below[0] in origin.inherited:
        return "templates", origin.template, *below
    return "streams", origin.entry, *below


def _prefixes(path: KeyPath) -> Iterable[KeyPath]:
    return (path[:length] for length in range(len(path), -1, -1))
