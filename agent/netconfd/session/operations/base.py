"""The operations of RFC 6241, one function each.

A function takes its own element apart, asks the datastores or the broker, and returns the content
of the reply: nothing for <ok/>.
"""

from __future__ import annotations

from lxml import etree

from agent.netconfd.capabilities import (
    BASIC_MODE,
    DATASTORES,
    DEFAULT_OPERATIONS,
    EDITABLE,
    REPLACEABLE,
    TEST_OPTIONS,
)
from agent.netconfd.errors import BASE, RpcError, bad_element, missing_element
from agent.netconfd.session.get import Selection
from agent.netconfd.session.operations.request import (
    Operations,
    Parameters,
    Request,
    datastore_name,
)
from agent.sysrepo.data import DEFAULTS_MODES

WITH_DEFAULTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"

ERROR_OPTIONS = ("stop-on-error", "continue-on-error", "rollback-on-error")
COPY_MODES = ("explicit", "report-all", "trim")


async def _get(request: Request) -> list[etree._Element]:
    return [await request.datastores.get(_selection(request.parameters))]


async def _get_config(request: Request) -> list[etree._Element]:
    source = request.parameters.datastore("source")
    return [await request.datastores.get_config(source, _selection(request.parameters))]


def _selection(parameters: Parameters) -> Selection:
    filter_ = parameters.element("filter")
    with_defaults = parameters.choice("with-defaults", DEFAULTS_MODES, BASIC_MODE, WITH_DEFAULTS)
    parameters.end()
    return Selection(filter_, with_defaults)


async def _edit_config(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    target = parameters.datastore("target", EDITABLE)
    default_operation = parameters.choice("default-operation", DEFAULT_OPERATIONS, "merge")
    test_option = parameters.choice("test-option", TEST_OPTIONS, "test-then-set")
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
    await request.datastores.edit(
        "edit-config",
        target,
        config,
        default_operation=default_operation,
        test_option=test_option,
    )
    return []


async def _copy_config(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", REPLACEABLE)
    source = request.parameters.source_or_target("source")
    # A datastore holds no marks: what a tagged copy would keep of them is the copy of report-all.
    with_defaults = request.parameters.choice(
        "with-defaults", COPY_MODES, BASIC_MODE, WITH_DEFAULTS
    )
    request.parameters.end()
    if source.tag == f"{{{BASE}}}config":
        await request.datastores.replace("copy-config", target, source)
        return []
    name = datastore_name(source, "source", DATASTORES)
    if name == target:
        raise bad_element("source", name, f"another datastore than the target {target}")
    if with_defaults == BASIC_MODE:
        await request.broker.call("copy", operation="copy-config", source=name, target=target)
    else:
        config = await request.datastores.whole(name, with_defaults)
        await request.datastores.replace("copy-config", target, config)
    return []


async def _delete_config(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", ("startup",))
    request.parameters.end()
    nothing = etree.Element(f"{{{BASE}}}config")
    await request.datastores.replace("delete-config", target, nothing)
    return []


async def _validate(request: Request) -> list[etree._Element]:
    source = request.parameters.source_or_target("source")
    request.parameters.end()
    if source.tag == f"{{{BASE}}}config":
        await request.datastores.validate_config(source)
    else:
        name = datastore_name(source, "source", DATASTORES, by_identity=True)
        await request.broker.call("validate", source=name)
    return []


async def _lock(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", by_identity=True)
    request.parameters.end()
    await request.broker.call("lock", target=target)
    return []


async def _unlock(request: Request) -> list[etree._Element]:
    target = request.parameters.datastore("target", by_identity=True)
    request.parameters.end()
    await request.broker.call("unlock", target=target)
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
    await request.broker.call(
        "commit",
        confirmed=confirmed,
        timeout_s=timeout_s,
        persist=persist,
        persist_id=persist_id,
    )
    return []


async def _cancel_commit(request: Request) -> list[etree._Element]:
    persist_id = request.parameters.text("persist-id")
    request.parameters.end()
    await request.broker.call("cancel-commit", persist_id=persist_id)
    return []


async def _discard_changes(request: Request) -> list[etree._Element]:
    request.parameters.end()
    await request.broker.call(
        "copy", operation="discard-changes", source="running", target="candidate"
    )
    return []


async def _close_session(request: Request) -> list[etree._Element]:
    request.parameters.end()
    request.session.is_closing = True
    # RFC 6241 section 7.8: the locks are released before the client receives the reply.
    await request.broker.call("close-session")
    return []


async def _kill_session(request: Request) -> list[etree._Element]:
    number = request.parameters.number("session-id")
    request.parameters.end()
    if number is None:
        raise missing_element("session-id", of="kill-session")
    await request.broker.call("kill-session", session_id=number)
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
