"""YAML text → plain data, with the line of every value.

Plain words are read by YAML 1.2's rules, so `on` and `12:30` are text. Anchors and aliases work,
within bounds; tags, merge keys, repeated keys and a second document do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import yaml

from cnc.errors import InputError
from cnc.keys.problems import KeyPath, Problems, quoted, shown

SIZE_MAX_OCTETS = 4 << 20
DEPTH_MAX = 16
ALIASED_VALUES_MAX = 10_000

# libyaml's parser where PyYAML was built with it: a thousand streams then take 0.1 s, not 1 s.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Parser):  # type: ignore[misc]
    """Resolves plain words by the core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - PyYAML's own interface


_SCALARS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "tag:yaml.org,2002:str": (re.compile(r"(?s:.*)"), str),
}
for _name, _pattern, _first, _read in (
    ("null", r"(~|null|)\Z", [*"~n", ""], lambda _: None),
    ("bool", r"(true|false)\Z", [*"tf"], lambda text: text == "true"),
    (
        "int",
        r"([-+]?(0|[1-9][0-9]{0,17})|0x[0-9a-fA-F]{1,15})\Z",
        [*"-+0123456789"],
        lambda text: int(text, 16 if text.startswith("0x") else 10),
    ),
    ("float", r"[-+]?[0-9]{1,15}\.[0-9]{1,15}\Z", [*"-+0123456789"], float),
):
    _tag = f"tag:yaml.org,2002:{_name}"
    _SCALARS[_tag] = (re.compile(_pattern), _read)
    _Loader.add_implicit_resolver(_tag, _SCALARS[_tag][0], _first)


_YAML = "indent with blanks, and quote a text that holds `: `, ` #` or begins with a sign"
_SPLIT = "split it: parts without a common link can be planned separately"


class _Dumper(yaml.SafeDumper):
    """Writes numbers as `parse` reads them, without exponents."""


_Dumper.add_representer(
    float,
    lambda dumper, number: dumper.represent_scalar(
        "tag:yaml.org,2002:float", format(Decimal(repr(number)), "f")
    ),
)


def dump(document: Mapping[str, Any]) -> str:
    """The YAML text of a document, a key a line; `parse` reads it back."""
    # None is for collections of plain values alone, and the document may be one.
    flow = None if any(isinstance(value, dict | list) for value in document.values()) else False
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=flow, width=100)


def parse(text: bytes, source: str) -> Problems:
    """Read YAML `text`: the document, its lines, and what is wrong with the text of it.

    `source` names the text in messages; what is not YAML at all raises `InputError`.
    """
    if len(text) > SIZE_MAX_OCTETS:
        raise InputError(
            f"{source}: found over {SIZE_MAX_OCTETS} octets, expected fewer", hint=_SPLIT
        )
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{source}:{line}: found octet 0x{text[error.start]:02x}, expected UTF-8 text",
            hint="save the file as UTF-8",
        ) from None
    try:
        _refuse_depth(decoded, source)
        root = yaml.compose(decoded, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        why = ", ".join(filter(None, (error.context, error.problem)))
        message = f"{source}:{line}: not YAML: {why}"
        its = {message: quoted(decoded.splitlines(), line)}
        raise InputError(message, hint=_YAML, quoted=its) from None
    except yaml.YAMLError as error:
        why = str(error).splitlines()[0]
        raise InputError(f"{source}: not YAML: {why}", hint=_YAML) from None
    lines: dict[KeyPath, int] = {(): 1}
    problems = Problems(source, lines, text=decoded)
    if root is not None:
        lines[()] = _line(root)
        problems.document = _Builder(problems, lines).build(root, ())
    return problems


def _refuse_depth(text: str, source: str) -> None:
    """Bound the nesting before composing: composing recurses, in C, until the stack is gone."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            raise InputError(
                f"{source}:{_line(event)}: found values nested more than {DEPTH_MAX} deep, "
                "expected fewer levels",
                hint=_YAML,
            )


def _line(part: yaml.Node | yaml.Event) -> int:
    """The line, counted from 1, on which a part of the text starts."""
    return part.start_mark.line + 1 if part.start_mark else 1


@dataclass(slots=True)
class _Builder:
    problems: Problems
    lines: dict[KeyPath, int]
    _seen: set[int] = field(default_factory=set)
    _aliased: int = 0

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self._bound_aliases(node, path)
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            for index, item in enumerate(node.value):
                self.lines[(*path, index)] = _line(item)
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            pattern, read = _SCALARS[node.tag]
            if pattern.fullmatch(node.value):  # not so under an explicit tag: !!int x
                return read(node.value)
        self.problems.unread.add(path)
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        self.problems.add_at(_line(node), path, f"the tag {tag}", "a plain value without a tag")
        return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = _line(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.add_at(line, path, "a collection as a key", "a name")
                continue
            key = self.build(key_node, path)
            if not isinstance(key, str):
                found, expected = f"{shown(key)} as a key", "a name"
            elif key == "<<":
                found, expected = "the merge key <<", "every key written out"
            elif key in mapping:
                found = f"{shown(key)} a second time (first on line {self.lines[(*path, key)]})"
                expected = "each key once"
            else:
                self.lines[(*path, key)] = line
                mapping[key] = self.build(value_node, (*path, key))
                continue
            self.problems.add_at(line, path, found, expected)
        return mapping

    def _bound_aliases(self, node: yaml.Node, path: KeyPath) -> None:
        """A few aliases of aliases can stand for billions of values, or for themselves."""
        self._aliased += id(node) in self._seen
        self._seen.add(id(node))
        if self._aliased > ALIASED_VALUES_MAX or len(path) > DEPTH_MAX:
            raise InputError(
                f"{self.problems.source}:{_line(node)}: found aliases of aliases, "
                f"expected them to repeat at most {ALIASED_VALUES_MAX} values",
                hint="write some of the repeated values out",
            )
