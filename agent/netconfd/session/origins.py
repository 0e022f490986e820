"""The origins of values in use (RFC 8342, section 5.3.4), and filters on them.

A node without an origin of its own has that of its parent; state has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lxml import etree

from agent.sysrepo import SList

IETF_ORIGIN = "urn:ietf:params:xml:ns:yang:ietf-origin"
ORIGIN = f"{{{IETF_ORIGIN}}}origin"

# As RFC 7951 writes identities: with the name of their module.
_UNKNOWN = "ietf-origin:unknown"


@dataclass(frozen=True)
class OriginFilter:
    """Configuration whose origin is, or is derived from, one of these; `negated`, none of these."""

    origins: frozenset[str]
    negated: bool = False

    def select(self, data: etree._Element, context: Any, modules: Mapping[str, str]) -> None:
        """Remove from <data>, printed with origins, the configuration that does not match.

        State stays, and so do the ancestors and list keys of whatever stays. `modules` maps
        namespace to module name.
        """
        selected = _with_derived(context, self.origins)
        schema = _Schema(context, modules)
        for top in list(data):
            if not _prune(
                top, _UNKNOWN, "", lambda each: (each in selected) != self.negated, schema
            ):
                data.remove(top)


NOT_BY_DEFAULT = OriginFilter(frozenset({"ietf-origin:default"}), negated=True)


def strip(data: etree._Element) -> None:
    """Remove the origins, which were read only for the filter."""
    for node in data.iter():
        node.attrib.pop(ORIGIN, None)


class _Schema:
    """The schema nodes of a reply's elements, each looked up once."""

    def __init__(self, context: Any, modules: Mapping[str, str]) -> None:
        self._context = context
        self._modules = modules
        self._known: dict[str, Any] = {}

    def path(self, parent: str, node: etree._Element) -> str:
        name = etree.QName(node)
        return f"{parent}/{self._modules[name.namespace or '']}:{name.localname}"

    def origin(self, node: etree._Element) -> str | None:
        """What is written at the element."""
        text = node.get(ORIGIN)
        if text is None:
            return None
        prefix, _, name = text.rpartition(":")
        return f"{self._modules[node.nsmap[prefix or None]]}:{name}"

    def node(self, path: str) -> Any:
        if path not in self._known:
            self._known[path] = next(self._context.find_path(path))
        return self._known[path]


def _prune(
    node: etree._Element,
    inherited: str,
    parent: str,
    matches: Callable[[str], bool],
    schema: _Schema,
) -> bool:
    """Remove what does not match below `node`; returns whether `node` itself is to be kept."""
    path = schema.path(parent, node)
    snode = schema.node(path)
    if snode.config_false():
        return True
    origin = schema.origin(node) or inherited
    if len(node) == 0:
        return matches(origin)
    keep = {child for child in node if _prune(child, origin, path, matches, schema)}
    if keep and isinstance(snode, SList):
        keys = [key.name() for key in snode.keys()]  # noqa: SIM118  not a mapping
        keep |= {child for child in node if etree.QName(child).localname in keys}
    for child in list(node):
        if child not in keep:
            node.remove(child)
    return bool(keep)


def _with_derived(context: Any, bases: Iterable[str]) -> frozenset[str]:
    result: set[str] = set()
    pending = list(bases)
    while pending:
        base = pending.pop()
        result.add(base)
        module, _, name = base.partition(":")
        for identity in context.get_module(module).identities():
            if identity.name() == name:
                pending += [f"{each.module().name()}:{each.name()}" for each in identity.derived()]
    return frozenset(result)
