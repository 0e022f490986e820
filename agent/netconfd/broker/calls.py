"""What a session process may ask of the broker, and who may have it.

Each call does what one NETCONF operation needs of sysrepo, and access control (NACM) is asked for
that operation here: a session process decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from agent.netconfd.broker.access import AccessControl
from agent.netconfd.broker.confirmed_commit import DEFAULT_TIMEOUT_S, Commits, Confirmation
from agent.netconfd.broker.current_library import CurrentLibrary
from agent.netconfd.broker.datastore import Read
from agent.netconfd.broker.memory_budget import MemoryBudget
from agent.netconfd.broker.sessions import Session, Sessions, SubscriptionParameters
from agent.netconfd.broker.subscriptions import Subscriptions, Terms
from agent.netconfd.capabilities import (
    CAPABILITIES,
    DATASTORES,
    DEFAULT_OPERATIONS,
    EDITABLE,
    REPLACEABLE,
    TEST_OPTIONS,
)
from agent.netconfd.errors import RpcError, RpcErrors, bad_element
from agent.netconfd.subscription_errors import PUSH_MODULE, SUBSCRIBED_MODULE
from agent.netconfd.wire import Fields, Message, ProtocolError
from agent.sysrepo.startup import NotStored, Startup

# The module that defines each operation, by which access control knows it.
MODULES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("get", "get-config", "edit-config", "copy-config", "delete-config", "lock"),
            *("unlock", "validate", "commit", "cancel-commit", "discard-changes"),
            *("close-session", "kill-session"),
        ),
        "ietf-netconf",
    ),
    **dict.fromkeys(("get-data", "edit-data"), "ietf-netconf-nmda"),
    "get-schema": "ietf-netconf-monitoring",
    "create-subscription": "notifications",
    **dict.fromkeys(
        (
            *("establish-subscription", "modify-subscription"),
            *("delete-subscription", "kill-subscription"),
        ),
        SUBSCRIBED_MODULE,
    ),
    "resync-subscription": PUSH_MODULE,
}
# The operations that a call may be for, if it is not named like its only one.
_OPERATIONS = {
    "read": ("get", "get-config", "get-data", "copy-config", "establish-subscription"),
    "edit": ("edit-config", "edit-data"),
    "replace": ("copy-config", "delete-config"),
    "copy": ("copy-config", "discard-changes"),
    "subscribe": ("establish-subscription",),
    "subscribe-stream": ("establish-subscription",),
    "modify-stream": ("modify-subscription",),
}

_OK = Message({"reply": True})


@dataclass(frozen=True)
class Services:
    """What all sessions share."""

    sessions: Sessions
    commits: Commits
    access: AccessControl
    library: CurrentLibrary
    budget: MemoryBudget
    subscriptions: Subscriptions
    startup: Startup
    max_confirm_timeout_s: Callable[[], int]
    # sysrepo's number for the installed modules, and what `DataModel.build` takes.
    content_id: Callable[[], int]
    modules: Callable[[], bytes]


class Calls:
    """The calls of one session, one after the other."""

    def __init__(self, session: Session, services: Services) -> None:
        self._session = session
        self._services = services
        self._functions: Mapping[str, Callable[[Fields, bytes], Awaitable[Message]]] = {
            "read": self._read,
            "edit": self._edit,
            "replace": self._replace,
            "copy": self._copy,
            "validate": self._validate,
            "lock": self._lock,
            "unlock": self._unlock,
            "commit": self._commit,
            "cancel-commit": self._cancel_commit,
            "close-session": self._close_session,
            "kill-session": self._kill_session,
            "get-schema": self._get_schema,
            "create-subscription": self._create_subscription,
            "subscribe": self._subscribe,
            "subscribe-stream": self._subscribe_stream,
            "modify-subscription": self._modify_subscription,
            "modify-stream": self._modify_stream,
            "delete-subscription": self._delete_subscription,
            "kill-subscription": self._kill_subscription,
            "resync-subscription": self._resync_subscription,
        }

    async def perform(self, name: str, fields: Fields, body: bytes) -> Message:
        """The answer to a call. Raises RpcError, RpcErrors or ProtocolError."""
        if name == "hold":
            self._services.budget.hold(self._session, fields.number("octets"))
            return _OK
        if name == "capabilities":
            modules = await self._session.call(lambda: self._services.library.get().capabilities())
            return Message({"reply": True}, json.dumps([*CAPABILITIES, *modules]).encode())
        if name == "modules":
            return Message({"reply": True}, await self._session.call(self._services.modules))
        if not fields.is_null("content_id") and (
            fields.number("content_id") != self._services.content_id()
        ):
            return Message({"other-modules": True})
        if name == "execute":
            return await self._execute(body)
        function = self._functions.get(name)
        if function is None:
            raise ProtocolError("there is no such call")
        among = _OPERATIONS.get(name, (name,))
        operation = fields.choice("operation", among) if len(among) > 1 else among[0]
        access = self._services.access
        access.check_operation(self._session.account, MODULES[operation], operation)
        try:
            return await function(fields, body)
        except RpcErrors as errors:
            access.count_refusal(errors)
            raise

    async def _execute(self, body: bytes) -> Message:
        """An RPC or action of a module: which one, and whether it is permitted, its body says."""
        session = self._session
        try:
            output = await session.call(session.datastores.execute, _text(body))
        except RpcError as error:
            if error.tag == "access-denied":
                self._services.access.count_denied_operation()
            raise
        return Message({"reply": True}, output.encode())

    async def _read(self, fields: Fields, _: bytes) -> Message:
        datastore = fields.choice("datastore", (*DATASTORES, "operational"))
        if fields.text("operation") == "establish-subscription":
            subscription = self._services.subscriptions.of(
                self._session, fields.number("subscription")
            )
            if subscription.terms.datastore != datastore:
                raise ProtocolError("a subscription is to one datastore")
        what = Read(
            datastore,
            None if fields.is_null("instances") else fields.instances("instances"),
            merges_state=fields.text("operation") == "get",
            config=fields.optional_flag("config"),
            with_origin=fields.flag("with_origin"),
        )
        session = self._session
        return Message({"reply": True}, await session.call(session.datastores.read, what))

    async def _edit(self, fields: Fields, body: bytes) -> Message:
        session = self._session
        await session.call(
            session.datastores.edit,
            fields.choice("target", EDITABLE),
            _text(body),
            fields.choice("default_operation", DEFAULT_OPERATIONS),
            fields.choice("test_option", TEST_OPTIONS),
            opaque=fields.flag("opaque"),
        )
        return _OK

    async def _replace(self, fields: Fields, body: bytes) -> Message:
        target = fields.choice("target", REPLACEABLE)
        text = _text(body)
        await self._write(
            fields.optional_text("source"),
            target,
            lambda: self._session.datastores.replace(target, text),
        )
        return _OK

    async def _copy(self, fields: Fields, _: bytes) -> Message:
        source = fields.choice("source", DATASTORES)
        target = fields.choice("target", REPLACEABLE)
        if fields.text("operation") == "discard-changes" and (source, target) != (
            "running",
            "candidate",
        ):
            raise ProtocolError("discard-changes copies running to candidate")
        await self._write(
            source,
            target,
            lambda: self._session.datastores.copy(source, target),
            is_exact=True,
        )
        return _OK

    async def _write(
        self,
        source: str | None,
        target: str,
        write: Callable[[], None],
        *,
        is_exact: bool = False,
    ) -> None:
        """Write a whole datastore; `is_exact`: it becomes equal to the source."""
        try:
            if target == "startup":
                await self._write_startup(source, write, is_exact=is_exact)
            else:
                await self._session.call(write)
        except RpcErrors as errors:
            for each in errors.errors:
                if each.tag == "access-denied":
                    each.message += (
                        f" This operation makes all of {target} equal to its source, and this is "
                        "the first difference that the user may not change"
                    )
            raise

    async def _write_startup(
        self, source: str | None, write: Callable[[], None], *, is_exact: bool
    ) -> None:
        # All else may change while it is copied.
        is_settled = source == "running"
        must_equal = source if is_exact and is_settled else None

        def write_startup() -> None:
            with self._services.startup.change(must_equal):
                write()

        try:
            async with self._services.commits.none_pending() if is_settled else nullcontext():
                await self._session.call(write_startup)
        except NotStored as error:
            raise RpcError("resource-denied", str(error)) from None

    async def _validate(self, fields: Fields, _: bytes) -> Message:
        # A configuration that is in no datastore is validated by the session process itself.
        if not fields.is_null("source"):
            source = fields.choice("source", DATASTORES)
            await self._session.call(self._session.datastores.validate, source)
        return _OK

    async def _lock(self, fields: Fields, _: bytes) -> Message:
        target = fields.choice("target", DATASTORES)
        session = self._session
        holder = self._services.sessions.holder(target)
        pending_owner = self._services.commits.pending_owner
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
        return _OK

    async def _unlock(self, fields: Fields, _: bytes) -> Message:
        target = fields.choice("target", DATASTORES)
        session = self._session
        if target not in session.locks:
            holder = self._services.sessions.holder(target)
            reason = f"{target} is locked by {holder}" if holder else f"{target} is not locked"
            raise RpcError("operation-failed", reason, "protocol")
        await session.call(session.datastores.unlock, target)
        del session.locks[target]
        return _OK

    async def _commit(self, fields: Fields, _: bytes) -> Message:
        confirmation = None
        if fields.flag("confirmed"):
            longest_s = self._services.max_confirm_timeout_s()
            timeout_s = fields.optional_number("timeout_s") or min(DEFAULT_TIMEOUT_S, longest_s)
            if timeout_s > longest_s:
                raise bad_element(
                    "confirm-timeout",
                    str(timeout_s),
                    f"at most {longest_s} s (max-confirm-timeout)",
                )
            confirmation = Confirmation(timeout_s, fields.optional_text("persist"))
        persist_id = fields.optional_text("persist_id")
        await self._services.commits.commit(self._session, confirmation, persist_id)
        return _OK

    async def _cancel_commit(self, fields: Fields, _: bytes) -> Message:
        persist_id = fields.optional_text("persist_id")
        await self._services.commits.cancel(self._session, persist_id)
        return _OK

    async def _close_session(self, _: Fields, __: bytes) -> Message:
        # RFC 6241 section 7.8: the locks are released before the client receives the reply.
        await self._services.commits.release(self._session)
        return _OK

    async def _kill_session(self, fields: Fields, _: bytes) -> Message:
        number = fields.number("session_id")
        victim = self._services.sessions.get(number)
        if victim is None or victim is self._session:
            raise bad_element("session-id", str(number), "the number of another open session")
        victim.killed_by = self._session.number
        victim.disconnect()
        return _OK

    async def _get_schema(self, fields: Fields, _: bytes) -> Message:
        name, format_ = fields.text("identifier"), fields.text("format")
        session = self._session
        library = await session.call(self._services.library.get)
        schema = library.find(name, fields.optional_text("version"))
        if format_ not in schema.formats:
            raise bad_element("format", format_, " or ".join(schema.formats))
        text = await session.call(library.text, schema, format_)
        return Message({"reply": True}, text.encode())

    async def _create_subscription(self, fields: Fields, _: bytes) -> Message:
        self._session.subscription = SubscriptionParameters(
            fields.optional_time_ns("start_ns"), fields.optional_time_ns("stop_ns")
        )
        return _OK

    async def _subscribe(self, fields: Fields, _: bytes) -> Message:
        return self._subscribed(Terms.of_datastore(fields))

    async def _subscribe_stream(self, fields: Fields, _: bytes) -> Message:
        return self._subscribed(Terms.of_stream(fields))

    def _subscribed(self, terms: Terms) -> Message:
        number = self._services.subscriptions.establish(self._session, terms)
        return Message({"reply": True}, str(number).encode())

    async def _modify_subscription(self, fields: Fields, _: bytes) -> Message:
        number = fields.number("subscription")
        self._services.subscriptions.modify(self._session, number, Terms.of_datastore(fields))
        return _OK

    async def _modify_stream(self, fields: Fields, _: bytes) -> Message:
        subscriptions, number = self._services.subscriptions, fields.number("subscription")
        start_ns = subscriptions.of(self._session, number).terms.start_ns
        terms = Terms(start_ns=start_ns, stop_ns=fields.optional_time_ns("stop_ns"))
        subscriptions.modify(self._session, number, terms)
        return _OK

    async def _delete_subscription(self, fields: Fields, _: bytes) -> Message:
        subscriptions = self._services.subscriptions
        subscription = subscriptions.of(self._session, fields.number("subscription"))
        subscriptions.end(self._session, subscription.number)
        return _OK

    async def _kill_subscription(self, fields: Fields, _: bytes) -> Message:
        self._services.subscriptions.kill(fields.number("subscription"))
        return _OK

    async def _resync_subscription(self, fields: Fields, _: bytes) -> Message:
        # The session process sends it; here is asked whether the user may have it.
        self._services.subscriptions.of(self._session, fields.number("subscription"))
        return _OK


def errors_message(errors: list[RpcError]) -> Message:
    """The answer to a call that failed."""
    return Message({"errors": [asdict(error) for error in errors]})


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(str(error)) from None
