"""Changes of a datastore: a subscription to them, and the nodes that changed."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import libyang
import sysrepo
from _sysrepo import ffi, lib
from sysrepo.errors import check_call
from sysrepo.session import SysrepoSession

from agent.sysrepo.data import get_json
from agent.sysrepo.library import LIBRARY, address

LOG = logging.getLogger(__name__)

LIBRARY.sr_get_change_diff.argtypes = [ctypes.c_void_p]
LIBRARY.sr_get_change_diff.restype = ctypes.c_void_p


class ChangeSubscription:
    """One datastore's changes of any number of modules, delivered in one thread of sysrepo's."""

    def __init__(
        self,
        connection: sysrepo.SysrepoConnection,
        datastore: str,
        on_change: Callable[[SysrepoSession], None],
    ) -> None:
        """`on_change` gets a session that describes the change and is valid until it returns."""
        self._session = connection.start_session(datastore)
        self._subscription = sysrepo.subscription.Subscription(
            lambda session, *_: on_change(session), unsafe=True
        )
        self._handle = ffi.new("sr_subscription_ctx_t **")
        self._session.subscriptions.append(self._subscription)

    def add(self, module: str) -> None:
        """Deliver the changes of this module too (`sr_module_change_subscribe`).

        The subscription is passive: it must not make running show up as applied configuration in
        operational. All modules share one handle, which the session frees when it stops.
        """
        check_call(
            lib.sr_module_change_subscribe,
            self._session.cdata,
            module.encode(),
            ffi.NULL,
            lib.srpy_module_change_cb,
            self._subscription.handle,
            0,
            lib.SR_SUBSCR_PASSIVE | lib.SR_SUBSCR_DONE_ONLY,
            self._handle,
        )
        self._subscription.cdata = self._handle[0]

    def close(self) -> None:
        """Unsubscribe and end the session."""
        self._session.stop()


def follow(session: SysrepoSession, xpath: str, use: Callable[[dict[str, Any]], None]) -> None:
    """Call `use` with the container at `xpath`, now and after each change, until the session stops.

    The container is RFC 7951 JSON and includes defaults. Later calls come from sysrepo's thread,
    soon after the commit that made the change.
    """
    module = xpath.lstrip("/").partition(":")[0]

    def read(reader: Any) -> None:
        use(get_json(reader, xpath, with_defaults=True)[xpath.lstrip("/")])

    def changed(reader: Any, event: str, _request_id: int, _private: Any) -> None:
        try:
            read(reader)
        except Exception:
            # The library would not report it; the values in force stay in force.
            LOG.exception("cannot apply the new %s (%s)", xpath, event)

    session.subscribe_module_change_unsafe(module, xpath, changed, done_only=True)
    read(session)


@contextmanager
def change_diff(session: SysrepoSession) -> Iterator[Iterable[Any]]:
    """The top nodes of the diff behind a change callback (`sr_get_change_diff`), () if none.

    `session` is that of the callback. sysrepo owns the tree. Nodes carry the metadata `operation`
    of the module yang: create, delete, replace or none.
    """
    pointer = LIBRARY.sr_get_change_diff(address(session.cdata))
    if pointer is None:
        yield ()
        return
    with session.get_ly_ctx() as context:
        node = libyang.util.ffi.cast("struct lyd_node *", pointer)
        yield libyang.DNode.new(context, node).siblings()
