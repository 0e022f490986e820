"""The operations of RFC 6241, one function each.

A function asks the datastores or the broker, and returns the content of the reply: nothing for
<ok/>. Its parameters are valid by the operation's YANG; what that does not say is checked here.
"""

from __future__ import annotations

from lxml import etree

from agent.netconfd.capabilities import BASIC_MODE, REPLACEABLE
from agent.netconfd.errors import BASE, RpcError, bad_element, missing_element
from agent.netconfd.session.get import Selection
from agent.netconfd.session.operations.request import Operations, Request, datastore_in

WITH_DEFAULTS = "ietf-netconf-with-defaults:with-defaults"
COPY_MODES = ("explicit", "report-all", "trim")


async def _get(request: Request) -> list[etree._Element]:
    return [await request.datastores.get(_selection(request))]


async def _get_config(request: Request) -> list[etree._Element]:
    source = datastore_in(request.parameters["source"], "source", request.model.datastores)
    return [await request.datastores.get_config(source, _selection(request))]


def _selection(request: Request) -> Selection:
    with_defaults = request.parameters.get(WITH_DEFAULTS, BASIC_MODE)
    return Selection(request.element("filter"), with_defaults)


async def _edit_config(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    target = datastore_in(parameters["target"], "target", request.model.editable)
    if parameters.get("error-option") == "continue-on-error":
        # An edit is one sysrepo change: the first error always undoes all of it.
        raise RpcError(
            "operation-not-supported",
            "an edit is applied as a whole or not at all: nothing continues after an error",
            "protocol",
            info={"bad-element": "error-option"},
        )
    await request.datastores.edit(
        "edit-config",
        target,
        request.required("config"),
        default_operation=parameters.get("default-operation", "merge"),
        test_option=parameters.get("test-option", "test-then-set"),
    )
    return []


async def _copy_config(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    replaceable = [each for each in REPLACEABLE if each in request.model.datastores]
    target = datastore_in(parameters["target"], "target", replaceable)
    with_defaults = parameters.get(WITH_DEFAULTS, BASIC_MODE)
    if with_defaults == "report-all-tagged":
        # A datastore holds no marks: what a copy would keep of them is the copy of report-all.
        raise bad_element("with-defaults", with_defaults, " or ".join(COPY_MODES))
    if "config" in parameters["source"]:
        config = request.required("source", "config")
        await request.datastores.replace("copy-config", target, config)
        return []
    source = datastore_in(parameters["source"], "source", request.model.datastores)
    if source == target:
        raise bad_element("source", source, f"another datastore than the target {target}")
    if with_defaults == BASIC_MODE:
        await request.broker.call("copy", operation="copy-config", source=source, target=target)
    else:
        config = await request.datastores.whole(source, with_defaults)
        await request.datastores.replace("copy-config", target, config, source=source)
    return []


async def _delete_config(request: Request) -> list[etree._Element]:
    target = datastore_in(request.parameters["target"], "target", ("startup",))
    nothing = etree.Element(f"{{{BASE}}}config")
    await request.datastores.replace("delete-config", target, nothing)
    return []


async def _validate(request: Request) -> list[etree._Element]:
    source = request.parameters["source"]
    if "config" in source:
        config = request.required("source", "config")
        await request.datastores.validate_config(config)
    else:
        name = datastore_in(source, "source", request.model.datastores)
        await request.broker.call("validate", source=name)
    return []


async def _lock(request: Request) -> list[etree._Element]:
    target = datastore_in(request.parameters["target"], "target", request.model.datastores)
    await request.broker.call("lock", target=target)
    return []


async def _unlock(request: Request) -> list[etree._Element]:
    target = datastore_in(request.parameters["target"], "target", request.model.datastores)
    await request.broker.call("unlock", target=target)
    return []


async def _commit(request: Request) -> list[etree._Element]:
    parameters = request.parameters
    confirmed = "confirmed" in parameters
    if not confirmed and ("confirm-timeout" in parameters or "persist" in parameters):
        raise missing_element("confirmed", of="commit")
    await request.broker.call(
        "commit",
        confirmed=confirmed,
        timeout_s=parameters.get("confirm-timeout"),
        persist=parameters.get("persist"),
        persist_id=parameters.get("persist-id"),
    )
    return []


async def _cancel_commit(request: Request) -> list[etree._Element]:
    await request.broker.call("cancel-commit", persist_id=request.parameters.get("persist-id"))
    return []


async def _discard_changes(request: Request) -> list[etree._Element]:
    await request.broker.call(
        "copy", operation="discard-changes", source="running", target="candidate"
    )
    return []


async def _close_session(request: Request) -> list[etree._Element]:
    request.session.is_closing = True
    # RFC 6241 section 7.8: the locks are released before the client receives the reply.
    await request.broker.call("close-session")
    return []


async def _kill_session(request: Request) -> list[etree._Element]:
    await request.broker.call("kill-session", session_id=request.parameters["session-id"])
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
