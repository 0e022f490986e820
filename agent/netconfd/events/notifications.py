"""The server's notifications as a whole: the stream, what feeds it, and who may add to it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from agent.netconfd.errors import RpcErrors
from agent.netconfd.events.events import Events
from agent.netconfd.events.log import EventLog
from agent.netconfd.events.sources import Sources
from agent.netconfd.events.streams import Stream
from agent.netconfd.store.current_library import CurrentLibrary
from agent.sysrepo import SysrepoConnection, SysrepoError

log = logging.getLogger(__name__)


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
            log.error("cannot take in the modules that changed: %s", error)
