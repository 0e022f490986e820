"""What a datastore has after an edit (RFC 6241, 7.2), for payloads that were made for a switch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path

from lxml import etree

from cnc.data_tree.tree import NETCONF

Element = etree._Element
OPERATION = f"{{{NETCONF}}}operation"
_YANG = Path(__file__).parents[2] / "yang"
_LIST = re.compile(r"\blist\s+([\w-]+)\s*\{\s*key\s+\"([^\"]+)\"")


@cache
def _keys() -> Mapping[str, list[str]]:
    """The names of the keys of each list in the YANG modules of a switch."""
    found = {}
    for module in sorted(_YANG.rglob("*.yang")):
        for name, keys in _LIST.findall(module.read_text()):
            found[name] = keys.split()
    return found


def _identity(element: Element) -> tuple[object, ...]:
    """What an element is found by among those beside it."""
    name = etree.QName(element)
    keys = (f"{{{name.namespace}}}{key}" for key in _keys().get(name.localname, ()))
    return element.tag, *map(element.findtext, keys)


def applied(stored: Element, edit: Element) -> Element:
    """What is stored after an edit that may replace, remove and merge."""
    result = deepcopy(stored)
    _apply(result, edit)
    return result


def _apply(target: Element, edit: Element) -> None:
    present = {_identity(each): each for each in target}
    for each in edit:
        operation, found = each.get(OPERATION), present.get(_identity(each))
        if operation is None and found is not None and len(each):
            _apply(found, each)
            continue
        if found is not None:
            target.remove(found)
        if operation != "remove":
            copy = etree.SubElement(target, each.tag)
            copy.text = each.text
            _apply(copy, each)


def entries(config: Element) -> Counter[str]:
    """How many entries there are of each list."""
    names = (etree.QName(each).localname for each in config.iter("*"))
    return Counter(name for name in names if name in _keys())


def as_reported(config: Element) -> Element:
    """The same with what was to be in force and now is."""
    result = deepcopy(config)
    for each in result.iter("*"):
        each.tag = each.tag.replace("}admin-", "}oper-")
    return result
