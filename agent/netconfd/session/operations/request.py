"""A request: the operation's parameters, and what it may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

from agent.netconfd import date_and_time
from agent.netconfd.data_model import DataModel
from agent.netconfd.errors import bad_element, missing_element
from agent.netconfd.session.broker import Broker
from agent.netconfd.session.datastore import Datastores
from agent.netconfd.session.notifications import Filter
from agent.netconfd.session.subscriptions import Subscriptions

Element = etree._Element  # noqa: SLF001  lxml has no public name for it


@dataclass
class Session:
    """What an operation may change of its session."""

    is_closing: bool = False
    # None: it has no subscription.
    subscription_filter: Filter | None = None


@dataclass(frozen=True)
class Request:
    """One operation to perform for one session.

    `operation` is its element, of which the schema admits `parameters` (RFC 7951 JSON); those of a
    module that this server does not know are left in the element.
    """

    operation: Element
    parameters: Mapping[str, Any]
    session: Session
    broker: Broker
    datastores: Datastores
    model: DataModel
    subscriptions: Subscriptions
    min_push_period_cs: int

    def element(self, *path: str) -> Element | None:
        """A parameter, or what is in it, as the client wrote it; None if it was not given.

        A container that is empty does not hide a second one with content: for libyang there is no
        empty container.
        """
        return self.operation.find(_steps(path))

    def required(self, *path: str) -> Element:
        """The same where it must be given. Raises RpcError missing-element."""
        element = self.element(*path)
        if element is None:
            raise missing_element(path[-1], of=etree.QName(self.operation).localname)
        return element

    def filter(self, subtree: str, xpath: str) -> Element | None:
        """The one of these parameters that was given, as the <filter> that RFC 6241 has."""
        element = self.element(xpath)
        if element is None:
            return self.element(subtree)
        element.attrib.update({"type": "xpath", "select": (element.text or "").strip()})
        return element

    def time_ns(self, *path: str) -> int | None:
        """The date-and-time in the element at this path, in ns since 1970. Raises RpcError.

        Of what the client wrote: libyang makes the 2nd of March of a 30th of February.
        """
        text = self.operation.findtext(_steps(path))
        if text is None:
            return None
        try:
            return date_and_time.parsed(text.strip())
        except ValueError:
            expected = "a date-and-time such as 2026-11-21T14:00:00Z"
            raise bad_element(path[-1], text, expected) from None


Operation = Callable[[Request], Awaitable[list[Element]]]
# By the tag of the operation element, "{namespace}name".
Operations = Mapping[str, Operation]


def datastore_in(container: Mapping[str, Any], of: str, among: Sequence[str]) -> str:
    """The datastore in <source> or <target>: an empty element such as <running/>, or an identity.

    The identity is in the <datastore> of RFC 8526 section 3.2.
    """
    ((name, value),) = container.items()
    if name == "ietf-netconf-nmda:datastore":
        return datastore_identity(value, among)
    if name not in among:
        raise bad_element(
            of, name, " or ".join(among) or "none: this server copies to no datastore"
        )
    return name


def datastore_identity(identity: str, among: Sequence[str]) -> str:
    """The datastore of an identity of RFC 8342."""
    module, _, name = identity.partition(":")
    if module != "ietf-datastores" or name not in among:
        raise bad_element("datastore", identity, f"{' or '.join(among)} of ietf-datastores")
    return name


def _steps(path: Sequence[str]) -> str:
    """The path from the operation's element, whatever the namespaces."""
    return "/".join(f"{{*}}{name}" for name in path)
