"""Which YANG modules a switch has, of those that not every switch needs."""

from __future__ import annotations

from collections.abc import Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import BridgeForwarding, PortSettings

_LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"
_NAMESPACES = {"y": _LIBRARY}
_YANG = ElementMaker(namespace=_LIBRARY, nsmap={None: _LIBRARY})
_BRIDGE_MODULE = "ieee802-dot1q-bridge"
_OF_MECHANISMS = frozenset(name for each in MECHANISMS for name in each.switch.modules)


def needs_modules(settings: Mapping[str, PortSettings]) -> bool:
    """Whether one of the configured is a bridge that needs any of them."""
    return any(each[BridgeForwarding].parts.parts for each in settings.values())


def module_filter() -> Element:
    """A subtree filter: which of the modules of mechanisms are installed. One that is in use is
    asked for as well: without it nobody may read what is."""
    modules = (
        _YANG("module", _YANG("name", name)) for name in [*sorted(_OF_MECHANISMS), _BRIDGE_MODULE]
    )
    return _YANG("yang-library", _YANG("module-set", *modules))


def lacking_modules(data: Element) -> frozenset[str]:
    """The modules of mechanisms that the reply to `module_filter` does not have; none where it has
    no other, either."""
    modules = reply.entries(data, "y:yang-library/y:module-set/y:module", _NAMESPACES)
    found = {reply.text(each, "y:name", _NAMESPACES) for each in modules}
    return _OF_MECHANISMS - found if found else frozenset()
