"""The schemas installed now. Reading them takes longer than a handshake, and they hardly change."""

from __future__ import annotations

import threading
from contextlib import closing

from agent.netconfd.store.datastore import Datastores
from agent.netconfd.store.schemas import Library
from agent.sysrepo import SysrepoConnection
from agent.sysrepo.library import content_id


class CurrentLibrary:
    """One reading of the YANG library for all, as long as sysrepo has these schemas."""

    def __init__(self, connection: SysrepoConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._library: Library | None = None
        self._content_id = 0

    def get(self) -> Library:
        """Whatever its user may read of them. Blocks, from any thread. May raise RpcErrors."""
        with self._lock:
            now = content_id(self._connection)
            if self._library is None or now != self._content_id:
                with closing(Datastores(self._connection)) as datastores:
                    self._library = datastores.library()
                self._content_id = now
            return self._library
