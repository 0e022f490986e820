"""Where the stream's notifications come from: every module's own, and each change of configuration.

Modules may be installed while the server runs; `refresh` takes them in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.netconfd.errors import RpcErrors
from agent.netconfd.events.config import ConfigWatch
from agent.netconfd.events.events import MODULE, Events
from agent.netconfd.events.log import NETCONF, EventLog, Stream
from agent.netconfd.store.current_library import CurrentLibrary
from agent.sysrepo import SysrepoConnection, SysrepoError
from agent.sysrepo.data import module_names
from agent.sysrepo.notifications import NotificationSubscription

LOG = logging.getLogger(__name__)

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
                LOG.debug("%s: %s", module, error)

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


class Notifications:
    """Made in a running event loop.

    Raises sqlite3.Error or SysrepoError if there can be none.
    """

    def __init__(
        self, connection: SysrepoConnection, library: CurrentLibrary, state_dir: Path
    ) -> None:
        self._library = library
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = EventLog(state_dir / "notifications.sqlite")
        self.stream = Stream(self._log)
        self.events = Events(connection, self.stream)
        self._sources = Sources(connection, self.stream, self.events, self._modules_changed)

    async def close(self) -> None:
        """Log what is still on its way, then end. All sessions must have ended."""
        await asyncio.gather(*self._tasks)
        await asyncio.to_thread(self._sources.close)
        await asyncio.to_thread(self.events.close)
        self._log.close()

    def _modules_changed(self) -> None:
        """Called in a thread of sysrepo's, from where no subscription may be changed."""
        self._loop.call_soon_threadsafe(self._start_refresh)

    def _start_refresh(self) -> None:
        task = self._loop.create_task(asyncio.to_thread(self._refresh))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refresh(self) -> None:
        try:
            self._sources.refresh()
            self.events.capability_modified(self._library.get().capability)
        except (RpcErrors, SysrepoError) as error:
            LOG.error("cannot take in the modules that changed: %s", error)
