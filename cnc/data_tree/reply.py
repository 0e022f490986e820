"""Values out of a reply, none of them larger than a switch has reason to send.

What exceeds these limits raises ValueError, which becomes an error of the switch: a reply of 32 MiB
may hold a list of a million entries, or a number of a million digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from lxml import etree

from cnc.data_tree.tree import PRIORITIES

_Read = TypeVar("_Read")

Element = etree._Element  # noqa: SLF001  lxml has no public name for it

# RFC 7950 9.2: no integer type has a value of more digits and a sign.
NUMBER_MAX_CHARACTERS = 20
# Names and descriptions; RFC 7950 does not limit a string.
TEXT_MAX_CHARACTERS = 4000
# Interfaces, neighbours, modules, entries of a gate control list.
ENTRIES_MAX = 16_384


def number(text: str, name: str) -> int:
    """The value of an integer leaf called `name`."""
    if len(text) > NUMBER_MAX_CHARACTERS:
        raise ValueError(f"{name} is no number: it has {len(text)} characters")
    return int(text)


def traffic_class(text: str) -> int:
    """The value of a leaf `traffic-class` (IEEE 802.1Q 8.6.6)."""
    value = number(text, "traffic-class")
    if not 0 <= value < PRIORITIES:
        raise ValueError(f"there is no traffic class {value}")
    return value


def text(parent: Element, path: str, namespaces: dict[str, str]) -> str | None:
    """The text of the first node at `path`; None where there is none."""
    found: str | None = parent.findtext(path, namespaces=namespaces)
    return found and short(found, path.rpartition(":")[2])


def short(text: str, name: str) -> str:
    """The text of a leaf called `name`."""
    if len(text) > TEXT_MAX_CHARACTERS:
        raise ValueError(
            f"{name} has {len(text)} characters, {TEXT_MAX_CHARACTERS} at most are read"
        )
    return text


def entries(
    parent: Element, path: str, namespaces: dict[str, str], maximum: int | None = None
) -> Iterator[Element]:
    """The nodes at `path`, such as the entries of a list: `maximum` at most, or ENTRIES_MAX."""
    limit = ENTRIES_MAX if maximum is None else maximum
    found = parent.iterfind(path, namespaces=namespaces)
    yield from islice(found, limit)
    if next(found, None) is not None:
        name = path.rpartition(":")[2]
        raise ValueError(f"more than {limit} entries of {name}")


class Leaves(NamedTuple):
    """Reads leaves of one module, by paths without prefixes: all their nodes are in `namespace`."""

    namespace: str

    def text(self, parent: Element, path: str) -> str | None:
        """None where there is no such leaf."""
        return text(parent, f"m:{path.replace('/', '/m:')}", {"m": self.namespace})

    def required(self, parent: Element, path: str) -> str:
        """Raises ValueError where there is no such leaf."""
        found = self.text(parent, path)
        if found is None:
            raise ValueError(f"the reply has no {path} in a {etree.QName(parent).localname}")
        return found

    def number(self, parent: Element, path: str) -> int:
        """Raises ValueError where there is no such leaf, or no number in it."""
        return number(self.required(parent, path), path.rpartition("/")[2])

    def optional_number(self, parent: Element, path: str) -> int | None:
        found = self.text(parent, path)
        return None if found is None else number(found, path.rpartition("/")[2])


class Row(NamedTuple):
    """A list entry: its name, and the texts of its leaves. Read in one pass over the children:
    entries are most of a reply, and a search for each leaf would be most of the work on it."""

    name: str
    leaves: dict[str, str]

    def number(self, leaf: str) -> int:
        """Raises ValueError where the leaf is missing or not a number."""
        return number(self._leaf(leaf), leaf)

    def optional_number(self, leaf: str) -> int | None:
        return number(self.leaves[leaf], leaf) if leaf in self.leaves else None

    def traffic_class(self) -> int:
        """As `number`; 0 to 7."""
        return traffic_class(self._leaf("traffic-class"))

    def _leaf(self, leaf: str) -> str:
        if leaf not in self.leaves:
            raise ValueError(f"the reply has no {leaf} in {self.name}")
        return self.leaves[leaf]


def rows(parent: Element, path: str, namespaces: dict[str, str]) -> Iterator[Row]:
    """The entries of a list. Leaves that other modules add are left out."""
    for element in entries(parent, path, namespaces):
        namespace, _, name = str(element.tag).rpartition("}")
        leaves = {
            str(child.tag)[len(namespace) + 1 :]: child.text or ""
            for child in element.iterchildren(f"{namespace}}}*")
        }
        yield Row(name, leaves)


class Reply:
    """The data that a switch has sent; what several readers need of it is read once."""

    def __init__(self, data: Element) -> None:
        self.data = data
        self._found: dict[Callable[[Reply], Any], Any] = {}

    def once(self, read: Callable[[Reply], _Read]) -> _Read:
        """What `read` finds in the reply."""
        if read not in self._found:
            self._found[read] = read(self)
        found: _Read = self._found[read]
        return found
