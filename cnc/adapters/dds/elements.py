"""Elements of a DDS-XML file: read by local name, in its namespace or in none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from lxml import etree

from cnc.errors import InputError

Element: TypeAlias = etree._Element  # noqa: SLF001  lxml has no public name for it
_SHOWN_MAX = 64


def where(its: Element) -> str:
    """The file, line and name of an element, for an error."""
    return f"{its.base}:{its.sourceline}: {etree.QName(its).localname}"


def children(its: Element, name: str) -> Iterator[Element]:
    for each in its.iterchildren(etree.Element):
        if etree.QName(each).localname == name:
            yield each


def child(its: Element, name: str) -> Element | None:
    return next(children(its, name), None)


def required(its: Element, name: str) -> Element:
    """Raises InputError if there is none."""
    if (found := child(its, name)) is None:
        raise InputError(f"{where(its)}: found no {name}")
    return found


def text_of(its: Element, name: str) -> str | None:
    """The text of a child, without the white space around it."""
    found = child(its, name)
    return None if found is None else (found.text or "").strip()


def attribute(its: Element, name: str) -> str:
    """Raises InputError if there is none."""
    if not (found := its.get(name)):
        raise InputError(f"{where(its)}: found no attribute {name}")
    return found


def number(its: Element, name: str, at_most: int) -> int | None:
    """The number in a child. Raises InputError for another text, and for more than `at_most`."""
    text = text_of(its, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > _SHOWN_MAX or int(text) > at_most:
        raise InputError(
            f"{where(its)}: {name}: found {text[:_SHOWN_MAX]!r}, expected a number up to {at_most}"
        )
    return int(text)


def needed_number(its: Element, name: str, at_most: int) -> int:
    """Raises InputError if there is none, too."""
    if (found := number(its, name, at_most)) is None:
        raise InputError(f"{where(its)}: found no {name}")
    return found


def put(its: Element, name: str) -> Element:
    """The child of that name, which is made if it is not there."""
    found = child(its, name)
    if found is None:
        namespace = etree.QName(its).namespace
        found = etree.SubElement(its, etree.QName(namespace, name))
    return found


def put_text(its: Element, name: str, text: object) -> None:
    put(its, name).text = str(text)
