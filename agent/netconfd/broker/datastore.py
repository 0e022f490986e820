"""One NETCONF session's access to sysrepo: blocking calls, all made from the session's thread.

sysrepo ties locks to a session, so each NETCONF session has one sysrepo session for its life and
switches it between datastores. Each of these sessions has its user's rights (RFC 8341): nodes that
may not be read are left out, and nodes that may not be written are refused.

Nothing here is as a client wrote it. What to read is named by paths of schema nodes, without any
expression; a configuration was parsed, checked and printed by the libyang of the session process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from agent.netconfd import sysrepo_errors
from agent.netconfd.broker.access import access_denied
from agent.netconfd.broker.data_access import ALL_RIGHTS, DataAccess, DataRights, steps_of
from agent.netconfd.broker.edit_access import find_refused
from agent.netconfd.broker.schemas import LIBRARY_PATH, Library
from agent.netconfd.errors import RpcError, RpcErrors
from agent.netconfd.wire import ProtocolError
from agent.netconfd.xpath import literal
from agent.sysrepo import (
    Context,
    LibyangError,
    SysrepoConnection,
    SysrepoError,
    SysrepoUnauthorizedError,
)
from agent.sysrepo.data import (
    NO_CONFIG,
    NO_STATE,
    WITH_ORIGIN,
    get_data,
    module_names,
    parse_notification,
    print_lyb,
    print_xml,
)
from agent.sysrepo.edits import nodes_of
from agent.sysrepo.errors import UNAUTHORIZED, Item, items_of
from agent.sysrepo.instances import Instances, Step
from agent.sysrepo.nacm import check_access, set_nacm_user
from agent.sysrepo.operations import Operation, parse_operation, send
from agent.sysrepo.originator import Originator, set_originator

# Time for a subscriber's work in the kernel; sysrepo's default is 5 s.
CHANGE_TIMEOUT_MS = 20_000
# Source and target. RFC 8341 asks for no access to their data (sections 3.2.6 and 3.2.9).
UNRESTRICTED_COPIES = (("running", "startup"), ("running", "candidate"))
# The source line of an internal error; its directories are those of the build machine.
_SOURCE_LINE = re.compile(r"(?<=Internal error \()/(?:[^/()]*/)*")

EVERYTHING = "/*"
# In what libyang makes of its context (`ly_ctx_get_yanglib_data`) for sysrepo.
_FILES = (
    "/ietf-yang-library:yang-library//ietf-yang-library:location",
    "/ietf-yang-library:modules-state//ietf-yang-library:schema",
)
# RFC 6470, section 2.2.
CONFIG_CHANGE = "netconf-config-change"
# Sysrepo evaluates no expression of a client's, but names, and keys that equal a constant.
_NAME = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.-]*:)?[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
# It would write startup, and the server could not keep a copy of what was there before.
_NOT_EXECUTED = frozenset({"ietf-factory-default:factory-reset"})
# Of paths in one read. Beyond it, everything is read.
MAX_PATHS = 256


@dataclass(frozen=True)
class Read:
    """What to read for one request, before the client's filter.

    `instances` as `agent.sysrepo.instances` has them, None: everything. `merges_state`: running
    with the state, whatever `datastore` says. `config` is True for configuration only, False for
    state only. Raises ProtocolError for a name that is none.
    """

    datastore: str
    instances: Sequence[Instances] | None
    merges_state: bool = False
    config: bool | None = None
    with_origin: bool = False

    def __post_init__(self) -> None:
        for path in self.instances or ():
            for step in path:
                if not all(map(_NAME.fullmatch, (step.name, *dict(step.keys)))):
                    raise ProtocolError("a path has a step without a name")

    @property
    def xpath(self) -> str:
        """The union of the paths."""
        if self.instances is None or len(self.instances) > MAX_PATHS:
            return EVERYTHING
        return " | ".join("".join(map(_step, path)) for path in self.instances)


class Datastores:
    """The datastores as one session sees them. Not thread-safe. Every call may raise RpcErrors."""

    def __init__(
        self,
        connection: SysrepoConnection,
        user: str | None = None,
        rights: Callable[[], DataRights] = lambda: ALL_RIGHTS,
    ) -> None:
        """`user`: whose rights these are, None for the server's own. Raises SysrepoError.

        `rights` is what that user may do with data now.
        """
        self._user = user
        self._rights = rights
        self._session = connection.start_session("running")
        set_nacm_user(self._session, user)

    def close(self) -> None:
        """End the sysrepo session, which releases its locks."""
        self._session.stop()

    def identify(self, number: int, user: str, peer: str) -> None:
        """Attach the NETCONF session to this session's changes, for subscribers."""
        set_originator(self._session, Originator(number, user, peer))

    def library(self) -> Library:
        """The installed schemas, read now, without access control."""
        with (
            self._unrestricted(),
            self._in("operational") as session,
            get_data(session, LIBRARY_PATH) as library,
        ):
            return Library(print_xml(library, "explicit"))

    def read(self, what: Read) -> bytes:
        """The data that the user may read, as LYB with implicit defaults; b"" for none."""
        if what.instances is not None and not what.instances:
            return b""
        if what.merges_state:
            return self._running_with_state(what.xpath)
        if what.datastore == "operational":
            options = WITH_ORIGIN if what.with_origin else 0
            if what.config is not None:
                options |= NO_STATE if what.config else NO_CONFIG
            with (
                self._in("operational") as session,
                get_data(session, what.xpath, options=options) as tree,
            ):
                return print_lyb(_without_files(tree))
        with self._in(what.datastore) as session, get_data(session, what.xpath) as config:
            return print_lyb(config)

    def _running_with_state(self, xpath: str) -> bytes:
        with self._in("running") as session, get_data(session, xpath) as config:
            session.switch_datastore("operational")
            # Configuration comes from running: operational has only what a subscriber owns.
            with get_data(session, xpath, options=NO_CONFIG) as state:
                _without_files(state)
                if config is not None and state is not None:
                    config.merge(state, with_siblings=True, with_flags=True)
                return print_lyb(config or state)

    def edit(
        self, target: str, xml: str, default_operation: str, test_option: str, *, opaque: bool
    ) -> None:
        """Apply the edit as a whole, or not at all.

        `opaque`: it deletes leaves without naming their value, which only a tree with opaque nodes
        can hold.
        """
        with self._session.get_ly_ctx() as context:
            try:
                with self._in(target) as session:
                    tree = context.parse_data_mem(
                        xml, "xml", parse_only=True, strict=True, opaq=opaque
                    )
                    if tree is None:
                        return
                    try:
                        self._check_edit(context, tree, default_operation)
                        session.edit_batch_ly(tree, default_operation)
                    finally:
                        tree.free()
                    if test_option != "set":
                        session.validate()
                    if test_option != "test-only":
                        session.apply_changes(CHANGE_TIMEOUT_MS)
            finally:
                # A refused edit stays in the sysrepo session until it is discarded.
                self._session.discard_changes()

    def replace(self, target: str, xml: str) -> None:
        """Replace the datastore's content; subscribers may refuse."""
        with self._in(target):
            self._replace(xml)

    def copy(self, source: str, target: str) -> None:
        """Make one datastore equal to another; subscribers of running may refuse."""
        with ExitStack() as stack:
            if (source, target) in UNRESTRICTED_COPIES:
                stack.enter_context(self._unrestricted())
            session = stack.enter_context(self._in(target))
            session.copy_config(source, timeout_ms=CHANGE_TIMEOUT_MS)

    def validate(self, source: str) -> None:
        """YANG validation of a datastore; subscribers are not asked."""
        with self._in(source) as session:
            session.validate()

    def snapshot(self) -> str:
        """All running configuration as XML, without access control."""
        with (
            self._unrestricted(),
            self._in("running") as session,
            get_data(session, EVERYTHING) as config,
        ):
            return print_xml(config, "explicit")

    def restore(self, snapshot: str) -> None:
        """Restore running from a snapshot, without access control; subscribers may refuse."""
        with self._unrestricted(), self._in("running"):
            self._replace(snapshot)

    def execute(self, xml: str) -> str:
        """Have who has subscribed to a module's RPC or action perform it; returns its output.

        Raises RpcError if the user may not execute it, or nobody performs it.
        """
        with self._in("operational") as session, session.get_ly_ctx() as context:
            operation = parse_operation(context, xml)
            try:
                self._check_execution(operation)
                return send(session, operation, CHANGE_TIMEOUT_MS)
            finally:
                operation.top.free()

    def _check_execution(self, operation: Operation) -> None:
        try:
            check_access(self._session, operation.top)
        except SysrepoUnauthorizedError:
            raise access_denied(f"{self._user}", operation.name) from None
        if operation.name in _NOT_EXECUTED:
            raise RpcError(
                "operation-not-supported",
                f"{operation.name} would change startup without this server, which keeps a copy of "
                "it: use copy-config or delete-config",
                "protocol",
            )

    def lock(self, target: str) -> None:
        """Lock a whole datastore."""
        with self._in(target) as session:
            session.lock()

    def unlock(self, target: str) -> None:
        """Release the lock."""
        with self._in(target) as session:
            session.unlock()

    def receivable(self, notification: str) -> str | None:
        """What the user may receive of a notification; None if nothing is left of it.

        Refuses (access-denied) what the user may not receive at all. A netconf-config-change is
        without the edits of nodes that the user may not read.
        """
        with self._in("running") as session, session.get_ly_ctx() as context:
            tree = parse_notification(context, notification)
            try:
                check_access(session, tree)
                if tree.name() != CONFIG_CHANGE:
                    return notification
                return _with_readable_edits(tree, DataAccess(context, self._rights()))
            finally:
                tree.free()

    def _check_edit(self, context: Context, tree: Any, default_operation: str) -> None:
        refused = find_refused(
            DataAccess(context, self._rights()), nodes_of(tree), default_operation
        )
        if refused is not None:
            text = (
                f"access control (NACM) does not let {self._user} edit this: to edit what a user "
                "may not read needs the rights create, update and delete"
            )
            raise sysrepo_errors.to_rpc_errors(
                [Item(UNAUTHORIZED, text, refused)], _modules_of(context)
            )

    def _replace(self, xml: str) -> None:
        with self._session.get_ly_ctx() as context:
            tree = context.parse_data_mem(xml, "xml", parse_only=True, strict=True)
            # sysrepo frees the tree.
            self._session.replace_config_ly(tree, None, CHANGE_TIMEOUT_MS)

    @contextmanager
    def _unrestricted(self) -> Iterator[None]:
        """Without access control, in the session that holds the lock."""
        set_nacm_user(self._session, None)
        try:
            yield
        finally:
            set_nacm_user(self._session, self._user)

    @contextmanager
    def _in(self, datastore: str) -> Iterator[Any]:
        self._session.switch_datastore(datastore)
        try:
            yield self._session
        except (SysrepoError, LibyangError) as error:
            # Read before any further call on the session overwrites it.
            items = [
                item._replace(text=_SOURCE_LINE.sub("", item.text))
                for item in items_of(self._session, error)
            ]
            with self._session.get_ly_ctx() as context:
                errors = sysrepo_errors.to_rpc_errors(items, _modules_of(context)).errors
                shown = [self._without_hidden(context, each) for each in errors]
            raise RpcErrors(shown) from None

    def _without_hidden(self, context: Context, error: RpcError) -> RpcError:
        """The error as the user may have it: it exposes no data that may not be read."""
        access = DataAccess(context, self._rights())
        if error.path is None or access.may_read(steps_of(error.path)):
            return error
        # The text of a denial names the module, and no data.
        text = error.message
        if error.tag != "access-denied":
            text = f"data that access control (NACM) hides from {self._user} is not valid"
        return RpcError(error.tag, text, app_tag=error.app_tag)


def _without_files(state: Any) -> Any:
    """The state without where libyang found the modules, which it tells as file:// of this machine.

    RFC 8525 has URLs there that a client can fetch; here `get-schema` gives the text.
    """
    if state is not None:
        for leaf in [leaf for path in _FILES for leaf in state.find_all(path)]:
            leaf.free(with_siblings=False)
    return state


def _with_readable_edits(change: Any, access: DataAccess) -> str | None:
    edits = [child for child in change.children() if child.name() == "edit"]
    hidden = [
        edit
        for edit in edits
        for leaf in edit.children()
        if leaf.name() == "target" and not access.may_read(steps_of(leaf.value()))
    ]
    for edit in hidden:
        edit.free(with_siblings=False)
    return None if len(hidden) == len(edits) else str(change.print_mem("xml", pretty=False))


def _modules_of(context: Context) -> Mapping[str, str]:
    return {name: namespace for namespace, name in module_names(context).items()}


def _step(step: Step) -> str:
    keys = "".join(f"[{name}={literal(value)}]" for name, value in step.keys)
    return f"/{step.name}{keys}"
