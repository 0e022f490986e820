"""A request: the operation's parameters, and what it may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from lxml import etree

from agent.netconfd import date_and_time
from agent.netconfd.capabilities import DATASTORES
from agent.netconfd.errors import (
    BASE,
    NMDA,
    RpcError,
    attribute_error,
    bad_element,
    missing_element,
    unknown_element,
)
from agent.netconfd.session.broker import Broker
from agent.netconfd.session.datastore import Datastores
from agent.netconfd.session.notifications import Filter
from agent.netconfd.session.subscriptions import Subscriptions

MAX_UINT32 = 4_294_967_295

IETF_DATASTORES = "urn:ietf:params:xml:ns:yang:ietf-datastores"


@dataclass
class Session:
    """What an operation may change of its session."""

    is_closing: bool = False
    # None: it has no subscription.
    subscription_filter: Filter | None = None


@dataclass(frozen=True)
class Request:
    """One operation to perform for one session."""

    parameters: Parameters
    session: Session
    broker: Broker
    datastores: Datastores
    subscriptions: Subscriptions
    min_push_period_cs: int


Element = etree._Element  # noqa: SLF001  lxml has no public name for it
Operation = Callable[[Request], Awaitable[list[Element]]]
# By the tag of the operation element, "{namespace}name".
Operations = Mapping[str, Operation]


class Parameters:
    """The children of an operation element, each to be taken once.

    They are in the operation's own namespace, except where another is named.
    """

    def __init__(self, operation: etree._Element) -> None:
        name = etree.QName(operation)
        self.operation = name.localname
        self._namespace = name.namespace
        self._left: dict[str, list[etree._Element]] = {}
        for child in operation:
            self._left.setdefault(str(child.tag), []).append(child)

    def elements(self, name: str, namespace: str | None = None) -> list[etree._Element]:
        """All children of this name."""
        return self._left.pop(f"{{{namespace or self._namespace}}}{name}", [])

    def element(self, name: str, namespace: str | None = None) -> etree._Element | None:
        """The child of this name, None if it was not given."""
        found = self.elements(name, namespace)
        if len(found) > 1:
            raise RpcError(
                "bad-element",
                f"<{self.operation}> has more than one <{name}>",
                "protocol",
                info={"bad-element": name},
            )
        return found[0] if found else None

    def required(self, name: str) -> etree._Element:
        """The child of this name, which must be there."""
        element = self.element(name)
        if element is None:
            raise missing_element(name, of=self.operation)
        return element

    def text(self, name: str, namespace: str | None = None) -> str | None:
        """The text of a child."""
        element = self.element(name, namespace)
        return None if element is None else text_of(element)

    def choice(
        self, name: str, values: Sequence[str], default: str, namespace: str | None = None
    ) -> str:
        """The text of a child that is an enumeration."""
        text = self.text(name, namespace)
        if text is None:
            return default
        if text not in values:
            raise bad_element(name, text, " or ".join(values))
        return text

    def flag(self, name: str) -> bool:
        """Whether a child that is empty was given."""
        text = self.text(name)
        if text:
            raise bad_element(name, text, "nothing in it")
        return text is not None

    def number(self, name: str) -> int | None:
        """The text of a child that is a positive 32-bit number."""
        text = self.text(name)
        if text is None:
            return None
        number = positive(text, MAX_UINT32)
        if number is None:
            raise bad_element(name, text, f"a number from 1 to {MAX_UINT32}")
        return number

    def source_or_target(self, name: str) -> etree._Element:
        """The element inside <source> or <target>."""
        element = self.required(name)
        if len(element) != 1:
            raise RpcError(
                "bad-element" if len(element) else "missing-element",
                f"<{name}> holds {len(element)} elements, expected one that names a datastore",
                "protocol",
                info={"bad-element": name},
            )
        return element[0]

    def datastore(
        self, name: str, among: Sequence[str] = DATASTORES, *, by_identity: bool = False
    ) -> str:
        """The datastore named in <source> or <target>."""
        return datastore_name(self.source_or_target(name), name, among, by_identity=by_identity)

    def end(self) -> None:
        """Refuse parameters that the operation does not have."""
        for children in self._left.values():
            raise unknown_element(etree.QName(children[0]).localname, of=self.operation)


def text_of(element: etree._Element) -> str:
    """What a leaf holds. Raises RpcError if it holds elements."""
    if len(element):
        name = etree.QName(element).localname
        raise unknown_element(etree.QName(element[0]).localname, of=name)
    return (element.text or "").strip()


def filter_of(
    operation: str, subtree: etree._Element | None, xpath: etree._Element | None
) -> etree._Element | None:
    """The one of these that was given, as the <filter> that RFC 6241 has. Raises RpcError."""
    if subtree is not None and xpath is not None:
        name, other = etree.QName(xpath).localname, etree.QName(subtree).localname
        raise RpcError(
            "bad-element",
            f"<{operation}> takes one filter, {other} or {name}",
            "protocol",
            info={"bad-element": name},
        )
    if subtree is not None and subtree.attrib:
        name = etree.QName(subtree).localname
        attribute = etree.QName(next(iter(subtree.attrib))).localname
        raise attribute_error(
            "unknown-attribute",
            f"<{name}> has no attribute {attribute}",
            attribute=attribute,
            element=name,
        )
    if xpath is not None:
        xpath.attrib.update({"type": "xpath", "select": text_of(xpath)})
    return xpath if subtree is None else subtree


def date_and_time_ns(name: str, text: str) -> int:
    """The date-and-time in an element, in ns since 1970. Raises RpcError."""
    try:
        return date_and_time.parsed(text)
    except ValueError:
        raise bad_element(name, text, "a date-and-time such as 2026-11-21T14:00:00Z") from None


def positive(text: str, most: int) -> int | None:
    """The number that these digits write, if it is from 1 to `most`; else None."""
    if not (text.isascii() and text.isdigit()):
        return None
    # Python refuses to read thousands of digits.
    digits = text.lstrip("0")
    number = int(digits) if 1 <= len(digits) <= len(str(most)) else 0
    return number if 1 <= number <= most else None


def qualified(element: etree._Element) -> tuple[str | None, str]:
    """The namespace and name of the identity in a leaf, by the prefixes in scope there."""
    text = text_of(element)
    prefix, colon, name = text.rpartition(":")
    return element.nsmap.get(prefix if colon else None), name


def datastore_name(
    element: etree._Element, of: str, among: Sequence[str], *, by_identity: bool = False
) -> str:
    """The datastore an element inside <source> or <target> names.

    An empty one such as <running/>; `by_identity`, also the <datastore> of RFC 8526 section 3.2.
    """
    name = etree.QName(element)
    if by_identity and name.namespace == NMDA and name.localname == "datastore":
        return datastore_identity(element, among)
    if name.namespace == BASE and name.localname in among:
        return name.localname
    if name.namespace == BASE and name.localname == "url":
        # Without the capability :url the schema has no such choice.
        raise unknown_element("url", of=of)
    hint = " (it changes by <commit> only)" if name.localname == "running" else ""
    raise RpcError(
        "invalid-value",
        f"<{of}> is {name.localname}{hint}, expected {' or '.join(among)}",
        "protocol",
        info={"bad-element": name.localname},
    )


def datastore_identity(element: etree._Element, among: Sequence[str]) -> str:
    """The datastore whose identity (RFC 8342) the element holds."""
    namespace, name = qualified(element)
    if namespace != IETF_DATASTORES or name not in among:
        raise bad_element(
            "datastore", text_of(element), f"{' or '.join(among)} of namespace {IETF_DATASTORES}"
        )
    return name
