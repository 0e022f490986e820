"""NETCONF Call Home (RFC 8071): the switch connects to its clients, and reconnects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import asyncssh

from agent.netconfd.limits import Client

LOG = logging.getLogger(__name__)

DEFAULT_PORT = 4334
CONNECT_TIMEOUT_S = 30.0
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


class CallHome:
    """Keeps one connection to each client."""

    def __init__(self, call: Callable[[Client], Awaitable[Any]]) -> None:
        """`call` connects and logs the client in. Raises OSError or asyncssh.Error."""
        self._call = call
        self._tasks: dict[Client, asyncio.Task[None]] = {}

    def set_clients(self, clients: Iterable[Client]) -> None:
        """Keep connections to exactly these clients."""
        clients = set(clients)
        for client in self._tasks.keys() - clients:
            self._tasks.pop(client).cancel()
        for client in clients - self._tasks.keys():
            self._tasks[client] = asyncio.create_task(self._keep(client))

    async def close(self) -> None:
        """End all connections."""
        tasks = list(self._tasks.values())
        self.set_clients(())
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, client: Client) -> None:
        wait_s = FIRST_WAIT_S
        while True:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    connection = await self._call(client)
            except (OSError, asyncssh.Error) as error:
                LOG.warning(
                    "cannot call %s port %d, again in %g s: %s",
                    client.address,
                    client.port,
                    wait_s,
                    str(error) or type(error).__name__,
                )
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
                continue
            LOG.info("called %s port %d", client.address, client.port)
            try:
                await connection.wait_closed()
            finally:
                connection.close()
            LOG.info("the call to %s port %d ended", client.address, client.port)
            # A client that disconnects at once must not cause a busy loop.
            wait_s = FIRST_WAIT_S
            await asyncio.sleep(wait_s)
