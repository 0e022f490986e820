"""One NETCONF session's access to sysrepo: blocking calls, all made from the session's thread.

sysrepo ties locks to a session, so each NETCONF session has one sysrepo session for its life and
switches it between datastores. Each of these sessions has its user's rights (RFC 8341): nodes that
may not be read are left out, and nodes that may not be written are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from lxml import etree

from agent.netconfd.broker import sysrepo_errors
from agent.netconfd.broker.schemas import LIBRARY_PATH, Library
from agent.netconfd.errors import BASE, NMDA
from agent.netconfd.session import edit_config, filters
from agent.netconfd.session.get import Selection, element_of
from agent.netconfd.session.origins import strip as strip_origins
from agent.sysrepo import (
    LibyangError,
    SysrepoConnection,
    SysrepoError,
    SysrepoLyError,
    SysrepoSysError,
)
from agent.sysrepo.data import (
    NO_CONFIG,
    NO_STATE,
    WITH_ORIGIN,
    get_data,
    module_names,
    parse_notification,
    print_xml,
)
from agent.sysrepo.errors import items_of
from agent.sysrepo.library import data_file
from agent.sysrepo.nacm import check_readable, set_nacm_user
from agent.sysrepo.originator import Originator, set_originator

# Time for a subscriber's work in the kernel; sysrepo's default is 5 s.
CHANGE_TIMEOUT_MS = 20_000
# Source and target. RFC 8341 asks for no access to their data (sections 3.2.6 and 3.2.9).
UNRESTRICTED_COPIES = (("running", "startup"), ("running", "candidate"))
# The source line of an internal error; its directories are those of the build machine.
_SOURCE_LINE = re.compile(r"(?<=Internal error \()/(?:[^/()]*/)*")


class Unreadable(Exception):
    """The file of a datastore is unreadable; the text names the file and a remedy."""


class Datastores:
    """The datastores as one session sees them. Not thread-safe. Every call may raise RpcErrors."""

    def __init__(self, connection: SysrepoConnection, user: str | None = None) -> None:
        """`user`: whose rights these are, None for the server's own. Raises SysrepoError."""
        self._user = user
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

    def get_config(self, source: str, selection: Selection) -> etree._Element:
        """The selected configuration of a datastore as <data>."""
        return element_of(self._config_xml(source, selection), selection.with_defaults, BASE)

    def get(self, selection: Selection) -> etree._Element:
        """The running configuration and, merged into it, the state, selected, as <data>."""
        xml = ""
        xpath = self._xpath(selection.filter_)
        if xpath is not None:
            with self._in("running") as session, get_data(session, xpath) as config:
                session.switch_datastore("operational")
                # Configuration comes from running: operational has only what a subscriber owns.
                with get_data(session, xpath, options=NO_CONFIG) as state:
                    self._check_selection(config or state, xpath)
                    if config is not None and state is not None:
                        config.merge(state, with_siblings=True, with_flags=True)
                    xml = print_xml(config or state, selection.with_defaults)
        return element_of(xml, selection.with_defaults, BASE)

    def get_data(self, datastore: str, selection: Selection) -> etree._Element:
        """What is selected of any datastore, as RFC 8526's <data>."""
        if datastore == "operational":
            return self._operational_data(selection)
        if selection.config is False:
            return element_of("", selection.with_defaults, NMDA)
        return element_of(self._config_xml(datastore, selection), selection.with_defaults, NMDA)

    def _config_xml(self, datastore: str, selection: Selection) -> str:
        xpath = self._xpath(selection.filter_)
        if xpath is None:
            return ""
        depth = selection.max_depth
        with self._in(datastore) as session, get_data(session, xpath, max_depth=depth) as config:
            self._check_selection(config, xpath)
            return print_xml(config, selection.with_defaults, empty_containers=depth > 0)

    def _operational_data(self, selection: Selection) -> etree._Element:
        origins = selection.origin_filters()
        options = WITH_ORIGIN if origins or selection.with_origin else 0
        if selection.config is not None:
            options |= NO_STATE if selection.config else NO_CONFIG
        with self._session.get_ly_ctx() as context:
            for filter_ in origins:
                filter_.check(context, module_names(context))
        xpath = self._xpath(selection.filter_)
        xml = ""
        if xpath is not None:
            with (
                self._in("operational") as session,
                get_data(session, xpath, max_depth=selection.max_depth, options=options) as tree,
            ):
                self._check_selection(tree, xpath)
                depth = selection.max_depth
                xml = print_xml(tree, selection.with_defaults, empty_containers=depth > 0)
        data = element_of(xml, selection.with_defaults, NMDA)
        with self._session.get_ly_ctx() as context:
            for filter_ in origins:
                filter_.select(data, context, module_names(context))
        if not selection.with_origin:
            strip_origins(data)
        return data

    def edit(
        self, target: str, config: etree._Element, default_operation: str, test_option: str
    ) -> None:
        """Apply the edit in <config> as a whole, or not at all."""
        with self._session.get_ly_ctx() as context:
            try:
                with self._in(target) as session:
                    tree = edit_config.parse(context, config, module_names(context))
                    if tree is None:
                        return
                    try:
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

    def replace(self, target: str, config: etree._Element) -> None:
        """Replace the datastore's content with <config>; subscribers may refuse."""
        with self._in(target), self._session.get_ly_ctx() as context:
            self._replace(edit_config.whole(context, config, module_names(context)))

    def validate_config(self, config: etree._Element) -> None:
        """YANG validation of a <config> that is in no datastore."""
        with self._in("running") as session, session.get_ly_ctx() as context:
            xml = edit_config.whole(context, config, module_names(context))
            tree = context.parse_data_mem(
                xml, "xml", strict=True, no_state=True, validate_multi_error=True
            )
            if tree is not None:
                tree.free()

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
        with self._unrestricted():
            return self._config_xml("running", Selection())

    def restore(self, snapshot: str) -> None:
        """Restore running from a snapshot, without access control; subscribers may refuse."""
        with self._unrestricted(), self._in("running"):
            self._replace(snapshot)

    def lock(self, target: str) -> None:
        """Lock a whole datastore."""
        with self._in(target) as session:
            session.lock()

    def unlock(self, target: str) -> None:
        """Release the lock."""
        with self._in(target) as session:
            session.unlock()

    def notification_filter(self, filter_: etree._Element | None) -> str | None:
        """The XPath of a subscription's filter, None if it can select nothing."""
        xpath = self._xpath(filter_)
        if xpath is not None:
            # Any notification shows whether libyang can evaluate it.
            self.admits(
                '<replayComplete xmlns="urn:ietf:params:xml:ns:netmod:notification"/>', xpath
            )
        return xpath

    def admits(self, notification: str, xpath: str) -> bool:
        """Whether the filter selects something in a notification; the user must have access."""
        with self._in("running") as session, session.get_ly_ctx() as context:
            tree = parse_notification(context, notification)
            try:
                check_readable(session, tree)
                return any(True for _ in tree.find_all(xpath))
            finally:
                tree.free()

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
                modules = {name: namespace for namespace, name in module_names(context).items()}
            raise sysrepo_errors.to_rpc_errors(items, modules) from None

    def _check_selection(self, tree: Any, xpath: str) -> None:
        """Refuse an expression that cannot select nodes, if it selected none."""
        if tree is None:
            with self._session.get_ly_ctx() as context:
                filters.check_selects_nodes(context, xpath)

    def _xpath(self, filter_: etree._Element | None) -> str | None:
        with self._session.get_ly_ctx() as context:
            return filters.to_xpath(filter_, module_names(context))


def check_stored(connection: SysrepoConnection) -> None:
    """Read the configuration in startup and running once, whole.

    sysrepo does not look into a file before it is asked for what is in it, and no request could be
    answered then. Raises Unreadable, or SysrepoError where the data are not to blame.
    """
    with connection.get_ly_ctx() as context:
        modules = list(module_names(context).values())
    for datastore, other in (("startup", "running"), ("running", "startup")):
        with connection.start_session(datastore) as session:
            for module in modules:
                try:
                    with get_data(session, f"/{module}:*"):
                        pass
                except (SysrepoLyError, SysrepoSysError) as error:
                    file = data_file(datastore, module)
                    raise Unreadable(
                        f"the datastore {datastore} is unreadable: {file}: {str(error)!r}. "
                        f"Put a good copy there; {other} has the same format: "
                        f"cp {data_file(other, module)} {file}"
                    ) from None
