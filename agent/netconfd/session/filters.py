"""Which part of a datastore a client asks for, as one XPath (see `agent.sysrepo.selection`).

Prefixes in it are module names. The keys of the list entries that it selects are always kept, so a
subtree filter (RFC 6241 section 6) becomes a union of paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lxml import etree

from agent.netconfd.errors import BASE, RpcError, attribute_error
from agent.netconfd.xpath import literal

EVERYTHING = "/*"
# Of a <filter>; some clients write them in the namespace of the element.
ATTRIBUTES = ("type", "select", f"{{{BASE}}}type", f"{{{BASE}}}select")

# A string literal, or @, or what is not ASCII, or a name with what tells its kind: the colon of a
# prefix, the parenthesis of a function, the two colons of an axis. A name that was read is not
# looked into again: the time this takes grows with the length of the text, and no faster.
_TOKEN = re.compile(
    r"""("[^"]*"|'[^']*')|(@)|([^\0-\x7f])|([A-Za-z_][\w.-]*+)(?:(:)(?=[A-Za-z_*])|\s*+(\(|::))?""",
    re.ASCII,
)
# Of what one filter becomes. Each path of a subtree filter repeats the content matches
# around it, so that a message of 1 MB would else become 20 GB.
MAX_XPATH_OCTETS = 2**20
# A string literal, or a name, which may be an operator, or another operator.
_WORD_OR_OPERATOR = re.compile(r"""(?:"[^"]*"|'[^']*')|([A-Za-z_][\w.-]*+)|([-+*=<>|])""", re.ASCII)
_OPERATOR_NAMES = frozenset({"and", "or", "div", "mod"})
# libyang looks through all operators of a level for each of them: 100,000 take it 1.4 s, four times
# for each filter.
MAX_OPERATORS = 5_000
# What makes libyang 3.13.6 read invalid memory: the first for a leaf that is not a leafref, the
# others for the root node. Only sum() is one of the functions that RFC 6241 section 8.9.1 asks for.
_UNSAFE_FUNCTIONS = frozenset({"deref", "bit-is-set", "enum-value", "sum"})
# libyang 3.13.6 has crashed while it put what these select in order (set_assign_pos).
_UNSAFE_AXES = frozenset({"ancestor", "ancestor-or-self"})


def to_xpath(filter_: etree._Element | None, modules: Mapping[str, str]) -> str | None:
    """The XPath of a <filter>, None if it selects nothing; `modules` maps namespace to name.

    Raises RpcError for a filter of unknown type, without its expression, or with one that would
    crash libyang; and too-big for one that becomes longer than `MAX_XPATH_OCTETS`, or has more than
    `MAX_OPERATORS`.
    """
    if filter_ is None:
        return EVERYTHING
    kind = filter_.get("type", filter_.get(f"{{{BASE}}}type", "subtree"))
    if kind == "subtree":
        written = _Written()
        paths = [path for node in filter_ for path in _paths(node, "", modules, written)]
        return " | ".join(dict.fromkeys(paths)) or None
    if kind == "xpath":
        return _with_module_names(filter_, modules)
    raise attribute_error(
        "bad-attribute",
        f"the type of <filter> is {kind!r}, expected subtree or xpath",
        attribute="type",
        element="filter",
    )


def _with_module_names(filter_: etree._Element, modules: Mapping[str, str]) -> str:
    select = filter_.get("select", filter_.get(f"{{{BASE}}}select"))
    if not select:
        raise attribute_error(
            "missing-attribute",
            "<filter> of type xpath needs the attribute select",
            attribute="select",
            element="filter",
        )

    written = _Written()
    written.add(select)
    if _operators(select) > MAX_OPERATORS:
        raise _too_big(f"has more than {MAX_OPERATORS} operators")
    prefixes = filter_.nsmap

    def rename(match: re.Match[str]) -> str:
        _, at, foreign, name, colon, opening = match.groups()
        if foreign:
            # libyang's message would have only the first of its octets, which is invalid UTF-8.
            raise _not_evaluated(f"has U+{ord(foreign):04X} in a name, and YANG's names are ASCII")
        if opening == "(" and name in _UNSAFE_FUNCTIONS:
            raise _not_evaluated(f"calls {name}(), which this server does not evaluate")
        # A step from an attribute is another way to crash libyang.
        if at or (opening == "::" and name == "attribute"):
            raise _not_evaluated("selects attributes, which configuration and state do not have")
        if opening == "::" and name in _UNSAFE_AXES:
            raise _not_evaluated(f"has the axis {name}, which this server does not evaluate")
        if colon is None:
            return match.group()
        return written.add(modules.get(prefixes.get(name, ""), name) + ":")

    return _TOKEN.sub(rename, select)


def _not_evaluated(why: str) -> RpcError:
    return RpcError(
        "invalid-value", f"the <filter> {why}", "protocol", info={"bad-element": "filter"}
    )


def _operators(xpath: str) -> int:
    """How many operators an expression has; a * counts, whatever it stands for."""
    return sum(
        match[2] is not None or match[1] in _OPERATOR_NAMES
        for match in _WORD_OR_OPERATOR.finditer(xpath)
    )


def _too_big(why: str) -> RpcError:
    return RpcError(
        "too-big",
        f"the <filter> {why}; ask for less at once",
        "protocol",
        info={"bad-element": "filter"},
    )


class _Written:
    """Counts what is written for a filter, and ends it before it takes much memory."""

    def __init__(self) -> None:
        self._characters = 0

    def add(self, text: str) -> str:
        """The text, one more. Raises RpcError too-big."""
        self._characters += len(text)
        if self._characters > MAX_XPATH_OCTETS:
            raise _too_big(f"becomes an XPath of more than {MAX_XPATH_OCTETS} octets")
        return text


def _paths(
    node: etree._Element, parent: str, modules: Mapping[str, str], written: _Written
) -> Iterator[str]:
    """One path for each selection node at or below `node`; none where nothing can match."""
    step = _step(node, modules)
    if step is None:
        return
    matches = [child for child in node if _is_content_match(child)]
    steps = [_step(match, modules) for match in matches]
    if None in steps:
        return
    predicates = [
        written.add(f"[{match_step}={literal(_value(match, modules))}]")
        for match, match_step in zip(matches, steps, strict=True)
    ]
    here = written.add(f"{parent}/{step}{''.join(predicates)}")
    others = [child for child in node if not _is_content_match(child)]
    if not others:
        if not parent and _is_content_match(node):
            here = written.add(f"{here}[.={literal(_value(node, modules))}]")
        yield here
        return
    for match_step in steps:
        yield written.add(f"{here}/{match_step}")
    for child in others:
        yield from _paths(child, here, modules, written)


def _is_content_match(node: etree._Element) -> bool:
    return len(node) == 0 and bool((node.text or "").strip())


def _step(node: etree._Element, modules: Mapping[str, str]) -> str | None:
    if node.attrib:
        # Configuration and state carry no attributes, so no attribute expression ever holds.
        return None
    name = etree.QName(node)
    if name.namespace is None or (name.namespace == BASE and node.prefix is None):
        # No namespace of its own, or only the message's default one: any namespace matches.
        return f"*[local-name()={literal(name.localname)}]"
    module = modules.get(name.namespace)
    return None if module is None else f"{module}:{name.localname}"


def _value(node: etree._Element, modules: Mapping[str, str]) -> str:
    """The text to compare; an identity's prefix becomes the module name libyang compares with."""
    text = (node.text or "").strip()
    prefix, colon, rest = text.partition(":")
    module = modules.get(node.nsmap.get(prefix, "")) if colon else None
    return text if module is None else f"{module}:{rest}"
