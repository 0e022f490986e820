"""Which YANG modules a switch has, and of which revision: those that not every switch needs, and
our own, which grows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import BridgeForwarding, PortSettings

_LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"
_NAMESPACES = {"y": _LIBRARY}
_YANG = ElementMaker(namespace=_LIBRARY, nsmap={None: _LIBRARY})
_ASKED_BESIDES = ("ieee802-dot1q-bridge", "tsn-linux")
_OF_MECHANISMS = frozenset(name for each in MECHANISMS for name in each.switch.modules)


def needs_modules(settings: Mapping[str, PortSettings]) -> bool:
    """Whether one of the configured is a bridge that needs any of them."""
    return any(each[BridgeForwarding].parts.parts for each in settings.values())


def module_filter() -> Element:
    """A subtree filter: which of the modules of mechanisms are installed. Those that are in use are
    asked for as well: without any of them nobody may read what is."""
    modules = (
        _YANG("module", _YANG("name", name)) for name in [*sorted(_OF_MECHANISMS), *_ASKED_BESIDES]
    )
    return _YANG("yang-library", _YANG("module-set", *modules))


def installed_modules(data: Element) -> dict[str, str]:
    """The modules that the reply to `module_filter` has, each with its revision, "" where it has
    none."""
    modules = reply.entries(data, "y:yang-library/y:module-set/y:module", _NAMESPACES)
    return {
        reply.text(each, "y:name", _NAMESPACES) or "": reply.text(each, "y:revision", _NAMESPACES)
        or ""
        for each in modules
    }


def lacking_modules(installed: Collection[str]) -> frozenset[str]:
    """The modules of mechanisms that are not installed; none where no module is known to be."""
    return _OF_MECHANISMS.difference(installed) if installed else frozenset()
