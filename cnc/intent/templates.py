"""Families of similar streams, written once: `templates`, and entries repeated `for` values.

    templates:
      servo: {class: cyclic, period: 1ms, payload: 100B, max-latency: 100us}
    streams:
      set-point-{axis}:
        for: {axis: 1-40}
        template: servo
        talker: plc
        listeners: ["drive{axis}"]

All that comes after sees the forty streams, each with all its keys, and so does a plan file.
Problems are told where the operator wrote the value: in the entry, or in the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from cnc.keys.problems import KeyPath, Origin, Problems, one_of, shown
from cnc.support.format import counted

STREAMS_MAX = 100_000
TEXT_MAX = 1 << 25  # characters and values of all streams: what 100,000 of thirty keys have

_TEMPLATE, _FOR = "template", "for"
_VALUE_COST = 8  # characters that a value takes beside its text
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_RANGE = re.compile(r"(0|[1-9][0-9]{0,8}) ?- ?(0|[1-9][0-9]{0,8})")
_FOR_EXPECTED = "a mapping from names to values, such as {axis: [1, 2, 3]} or {axis: 1-40}"
_VALUES_EXPECTED = "a list of whole numbers and texts, or a range such as 1-40"

_Values = Sequence[int | str]


def expand(problems: Problems) -> Problems:
    """The document with every stream written out. `InputError` if its templates or repetitions
    cannot be read; what is wrong with the streams themselves is for others to find."""
    document = problems.document
    if not isinstance(document, Mapping) or not isinstance(document.get("streams"), Mapping):
        return problems
    entries = document["streams"]
    if "templates" not in document and not any(map(_is_short, entries.items())):
        return problems
    expansion = _Expansion(problems, document.get("templates", {}))
    for name, entry in entries.items():
        expansion.add(name, entry)
    if problems.empty:  # else a use of it may be among what cannot be read
        expansion.refuse_unused()
    problems.raise_if_any()
    written_out = {key: value for key, value in document.items() if key != "templates"}
    written_out["streams"] = expansion.streams
    return Problems(
        problems.source,
        problems.lines,
        written_out,
        problems.unread,
        expansion.origins,
        problems.text,
    )


def _is_short(item: tuple[str, object]) -> bool:
    name, entry = item
    keys = entry if isinstance(entry, Mapping) else {}
    return bool(_PLACEHOLDER.search(name)) or _TEMPLATE in keys or _FOR in keys


@dataclass(slots=True)
class _Expansion:
    """The streams so far, and where each was written."""

    problems: Problems
    templates: Any
    streams: dict[str, object] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    _left_to: dict[str, set[str]] = field(default_factory=dict)  # keys, by template
    _text: int = 0
    _count: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.templates, Mapping):
            found = shown(self.templates)
            self.problems.add(("templates",), found, "a mapping from names to keys of streams")
            self.templates = {}
        for name, keys in self.templates.items():
            if not isinstance(keys, Mapping):
                self.problems.add(
                    ("templates", name), shown(keys), "a mapping with keys of streams"
                )
                continue
            for key in keys.keys() & {_TEMPLATE, _FOR}:
                found = f"the key {shown(key)}"
                self.problems.add(("templates", name, key), found, "other keys of streams")

    def add(self, name: str, entry: object) -> None:
        """The streams that an entry stands for."""
        if not isinstance(entry, Mapping):
            self._put(name, entry)
            return
        template = self._template(name, entry)
        inherited = self.templates[template] if template is not None else {}
        own = {key: value for key, value in entry.items() if key not in (_TEMPLATE, _FOR)}
        left = [key for key in inherited if key not in own]
        if template is not None:
            self._left_to.setdefault(template, set()).update(left)
        repeated = self._repeated(name, entry)
        if repeated is None:
            return
        keys = {key: inherited[key] for key in left} | own
        if self._refuses_placeholders(name, template, left, own, repeated):
            return
        if self._is_too_much(name, keys, repeated):
            return
        for values in product(*repeated.values()):
            each = dict(zip(repeated, values, strict=True))
            stream = {key: _filled(value, each) for key, value in keys.items()}
            self._put(str(_filled(name, each)), stream, Origin(name, template, frozenset(left)))

    def refuse_unused(self) -> None:
        """Nothing is written without effect."""
        for name, keys in self.templates.items():
            if name not in self._left_to:
                expected = f"a stream with `template: {name}`"
                self.problems.add(("templates", name), "a template that no stream uses", expected)
                continue
            for key in keys:
                if key not in self._left_to[name]:
                    found = "a key that every stream with this template states itself"
                    self.problems.add(
                        ("templates", name, key), found, "one that a stream leaves out"
                    )

    def _put(self, name: str, stream: object, origin: Origin | None = None) -> None:
        if name in self.streams:
            first = self.origins[name].entry if name in self.origins else name
            path = ("streams", origin.entry if origin else name)
            self.problems.add(
                path, f"a second stream {name}, as {first} makes one", "names that differ"
            )
            return
        self.streams[name] = stream
        if origin:
            self.origins[name] = origin

    def _template(self, name: str, entry: Mapping[str, Any]) -> str | None:
        """The template of an entry that states one; a wrong one is refused."""
        if _TEMPLATE not in entry:
            return None
        template = entry[_TEMPLATE]
        if isinstance(template, str) and isinstance(self.templates.get(template), Mapping):
            return template
        if template not in self.templates:
            misspelt = template if isinstance(template, str) else ""
            expected = one_of(self.templates, misspelt)
            self.problems.add(("streams", name, _TEMPLATE), shown(template), expected)
        return None

    def _repeated(self, name: str, entry: Mapping[str, Any]) -> dict[str, _Values] | None:
        """The values of each name of the entry's `for`; None if they cannot be read."""
        if _FOR not in entry:
            return {}
        path: KeyPath = ("streams", name, _FOR)
        stated = entry[_FOR]
        if not isinstance(stated, Mapping) or not stated:
            self.problems.add(path, shown(stated), _FOR_EXPECTED)
            return None
        repeated: dict[str, _Values] = {}
        for key, given in stated.items():
            values = self._values((*path, key), given)
            if not _NAME.fullmatch(key):
                expected = "a letter, then letters, digits, _ and -"
                self.problems.add((*path, key), f"the name {shown(key)}", expected)
            elif f"{{{key}}}" not in name:
                found = f"a name that {shown(name)} does not contain"
                expected = f"{{{key}}} in the name of the stream, so that names differ"
                self.problems.add((*path, key), found, expected)
            elif values is not None:
                repeated[key] = values
        return repeated if len(repeated) == len(stated) else None

    def _values(self, path: KeyPath, given: object) -> _Values | None:
        """The values that a name stands for; None if they cannot be read."""
        if isinstance(given, str) and (ends := _RANGE.fullmatch(given)):
            first, last = map(int, ends.groups())
            if first <= last:
                return range(first, last + 1)
            expected = "a range whose first number is the smaller"
            self.problems.add(path, shown(given), expected)
        elif not isinstance(given, list):
            self.problems.add(path, shown(given), _VALUES_EXPECTED)
        elif not given:
            self.problems.add(path, "0 values", "at least 1")
        elif not self._refuses_one_of(path, given):
            return given
        return None

    def _refuses_one_of(self, path: KeyPath, given: Iterable[object]) -> bool:
        """Whether a value is of the wrong kind, or there twice: then it is refused."""
        texts: set[str] = set()
        for index, value in enumerate(given):
            if isinstance(value, bool) or not isinstance(value, int | str):
                self.problems.add((*path, index), shown(value), "a whole number or a text")
                return True
            if str(value) in texts:
                self.problems.add((*path, index), f"{shown(value)} again", "each value once")
                return True
            texts.add(str(value))
        return False

    def _refuses_placeholders(
        self,
        name: str,
        template: str | None,
        left: Iterable[str],
        own: Mapping[str, object],
        repeated: Mapping[str, _Values],
    ) -> bool:
        """Whether a text names what is not repeated: that is refused."""
        texts = [(("streams", name), name), *_texts(("streams", name), own)]
        if template is not None:
            inherited = {key: self.templates[template][key] for key in left}
            texts += _texts(("templates", template), inherited)
        unknown = False
        for path, text in texts:
            for placeholder in _PLACEHOLDER.findall(text):
                if placeholder in repeated:
                    continue
                unknown = True
                expected = f"a `for` of stream {name} with values for it"
                if repeated:
                    expected = f"{one_of(repeated, placeholder)}, the `for` of stream {name}"
                self.problems.add(path, f"the placeholder {{{placeholder}}}", expected)
        return unknown

    def _is_too_much(
        self, name: str, keys: Mapping[str, object], repeated: Mapping[str, _Values]
    ) -> bool:
        """Whether the streams of an entry are too many beside those before: that is refused before
        any is made."""
        count = prod(map(len, repeated.values()))
        self._count += count
        self._text += count * sum(len(text) + _VALUE_COST for _, text in _texts((), keys))
        if self._count > STREAMS_MAX:
            found = f"{counted(self._count, 'stream')} up to here"
            self.problems.add(("streams", name), found, f"at most {STREAMS_MAX} in all")
        elif self._text > TEXT_MAX:
            found = f"{counted(self._text, 'character')} of values of the streams up to here"
            self.problems.add(("streams", name), found, f"at most {TEXT_MAX} in all")
        else:
            return False
        return True


def _texts(path: KeyPath, value: object) -> Iterator[tuple[KeyPath, str]]:
    """Every value below a path as text."""
    if isinstance(value, Mapping):
        for key, its in value.items():
            yield from _texts((*path, key), its)
    elif isinstance(value, list):
        for index, its in enumerate(value):
            yield from _texts((*path, index), its)
    else:
        yield path, value if isinstance(value, str) else ""


def _filled(value: Any, values: Mapping[str, int | str]) -> Any:
    """A value with its placeholders replaced; one that is nothing else becomes a number where it
    stands for one."""
    if isinstance(value, str):
        if (whole := _PLACEHOLDER.fullmatch(value)) and isinstance(values[whole[1]], int):
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), value)
    if isinstance(value, Mapping):
        return {key: _filled(its, values) for key, its in value.items()}
    if isinstance(value, list):
        return [_filled(its, values) for its in value]
    return value
