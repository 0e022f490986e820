"""The operations of RFC 6241, one function each.

A function takes its own element apart, asks the session's datastores, and returns the content of
the reply: nothing for <ok/>.
"""

from __future__ import annotations

from lxml import etree

from agent.netconfd.confirmed_commit import DEFAULT_TIMEOUT_S, Confirmation
from agent.netconfd.edits import inner_xml
from agent.netconfd.errors import BASE, RpcError, RpcErrors, bad_element, missing_element
from agent.netconfd.operations.request import (
    DATASTORES,
    Operations,
    Parameters,
    Request,
    datastore_name,
)

WITH_DEFAULTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"
# How RFC 6243 names what is shown of values equal to their default; the first one unasked.
DEFAULTS_MODES = ("explicit", "report-all", "trim")
_OTHER_MODES = ",".join(DEFAULTS_MODES[1:])
WITH_DEFAULTS_1_0 = "urn:ietf:params:netconf:capability:with-defaults:1.0"

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

# Without :writable-running, running changes by <commit> alone.
EDITABLE = ("candidate",)
REPLACEABLE = ("candidate", "startup")


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
    holder = request.services.sessions.holder(target)
    pending_owner = request.services.commits.pending_owner
    if holder is None and target == "running" and pending_owner is not session:
        holder = pending_owner
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
        holder = request.services.sessions.holder(target)
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
    await request.services.commits.commit(request.session, confirmation, persist_id)
    return []


async def _cancel_commit(request: Request) -> list[etree._Element]:
    persist_id = request.parameters.text("persist-id")
    request.parameters.end()
    await request.services.commits.cancel(request.session, persist_id)
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
    victim = request.services.sessions.get(number)
    if victim is None or victim is request.session:
        raise bad_element("session-id", str(number), "the number of another open session")
    victim.disconnect()
    return []


OPERATIONS: Operations = {
    f"{{{BASE}}}get": _get,
    f"{{{BASE}}}get-config": _get_config,
    f"{{{BASE}}}edit-config": _edit_config,
    f"{{{BASE}}}copy-config": _copy_config,
    f"{{{BASE}}}delete-config": _delete_config,
    f"{{{BASE}}}lock": _lock,
    f"{{{BASE}}}unlock": _unlock,
    f"{{{BASE}}}validate": _validate,
    f"{{{BASE}}}commit": _commit,
    f"{{{BASE}}}cancel-commit": _cancel_commit,
    f"{{{BASE}}}discard-changes": _discard_changes,
    f"{{{BASE}}}close-session": _close_session,
    f"{{{BASE}}}kill-session": _kill_session,
}
