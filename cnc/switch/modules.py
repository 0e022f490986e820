"""Which YANG modules a switch has, of those that not every plan needs."""

from __future__ import annotations

from lxml.builder import ElementMaker

from cnc.switch import reply
from cnc.switch.reply import Element

STREAM_IDENTIFICATION_MODULE = "ieee802-dot1cb-stream-identification"
POLICING_MODULE = "ieee802-dot1q-psfp-bridge"

_LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"
_YANG = ElementMaker(namespace=_LIBRARY, nsmap={None: _LIBRARY})
_BRIDGE_MODULE = "ieee802-dot1q-bridge"
_ASKED = (STREAM_IDENTIFICATION_MODULE, POLICING_MODULE, _BRIDGE_MODULE)


def module_filter() -> Element:
    """A subtree filter: whether these modules are installed. One that is in use is asked for as
    well: without it nobody may read what is."""
    modules = (_YANG("module", _YANG("name", name)) for name in _ASKED)
    return _YANG("yang-library", _YANG("module-set", *modules))


def is_installed(data: Element, module: str) -> bool:
    """Whether the reply to `module_filter` has a module; True where it has none at all."""
    path = "y:yang-library/y:module-set/y:module"
    namespaces = {"y": _LIBRARY}
    modules = reply.entries(data, path, namespaces)
    found = {reply.text(each, "y:name", namespaces) for each in modules}
    return module in found or not found
