"""Whether a switch has lost a part of its startup configuration, which its NETCONF server notices
(`tsn-netconf-server`)."""

from __future__ import annotations

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element

MODULE = "tsn-netconf-server"
_NAMESPACE = "urn:tsn-control-plane:yang:tsn-netconf-server"
_STARTUP = ElementMaker(namespace=_NAMESPACE, nsmap={None: _NAMESPACE})


def startup_filter() -> list[Element]:
    """Subtree filter: the state of startup."""
    return [_STARTUP("startup-state")]


def damaged_modules(data: Element) -> tuple[str, ...]:
    """The modules whose part of startup was unreadable, from the reply to `startup_filter`; they
    are told until startup is written again. Raises the errors of `reply`."""
    found = reply.entries(data, "s:startup-state/s:damaged-module", {"s": _NAMESPACE})
    return tuple(reply.short(each.text or "", "damaged-module") for each in found)
