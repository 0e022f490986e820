"""Where the stream's notifications come from: every module's own, and each change of configuration.

Modules may be installed while the server runs; `refresh` takes them in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import sysrepo
from _sysrepo import ffi, lib
from libyang import DNode

from agent.netconfd.events.config import ConfigWatch
from agent.netconfd.events.events import MODULE, Events
from agent.netconfd.events.streams import NETCONF, Stream

log = logging.getLogger(__name__)

# sysrepo's own name for an installed, removed or updated module, and for its features.
MODULE_CHANGE = "sysrepo-notifications"


class Sources:
    """All subscriptions that feed the stream. Its calls block. They may raise SysrepoError."""

    def __init__(
        self,
        connection: sysrepo.SysrepoConnection,
        stream: Stream,
        events: Events,
        on_module_change: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._on_module_change = on_module_change
        self._connection = connection
        self._session = connection.start_session("operational")
        self._subscription = sysrepo.subscription.Subscription(self._received)
        self._session.subscriptions.append(self._subscription)
        self._shared = ffi.new("sr_subscription_ctx_t **")
        self._watches = [
            ConfigWatch(connection, datastore, events.config_changed)
            for datastore in ("running", "startup")
        ]
        self._known: set[str] = set()
        self._session.subscribe_oper_data_request(
            "nc-notifications", "/nc-notifications:netconf/streams", self._streams
        )
        self.refresh()

    def refresh(self) -> None:
        """Take in the modules that are new."""
        with self._connection.get_ly_ctx() as context:
            modules = {module.name() for module in context if module.implemented()}
        for module in sorted(modules - self._known):
            self._take_in(module)
        self._known = modules

    def close(self) -> None:
        """End all subscriptions."""
        self._session.stop()
        for watch in self._watches:
            watch.close()

    def _take_in(self, module: str) -> None:
        # RFC 6470's own come from Events, which says why.
        subscribers = [] if module == MODULE else [self._subscribe]
        for subscribe in [*subscribers, *(watch.watch for watch in self._watches)]:
            try:
                subscribe(module)
            except sysrepo.SysrepoError as error:
                # A module without notifications or without data has nothing to subscribe to.
                log.debug("%s: %s", module, error)

    def _subscribe(self, module: str) -> None:
        sysrepo.errors.check_call(
            lib.sr_notif_subscribe_tree,
            self._session.cdata,
            module.encode(),
            *(ffi.NULL, ffi.NULL, ffi.NULL),
            lib.srpy_event_notif_tree_cb,
            self._subscription.handle,
            0,
            self._shared,
        )
        self._subscription.cdata = self._shared[0]

    def _received(self, context: Any, notification: Any, time_ns: int) -> None:
        root = DNode.new(context, notification).root()
        self._stream.publish(root.print_mem("xml", pretty=False), time_ns)
        if root.module().name() == MODULE_CHANGE:
            self._on_module_change()

    def _streams(self, _xpath: str, _private: object) -> dict[str, Any]:
        created = datetime.fromtimestamp(self._stream.created_ns() // 10**9, UTC)
        stream = {
            "name": NETCONF,
            "description": "All notifications of all modules of this switch",
            "replaySupport": True,
            "replayLogCreationTime": f"{created:%Y-%m-%dT%H:%M:%SZ}",
        }
        return {"netconf": {"streams": {"stream": [stream]}}}


@ffi.def_extern(name="srpy_event_notif_tree_cb")  # type: ignore[untyped-decorator]
def _on_notification(
    session: Any, _number: int, _kind: int, notification: Any, time: Any, handle: Any
) -> None:
    """Instead of the bindings' own callback, which gives whole seconds and no XML."""
    if notification == ffi.NULL:
        return
    try:
        callback = ffi.from_handle(handle).callback
        with sysrepo.session.SysrepoSession(session, True).get_ly_ctx() as context:
            callback(context, notification, time.tv_sec * 10**9 + time.tv_nsec)
    except Exception:
        # Nothing may be raised into C.
        log.exception("a notification is lost")
