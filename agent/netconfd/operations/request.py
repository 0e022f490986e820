"""A request: the operation element taken apart, who asks, and what the server has to serve it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from lxml import etree

from agent.netconfd.confirmed_commit import Commits
from agent.netconfd.errors import BASE, RpcError, bad_element, missing_element, unknown_element
from agent.netconfd.session import Session, Sessions

MAX_UINT32 = 4_294_967_295

DATASTORES = ("running", "candidate", "startup")


@dataclass(frozen=True)
class Services:
    """What all sessions share."""

    sessions: Sessions
    commits: Commits


@dataclass(frozen=True)
class Request:
    """One operation to perform for one session."""

    parameters: Parameters
    session: Session
    services: Services


Element = etree._Element  # noqa: SLF001  lxml has no public name for it
Operation = Callable[[Request], Awaitable[list[Element]]]
# By the tag of the operation element, "{namespace}name".
Operations = Mapping[str, Operation]


class Parameters:
    """The children of an operation element, each to be taken once."""

    def __init__(self, operation: etree._Element) -> None:
        self.operation = etree.QName(operation).localname
        self._left: dict[str, etree._Element] = {}
        for child in operation:
            if child.tag in self._left:
                name = etree.QName(child).localname
                raise RpcError(
                    "bad-element",
                    f"<{self.operation}> has more than one <{name}>",
                    "protocol",
                    info={"bad-element": name},
                )
            self._left[str(child.tag)] = child

    def element(self, name: str, namespace: str = BASE) -> etree._Element | None:
        """The child of this name, None if it was not given."""
        return self._left.pop(f"{{{namespace}}}{name}", None)

    def text(self, name: str, namespace: str = BASE) -> str | None:
        """The text of a child."""
        element = self.element(name, namespace)
        return None if element is None else (element.text or "").strip()

    def choice(self, name: str, values: Sequence[str], default: str, namespace: str = BASE) -> str:
        """The text of a child that is an enumeration."""
        text = self.text(name, namespace)
        if text is None:
            return default
        if text not in values:
            raise bad_element(name, text, " or ".join(values))
        return text

    def number(self, name: str) -> int | None:
        """The text of a child that is a positive 32-bit number."""
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_UINT32):
            raise bad_element(name, text, f"a number from 1 to {MAX_UINT32}")
        return int(text)

    def source_or_target(self, name: str) -> etree._Element:
        """The element inside <source> or <target>."""
        element = self.element(name)
        if element is None:
            raise missing_element(name, of=self.operation)
        if len(element) != 1:
            raise RpcError(
                "missing-element",
                f"<{name}> holds {len(element)} elements, expected one that names a datastore",
                "protocol",
                info={"bad-element": name},
            )
        return element[0]

    def datastore(self, name: str, among: Sequence[str] = DATASTORES) -> str:
        """The datastore named in <source> or <target>."""
        return datastore_name(self.source_or_target(name), name, among)

    def end(self) -> None:
        """Refuse what nobody asked for."""
        for child in self._left.values():
            raise unknown_element(etree.QName(child).localname, of=self.operation)


def datastore_name(element: etree._Element, of: str, among: Sequence[str]) -> str:
    """The datastore an empty element such as <running/> names."""
    name = etree.QName(element)
    if name.namespace == BASE and name.localname in among:
        return name.localname
    hint = " (it changes by <commit> only)" if name.localname == "running" else ""
    raise RpcError(
        "invalid-value",
        f"<{of}> is {name.localname}{hint}, expected {' or '.join(among)}",
        "protocol",
        info={"bad-element": name.localname},
    )
