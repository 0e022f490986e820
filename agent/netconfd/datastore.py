"""One NETCONF session's hold on sysrepo: blocking calls, all made from the session's own thread.

sysrepo ties locks to a session, so each NETCONF session has one sysrepo session for its life and
switches it between datastores. Sessions run with the server's own rights: access control (NACM) is
not applied yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import libyang
import sysrepo
from lxml import etree

from agent.netconfd import edits, filters, refusals
from agent.netconfd.errors import BASE

# A subscriber's kernel work must fit; sysrepo's own default is 5 s.
CHANGE_TIMEOUT_MS = 20_000
READ_TIMEOUT_MS = 5_000


class Datastores:
    """The datastores as one session sees them. Not thread-safe. Every call may raise RpcErrors."""

    def __init__(self, connection: sysrepo.SysrepoConnection) -> None:
        self._session = connection.start_session("running")

    def close(self) -> None:
        """End the sysrepo session; its locks go with it."""
        self._session.stop()

    def content_id(self) -> str:
        """YANG library's name for the set of modules installed now."""
        path = "/ietf-yang-library:yang-library/content-id"
        with self._in("operational"), self._read(path) as data:
            return str(data.find_path(path).value())

    def get_config(
        self, source: str, filter_: etree._Element | None, with_defaults: str
    ) -> etree._Element:
        """The configuration of a datastore, filtered, as <data>."""
        xpath = self._xpath(filter_)
        if xpath is None:
            return _data("")
        with self._in(source), self._read(xpath) as data:
            return _data(_print(data, with_defaults))

    def get(self, filter_: etree._Element | None, with_defaults: str) -> etree._Element:
        """The running configuration and, merged into it, the state, filtered, as <data>."""
        xpath = self._xpath(filter_)
        if xpath is None:
            return _data("")
        with self._in("running") as session, self._read(xpath) as config:
            session.switch_datastore("operational")
            # Configuration comes from running: operational has only what a subscriber owns.
            with self._read(xpath, no_config=True) as state:
                return _data(_print_merged(config, state, with_defaults))

    def edit(
        self, target: str, config: etree._Element, default_operation: str, test_option: str
    ) -> None:
        """Apply the edit in <config> as a whole, or not at all."""
        with self._session.get_ly_ctx() as context:
            try:
                with self._in(target) as session:
                    tree = edits.parse(context, config, namespaces(context))
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
                # A refused edit stays in the sysrepo session until it is thrown away.
                self._session.discard_changes()

    def replace(self, target: str, config: str) -> None:
        """Make the datastore hold exactly this XML configuration; subscribers may refuse."""
        with self._in(target) as session, session.get_ly_ctx() as context:
            tree = context.parse_data_mem(config, "xml", parse_only=True, strict=True)
            # sysrepo frees the tree.
            session.replace_config_ly(tree, None, CHANGE_TIMEOUT_MS)

    def validate_config(self, config: str) -> None:
        """YANG validation of a configuration that is in no datastore."""
        with self._in("running") as session, session.get_ly_ctx() as context:
            tree = context.parse_data_mem(
                config, "xml", strict=True, no_state=True, validate_multi_error=True
            )
            if tree is not None:
                tree.free()

    def copy(self, source: str, target: str) -> None:
        """Make one datastore equal to another; subscribers of running may refuse."""
        with self._in(target) as session:
            session.copy_config(source, timeout_ms=CHANGE_TIMEOUT_MS)

    def validate(self, source: str) -> None:
        """YANG validation of a datastore; subscribers are not asked."""
        with self._in(source) as session:
            session.validate()

    def snapshot(self) -> str:
        """All running configuration as XML."""
        with self._in("running"), self._read(filters.EVERYTHING) as data:
            return _print(data, "explicit")

    def lock(self, target: str) -> None:
        """Lock a whole datastore."""
        with self._in(target) as session:
            session.lock()

    def unlock(self, target: str) -> None:
        """Give the lock back."""
        with self._in(target) as session:
            session.unlock()

    @contextmanager
    def _in(self, datastore: str) -> Iterator[Any]:
        self._session.switch_datastore(datastore)
        try:
            yield self._session
        except (sysrepo.SysrepoError, libyang.LibyangError) as error:
            # Read before any further call on the session overwrites it.
            items = refusals.items_of(self._session, error)
            with self._session.get_ly_ctx() as context:
                modules = {name: namespace for namespace, name in namespaces(context).items()}
            raise refusals.to_rpc_errors(items, modules) from None

    @contextmanager
    def _read(self, xpath: str, **options: bool) -> Iterator[Any]:
        """The selected trees, or None if there is no such node."""
        with ExitStack() as stack:
            try:
                data = stack.enter_context(
                    self._session.get_data_ly(xpath, timeout_ms=READ_TIMEOUT_MS, **options)
                )
            except sysrepo.SysrepoNotFoundError:
                data = None
            yield data if data is not None and data.cdata else None

    def _xpath(self, filter_: etree._Element | None) -> str | None:
        with self._session.get_ly_ctx() as context:
            return filters.to_xpath(filter_, namespaces(context))


def namespaces(context: Any) -> dict[str, str]:
    """Namespace to name, of every module that may hold data."""
    return {
        libyang.util.c2str(module.cdata.ns): module.name()
        for module in context
        if module.implemented()
    }


def _data(xml: str) -> etree._Element:
    return etree.fromstring(f'<data xmlns="{BASE}">{xml}</data>')


def _print(data: Any, with_defaults: str) -> str:
    if data is None:
        return ""
    text = data.print_mem(
        "xml",
        with_siblings=True,
        pretty=False,
        include_implicit_defaults=with_defaults == "report-all",
        trim_default_values=with_defaults == "trim",
    )
    return str(text or "")


def _print_merged(config: Any, state: Any, with_defaults: str) -> str:
    if config is None or state is None:
        return _print(config or state, with_defaults)
    # sysrepo owns what it handed out.
    merged = config.duplicate(with_siblings=True, recursive=True, with_flags=True)
    try:
        merged.merge(state, with_siblings=True, with_flags=True)
        return _print(merged, with_defaults)
    finally:
        merged.free()
