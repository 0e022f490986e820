"""The sources of the event stream: every module's notifications, and changes of configuration.

Modules may be installed while the server runs; `refresh` subscribes to them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.netconfd.broker.current_library import CurrentLibrary
from agent.netconfd.broker.events.config import ConfigWatch
from agent.netconfd.broker.events.events import MODULE, Events
from agent.netconfd.broker.events.log import EventLog, Stream
from agent.netconfd.capabilities import STREAM, WATCHED
from agent.netconfd.errors import RpcErrors
from agent.sysrepo import SysrepoConnection, SysrepoError
from agent.sysrepo.data import module_names
from agent.sysrepo.notifications import NotificationSubscription

LOG = logging.getLogger(__name__)

# sysrepo's notification module for installed, removed and updated modules and features.
MODULE_CHANGE = "sysrepo-notifications"


class Sources:
    """All subscriptions that feed the stream. Calls block, and may raise SysrepoError."""

    def __init__(
        self,
        connection: SysrepoConnection,
        stream: Stream,
        events: Events,
        on_module_change: Callable[[], None],
        on_config_change: Callable[[str, Sequence[str]], None],
    ) -> None:
        self._stream = stream
        self._on_module_change = on_module_change
        self._connection = connection
        self._session = connection.start_session("operational")
        self._subscription = NotificationSubscription(self._session, self._received)

        def config_changed(
            datastore: str, changed_by: Mapping[str, Any], edits: Sequence[tuple[str, str]]
        ) -> None:
            events.config_changed(datastore, changed_by, edits)
            on_config_change(datastore, [path for path, _ in edits])

        self._watches = [
            ConfigWatch(connection, datastore, config_changed) for datastore in WATCHED
        ]
        self._known: set[str] = set()
        self._session.subscribe_oper_data_request(
            "nc-notifications", "/nc-notifications:netconf/streams", self._streams
        )
        self.refresh()

    def refresh(self) -> None:
        """Subscribe to new modules."""
        with self._connection.get_ly_ctx() as context:
            modules = set(module_names(context).values())
        for module in sorted(modules - self._known):
            self._subscribe(module)
        self._known = modules

    def close(self) -> None:
        """End all subscriptions."""
        self._session.stop()
        for watch in self._watches:
            watch.close()

    def _subscribe(self, module: str) -> None:
        # The server publishes RFC 6470's itself: see Events.
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
            "name": STREAM,
            "description": "All notifications of all modules of this switch",
            "replaySupport": True,
            "replayLogCreationTime": f"{created:%Y-%m-%dT%H:%M:%SZ}",
        }
        return {"netconf": {"streams": {"stream": [stream]}}}


class Notifications:
    """The event stream, its sources and its log. Create it in a running event loop.

    Raises sqlite3.Error or SysrepoError.
    """

    def __init__(
        self,
        connection: SysrepoConnection,
        library: CurrentLibrary,
        state_dir: Path,
        on_module_change: Callable[[], object],
        on_config_change: Callable[[str, Sequence[str]], object],
    ) -> None:
        """Both are called in the event loop: when other modules are installed, and when the
        configuration in a datastore has changed, with the paths of the nodes.
        """
        self._on_module_change = on_module_change
        self._on_config_change = on_config_change
        self._library = library
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = EventLog(state_dir / "notifications.sqlite")
        self.stream = Stream(self._log)
        self.events = Events(connection, self.stream)
        self._sources = Sources(
            connection, self.stream, self.events, self._modules_changed, self._config_changed
        )

    async def close(self) -> None:
        """Log the notifications in progress, then end. All sessions must have ended."""
        await asyncio.gather(*self._tasks)
        await asyncio.to_thread(self._sources.close)
        await asyncio.to_thread(self.events.close)
        self._log.close()

    def _modules_changed(self) -> None:
        """Called in a thread of sysrepo's, which must not change subscriptions."""
        self._loop.call_soon_threadsafe(self._start_refresh)

    def _config_changed(self, datastore: str, paths: Sequence[str]) -> None:
        """Called in a thread of sysrepo's."""
        self._loop.call_soon_threadsafe(self._on_config_change, datastore, paths)

    def _start_refresh(self) -> None:
        self._on_module_change()
        task = self._loop.create_task(asyncio.to_thread(self._refresh))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refresh(self) -> None:
        try:
            self._sources.refresh()
            self.events.capability_modified(self._library.get().capability)
        except (RpcErrors, SysrepoError) as error:
            LOG.error("cannot subscribe to the changed modules: %s", error)
