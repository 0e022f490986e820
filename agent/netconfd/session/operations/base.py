"""The operations of RFC 6241, one function each.

A function takes its own element apart, asks the session's datastores, and returns the content of
the reply: nothing for <ok/>.
"""

from __future__ import annotations

from datetime import UTC, datetime

from lxml import etree

from agent.netconfd.broker.confirmed_commit import DEFAULT_TIMEOUT_S, Confirmation
from agent.netconfd.errors import BASE, RpcError, RpcErrors, bad_element, missing_element
from agent.netconfd.session.get import BASIC_MODE, Selection
from agent.netconfd.session.operations.request import (
    DATASTORES,
    EDITABLE,
    Operations,
    Parameters,
    Request,
    datastore_name,
)
from agent.sysrepo.data import DEFAULTS_MODES

WITH_DEFAULTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"
_OTHER_MODES = ",".join(mode for mode in DEFAULTS_MODES if mode != BASIC_MODE)
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
    f"{WITH_DEFAULTS_1_0}?basic-mode={BASIC_MODE}&also-supported={_OTHER_MODES}",
)

REPLACEABLE = ("candidate", "startup")
ERROR_OPTIONS = ("stop-on-error", "continue-on-error", "rollback-on-error")
COPY_MODES = ("explicit", "report-all", "trim")


async def _get(request: Request) -> list[etree._Element]:
    selection = _selection(request.parameters)
    session = request.session
    return [await session.call(session.datastores.get, selection)]


async def _get_config(request: Request) -> list[etree._Element]:
    source = request.parameters.datastore("source")
    selection = _selection(request.parameters)
    session = request.session
    return [await session.call(session.datastores.get_config, source, selection)]


def _selection(parameters: Parameters) -> Selection:
    filter_ = parameters.element("filter")
    with_defaults = parameters.choice("with-defaults", DEFAULTS_MODES, BASIC_MODE, WITH_DEFAULTS)
    parameters.end()
    return Selection(filter_, with_defaults)


async def _edit_config(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    target = parameters.datastore("target", EDITABLE)
    default_operation = parameters.choice(
        "default-operation", ("merge", "replace", "none"), "merge"
    )
    test_option = parameters.choice(
        "test-option", ("test-then-set", "set", "test-only"), "test-then-set"
    )
    error_option = parameters.choice("error-option", ERROR_OPTIONS, "stop-on-error")
    if error_option == "continue-on-error":
        # An edit is one sysrepo change: the first error always undoes all of it.
        raise RpcError(
            "operation-not-supported",
            "an edit is applied as a whole or not at all: nothing continues after an error",
            "protocol",
            info={"bad-element": "error-option"},
        )
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
    # A datastore holds no marks: what a tagged copy would keep of them is the copy of report-all.
    with_defaults = request.parameters.choice(
        "with-defaults", COPY_MODES, BASIC_MODE, WITH_DEFAULTS
    )
    request.parameters.end()
    session = request.session
    if source.tag == f"{{{BASE}}}config":
        await session.call(session.datastores.replace, target, source)
        return []
    name = datastore_name(source, "source", DATASTORES)
    if name == target:
        raise bad_element("source", name, f"another datastore than the target {target}")
    if with_defaults == BASIC_MODE:
        await session.call(session.datastores.copy, name, target)
    else:
        selection = Selection(with_defaults=with_defaults)
        config = await session.call(session.datastores.get_config, name, selection)
        await session.call(session.datastores.replace, target, config)
    return []


async def _delete_config(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", ("startup",))
    request.parameters.end()
    session = request.session
    await session.call(session.datastores.replace, target, etree.Element(f"{{{BASE}}}config"))
    return []


async def _validate(request: Request) -> list[etree._Element]:
    source = request.parameters.source_or_target("source")
    request.parameters.end()
    session = request.session
    if source.tag == f"{{{BASE}}}config":
        await session.call(session.datastores.validate_config, source)
    else:
        name = datastore_name(source, "source", DATASTORES, by_identity=True)
        await session.call(session.datastores.validate, name)
    return []


async def _lock(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", by_identity=True)
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
    session.locks[target] = datetime.now(UTC)
    return []


async def _unlock(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", by_identity=True)
    request.parameters.end()
    session = request.session
    if target not in session.locks:
        holder = request.services.sessions.holder(target)
        reason = f"{target} is locked by {holder}" if holder else f"{target} is not locked"
        raise RpcError("operation-failed", reason, "protocol")
    await session.call(session.datastores.unlock, target)
    del session.locks[target]
    return []


async def _commit(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    confirmed = parameters.flag("confirmed")
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
    # RFC 6241 section 7.8: the locks are released before the client receives the reply.
    await request.services.commits.release(request.session)
    return []


async def _kill_session(request: Request) -> list[etree._Element]:
    number = request.parameters.number("session-id")
    request.parameters.end()
    if number is None:
        raise missing_element("session-id", of="kill-session")
    victim = request.services.sessions.get(number)
    if victim is None or victim is request.session:
        raise bad_element("session-id", str(number), "the number of another open session")
    victim.killed_by = request.session.number
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
