"""What is wrong with startup (/startup-state of tsn-netconf-server), in sysrepo's operational
datastore."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack

from agent.netconfd.broker.settings import MODULE
from agent.sysrepo import SysrepoConnection
from agent.sysrepo.operational import provide
from agent.sysrepo.startup import damaged_modules

LOG = logging.getLogger(__name__)

CONTAINER = "startup-state"


class StartupState:
    """Published until `close`. Construction and `close` block."""

    def __init__(self, connection: SysrepoConnection) -> None:
        """Raises SysrepoError."""
        self._connection = connection
        if damaged := damaged_modules(connection):
            LOG.warning(
                "startup was damaged in %s and is a good copy now, which may be older: "
                "copy running to startup if the switch is to boot with what is running",
                ", ".join(damaged),
            )
        self._stack = ExitStack()
        session = self._stack.enter_context(connection.start_session("operational"))
        self._stack.enter_context(
            provide(session, MODULE, f"/{MODULE}:{CONTAINER}", self._read, merge=False)
        )

    def close(self) -> None:
        """Stop publishing. Blocks until no read is in progress."""
        self._stack.close()

    def _read(self, _xpath: str | None) -> str:
        damaged = damaged_modules(self._connection)
        return json.dumps({f"{MODULE}:{CONTAINER}": {"damaged-module": damaged}}) if damaged else ""
