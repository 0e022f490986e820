"""The schemas installed now. Reading them takes longer than a handshake, and they hardly change."""

from __future__ import annotations

import threading
from contextlib import closing

from agent.netconfd.broker.datastore import Datastores
from agent.netconfd.broker.schemas import Library
from agent.sysrepo import SysrepoConnection
from agent.sysrepo.library import content_id


class CurrentLibrary:
    """A copy of the YANG library for all sessions, read again when sysrepo's modules change."""

    def __init__(self, connection: SysrepoConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._library: Library | None = None
        self._content_id = 0

    def get(self) -> Library:
        """The library, without access control. Blocks; thread-safe. May raise RpcErrors."""
        with self._lock:
            now = content_id(self._connection)
            if self._library is None or now != self._content_id:
                with closing(Datastores(self._connection)) as datastores:
                    self._library = datastores.library()
                self._content_id = now
            return self._library
