"""Notifications of other programs, as XML and with the time to the nanosecond."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import libyang
import sysrepo
from _sysrepo import ffi, lib
from sysrepo.errors import check_call
from sysrepo.session import SysrepoSession

LOG = logging.getLogger(__name__)

# XML of the notification's element, name of its module, nanoseconds since 1970 (UTC).
OnNotification = Callable[[str, str, int], None]


class NotificationSubscription:
    """The notifications of any number of modules, delivered in one thread of sysrepo's."""

    def __init__(self, session: SysrepoSession, on_notification: OnNotification) -> None:
        """Lives as long as the session, which frees the subscription's handle when it stops."""
        self._session = session
        self._subscription = sysrepo.subscription.Subscription(on_notification)
        self._handle = ffi.new("sr_subscription_ctx_t **")
        session.subscriptions.append(self._subscription)

    def add(self, module: str) -> None:
        """Deliver the notifications of this module too (`sr_notif_subscribe_tree`).

        Raises SysrepoError for a module without notifications.
        """
        check_call(
            lib.sr_notif_subscribe_tree,
            self._session.cdata,
            module.encode(),
            *(ffi.NULL, ffi.NULL, ffi.NULL),
            lib.srpy_event_notif_tree_cb,
            self._subscription.handle,
            0,
            self._handle,
        )
        self._subscription.cdata = self._handle[0]


@ffi.def_extern(name="srpy_event_notif_tree_cb")  # type: ignore[untyped-decorator]
def _on_notification(
    session: Any, _number: int, _kind: int, notification: Any, time: Any, handle: Any
) -> None:
    """Replaces the callback of the bindings, which gives whole seconds and no XML.

    `sr_event_notif_tree_cb`: sysrepo owns session, tree and time.
    """
    if notification == ffi.NULL:
        return
    try:
        callback = ffi.from_handle(handle).callback
        with SysrepoSession(session, True).get_ly_ctx() as context:
            root = libyang.DNode.new(context, notification).root()
            xml, module = root.print_mem("xml", pretty=False), root.module().name()
        callback(xml, module, time.tv_sec * 10**9 + time.tv_nsec)
    except Exception:
        # Nothing may be raised into C.
        LOG.exception("a notification is lost")
