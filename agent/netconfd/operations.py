"""The protocol operations of RFC 6241, one function each.

A function takes its own element apart, asks the session's datastores, and returns the content of
the reply: nothing for <ok/>.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from lxml import etree

from agent.netconfd.confirmed_commit import DEFAULT_TIMEOUT_S, Commits, Confirmation
from agent.netconfd.edits import inner_xml
from agent.netconfd.errors import (
    BASE,
    RpcError,
    RpcErrors,
    bad_element,
    missing_element,
    unknown_element,
)
from agent.netconfd.session import Session, Sessions

WITH_DEFAULTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"
# How RFC 6243 names what is shown of values equal to their default; the first one unasked.
DEFAULTS_MODES = ("explicit", "report-all", "trim")
_OTHER_MODES = ",".join(DEFAULTS_MODES[1:])
WITH_DEFAULTS_1_0 = "urn:ietf:params:netconf:capability:with-defaults:1.0"
MAX_UINT32 = 4_294_967_295

CAPABILITIES = (
    "urn:ietf:params:netconf:base:1.0",
    "urn:ietf:params:netconf:base:1.1",
    "urn:ietf:params:netconf:capability:candidate:1.0",
    "urn:ietf:params:netconf:capability:confirmed-commit:1.1",
    "urn:ietf:params:netconf:capability:rollback-on-error:1.0",
    "urn:ietf:params:netconf:capability:validate:1.1",
    "urn:ietf:params:netconf:capability:startup:1.0",
    "urn:ietf:params:netconf:capability:xpath:1.0",
    f"{WITH_DEFAULTS_1_0}?basic-mode={DEFAULTS_MODES[0]}&also-supported={_OTHER_MODES}",
)

DATASTORES = ("running", "candidate", "startup")
# Without :writable-running, running changes by <commit> alone.
EDITABLE = ("candidate",)
REPLACEABLE = ("candidate", "startup")


@dataclass(frozen=True)
class Request:
    """An operation, who asks for it, and what the server has to serve it with."""

    parameters: Parameters
    session: Session
    sessions: Sessions
    commits: Commits


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


async def perform(
    operation: etree._Element, session: Session, sessions: Sessions, commits: Commits
) -> list[etree._Element]:
    """Do what the operation element asks for. Raises RpcError or RpcErrors."""
    name = etree.QName(operation)
    function = _OPERATIONS.get(name.localname) if name.namespace == BASE else None
    if function is None:
        raise RpcError(
            "operation-not-supported",
            f"there is no operation <{name.localname}> in namespace {name.namespace}",
            "protocol",
            info={"bad-element": name.localname},
        )
    return await function(Request(Parameters(operation), session, sessions, commits))


async def _get(request: Request) -> list[etree._Element]:
    filter_, with_defaults = _selection(request.parameters)
    session = request.session
    return [await session.call(session.datastores.get, filter_, with_defaults)]


async def _get_config(request: Request) -> list[etree._Element]:
    source = request.parameters.datastore("source")
    filter_, with_defaults = _selection(request.parameters)
    session = request.session
    return [await session.call(session.datastores.get_config, source, filter_, with_defaults)]


def _selection(parameters: Parameters) -> tuple[etree._Element | None, str]:
    filter_ = parameters.element("filter")
    with_defaults = parameters.choice(
        "with-defaults", DEFAULTS_MODES, DEFAULTS_MODES[0], WITH_DEFAULTS
    )
    parameters.end()
    return filter_, with_defaults


async def _edit_config(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    target = parameters.datastore("target", EDITABLE)
    default_operation = parameters.choice(
        "default-operation", ("merge", "replace", "none"), "merge"
    )
    test_option = parameters.choice(
        "test-option", ("test-then-set", "set", "test-only"), "test-then-set"
    )
    # An edit is one sysrepo change: the first error always undoes all of it.
    parameters.choice("error-option", ("stop-on-error", "rollback-on-error"), "stop-on-error")
    config = parameters.element("config")
    parameters.end()
    if config is None:
        raise missing_element("config", of="edit-config")
    session = request.session
    await session.call(session.datastores.edit, target, config, default_operation, test_option)
    return []


async def _copy_config(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", REPLACEABLE)
    source = request.parameters.source_or_target("source")
    request.parameters.choice("with-defaults", ("explicit",), "explicit", WITH_DEFAULTS)
    request.parameters.end()
    session = request.session
    if source.tag == f"{{{BASE}}}config":
        await session.call(session.datastores.replace, target, inner_xml(source))
        return []
    name = datastore_name(source, "source", DATASTORES)
    if name == target:
        raise bad_element("source", name, f"another datastore than the target {target}")
    await session.call(session.datastores.copy, name, target)
    return []


async def _delete_config(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", ("startup",))
    request.parameters.end()
    await request.session.call(request.session.datastores.replace, target, "")
    return []


async def _validate(request: Request) -> list[etree._Element]:
    source = request.parameters.source_or_target("source")
    request.parameters.end()
    session = request.session
    if source.tag == f"{{{BASE}}}config":
        await session.call(session.datastores.validate_config, inner_xml(source))
    else:
        name = datastore_name(source, "source", DATASTORES)
        await session.call(session.datastores.validate, name)
    return []


async def _lock(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target")
    request.parameters.end()
    session = request.session
    holder = request.sessions.holder(target)
    if holder is None and target == "running" and request.commits.pending_owner is not session:
        holder = request.commits.pending_owner
        why = f"a confirmed commit of {holder} is pending"
    else:
        why = f"{target} is locked by {holder}"
    if holder is not None:
        raise RpcError("lock-denied", why, "protocol", info={"session-id": str(holder.number)})
    try:
        await session.call(session.datastores.lock, target)
    except RpcErrors as errors:
        # Not a NETCONF session's lock, or candidate holds uncommitted changes: session-id 0.
        raise RpcError(
            "lock-denied", errors.errors[0].message, "protocol", info={"session-id": "0"}
        ) from None
    session.locks.add(target)
    return []


async def _unlock(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target")
    request.parameters.end()
    session = request.session
    if target not in session.locks:
        holder = request.sessions.holder(target)
        who = f"{holder} has" if holder else "nobody has"
        raise RpcError("operation-failed", f"{who} locked {target}", "protocol")
    await session.call(session.datastores.unlock, target)
    session.locks.discard(target)
    return []


async def _commit(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    confirmed = parameters.element("confirmed") is not None
    timeout_s = parameters.number("confirm-timeout")
    persist = parameters.text("persist")
    persist_id = parameters.text("persist-id")
    parameters.end()
    if not confirmed and (timeout_s is not None or persist is not None):
        raise missing_element("confirmed", of="commit")
    confirmation = Confirmation(timeout_s or DEFAULT_TIMEOUT_S, persist) if confirmed else None
    await request.commits.commit(request.session, confirmation, persist_id)
    return []


async def _cancel_commit(request: Request) -> list[etree._Element]:
    persist_id = request.parameters.text("persist-id")
    request.parameters.end()
    await request.commits.cancel(request.session, persist_id)
    return []


async def _discard_changes(request: Request) -> list[etree._Element]:
    request.parameters.end()
    await request.session.call(request.session.datastores.copy, "running", "candidate")
    return []


async def _close_session(request: Request) -> list[etree._Element]:
    request.parameters.end()
    request.session.closing = True
    return []


async def _kill_session(request: Request) -> list[etree._Element]:
    number = request.parameters.number("session-id")
    request.parameters.end()
    if number is None:
        raise missing_element("session-id", of="kill-session")
    victim = request.sessions.get(number)
    if victim is None or victim is request.session:
        raise bad_element("session-id", str(number), "the number of another open session")
    victim.disconnect()
    return []


_OPERATIONS: dict[str, Callable[[Request], Awaitable[list[etree._Element]]]] = {
    "get": _get,
    "get-config": _get_config,
    "edit-config": _edit_config,
    "copy-config": _copy_config,
    "delete-config": _delete_config,
    "lock": _lock,
    "unlock": _unlock,
    "validate": _validate,
    "commit": _commit,
    "cancel-commit": _cancel_commit,
    "discard-changes": _discard_changes,
    "close-session": _close_session,
    "kill-session": _kill_session,
}
