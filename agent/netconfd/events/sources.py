"""Where the stream's notifications come from: every module's own, and each change of configuration.

Modules may be installed while the server runs; `refresh` takes them in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from agent.netconfd.events.config import ConfigWatch
from agent.netconfd.events.events import MODULE, Events
from agent.netconfd.events.streams import NETCONF, Stream
from agent.sysrepo import SysrepoConnection, SysrepoError
from agent.sysrepo.data import module_names
from agent.sysrepo.notifications import NotificationSubscription

log = logging.getLogger(__name__)

# sysrepo's own name for an installed, removed or updated module, and for its features.
MODULE_CHANGE = "sysrepo-notifications"


class Sources:
    """All subscriptions that feed the stream. Its calls block. They may raise SysrepoError."""

    def __init__(
        self,
        connection: SysrepoConnection,
        stream: Stream,
        events: Events,
        on_module_change: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._on_module_change = on_module_change
        self._connection = connection
        self._session = connection.start_session("operational")
        self._subscription = NotificationSubscription(self._session, self._received)
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
            modules = set(module_names(context).values())
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
        subscribers = [] if module == MODULE else [self._subscription.add]
        for subscribe in [*subscribers, *(watch.watch for watch in self._watches)]:
            try:
                subscribe(module)
            except SysrepoError as error:
                # A module without notifications or without data has nothing to subscribe to.
                log.debug("%s: %s", module, error)

    def _received(self, notification: str, module: str, time_ns: int) -> None:
        self._stream.publish(notification, time_ns)
        if module == MODULE_CHANGE:
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
