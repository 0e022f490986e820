"""The error reports of failed operations: the errors of RFC 6241 appendix A.

RpcError          one <rpc-error>
Details           what a module defines for the <error-info> of one
RpcErrors         several of them, in one reply
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lxml import etree

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
NMDA = "urn:ietf:params:xml:ns:yang:ietf-netconf-nmda"

# Of a text in an error: it may repeat a value of the client's, which may be as long as a message.
MAX_TEXT_OCTETS = 4096

Layer = Literal["transport", "rpc", "protocol", "application"]


@dataclass(frozen=True)
class Details:
    """The yang-data that a module defines for an error: a container with leaves (RFC 8040).

    `prefixes` maps those in the values of the leaves to namespaces.
    """

    namespace: str
    name: str
    leaves: Mapping[str, str]
    prefixes: Mapping[str | None, str]

    def element(self) -> etree._Element:
        """The container."""
        container = etree.Element(
            f"{{{self.namespace}}}{self.name}", nsmap={None: self.namespace, **self.prefixes}
        )
        for name, value in self.leaves.items():
            leaf = etree.SubElement(container, f"{{{self.namespace}}}{name}")
            leaf.text = printable(shortened(value))
        return container


@dataclass(eq=False)
class RpcError(Exception):
    """One error: `tag` as in appendix A, `message` for a person, `info` the tag's own elements."""

    tag: str
    message: str
    layer: Layer = "application"
    app_tag: str | None = None
    path: str | None = None
    path_namespaces: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    details: Details | None = None

    def __str__(self) -> str:
        return f"{self.tag}: {self.message}"

    def add_to(self, reply: etree._Element) -> etree._Element:
        """Add the <rpc-error> element to a reply; returns it.

        Made elsewhere and moved, it would lose the prefixes of its path to others that the reply
        declares for the same namespaces.
        """
        error = etree.SubElement(reply, f"{{{BASE}}}rpc-error", nsmap={None: BASE})
        _add(error, "error-type", self.layer)
        _add(error, "error-tag", self.tag)
        _add(error, "error-severity", "error")
        if self.app_tag is not None:
            _add(error, "error-app-tag", self.app_tag)
        # A part of a path would be the path of something else.
        if self.path is not None and shortened(self.path) == self.path:
            # The path's prefixes mean something only where they are declared.
            path = etree.SubElement(
                error, f"{{{BASE}}}error-path", nsmap=dict(self.path_namespaces)
            )
            path.text = self.path
        message = _add(error, "error-message", printable(shortened(self.message)))
        message.set("{http://www.w3.org/XML/1998/namespace}lang", "en")
        if self.info or self.details:
            info = etree.SubElement(error, f"{{{BASE}}}error-info")
            for name, value in self.info.items():
                _add(info, name, printable(shortened(value)))
            if self.details:
                info.append(self.details.element())
        return error


class RpcErrors(Exception):
    """All errors of one failed operation."""

    def __init__(self, errors: Sequence[RpcError]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = tuple(errors)


def missing_element(name: str, *, of: str, layer: Layer = "protocol") -> RpcError:
    """`of` must contain an element `name` and does not."""
    return RpcError(
        "missing-element", f"<{of}> needs <{name}>", layer=layer, info={"bad-element": name}
    )


def bad_element(name: str, value: str, expected: str) -> RpcError:
    """The value of the element is not valid there."""
    return RpcError(
        "invalid-value",
        f"<{name}> is {value!r}, expected {expected}",
        layer="protocol",
        info={"bad-element": name},
    )


def attribute_error(
    tag: str, message: str, *, attribute: str, element: str, layer: Layer = "protocol"
) -> RpcError:
    """An attribute of `element` is missing, bad or unknown, depending on `tag`."""
    info = {"bad-attribute": attribute, "bad-element": element}
    return RpcError(tag, message, layer=layer, info=info)


def shortened(text: str) -> str:
    """The text, or the beginning and end of one longer than `MAX_TEXT_OCTETS` in UTF-8."""
    # No character takes more than four octets; error texts are mostly ASCII.
    if len(text) * 4 <= MAX_TEXT_OCTETS or len(text.encode()) <= MAX_TEXT_OCTETS:
        return text
    octets, rest = text.encode(), MAX_TEXT_OCTETS // 4
    begin, end = octets[: MAX_TEXT_OCTETS // 2], octets[-rest:]
    left_out = len(octets) - len(begin) - len(end)
    return (
        f"{begin.decode(errors='ignore')} ... ({left_out} octets left out) ... "
        f"{end.decode(errors='ignore')}"
    )


def _add(parent: etree._Element, name: str, text: str) -> etree._Element:
    child = etree.SubElement(parent, f"{{{BASE}}}{name}")
    child.text = text
    return child


def printable(text: str) -> str:
    """XML has no place for most control characters, a subscriber's message may hold some."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )
