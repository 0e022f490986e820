"""A session process, from its fork to its end."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress

from agent.netconfd.data_model import DataModel
from agent.netconfd.limits import Limits
from agent.netconfd.session.broker import Broker, Gone
from agent.netconfd.session.netconf_session import NetconfSession
from agent.netconfd.session_process import SessionProcess

READ_OCTETS = 65_536


def serve(process: SessionProcess[DataModel]) -> None:
    """Serve one session until it ends."""
    asyncio.run(_serve(process))


async def _serve(process: SessionProcess[DataModel]) -> None:
    broker = Broker(takes_json=bool(process.start.get("takes_json")))
    await broker.connect(process.broker)
    transport = ClientStream()
    await transport.connect(process.client)
    process.confine()
    session = NetconfSession(
        process.number,
        transport,
        broker,
        process.shared,
        limits=Limits.from_json(process.start["limits"]),
        begin_request=process.begin_request,
    )
    try:
        capabilities = json.loads(await broker.call("capabilities"))
    except Gone:
        return
    running = asyncio.create_task(session.run(capabilities))
    await asyncio.wait((running, broker.reading), return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        # The broker has ended the session: there is nobody to answer a request.
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return
    broker.tell_ending(running.result())
    await broker.close()
    await transport.close()


class ClientStream:
    """The octets from and to the client, by way of the front."""

    is_gone = False

    async def connect(self, client: socket.socket) -> None:
        """Use this socket."""
        self._reader, self._writer = await asyncio.open_unix_connection(sock=client)

    async def read(self) -> bytes:
        """The next octets, b"" at the end."""
        try:
            return await self._reader.read(READ_OCTETS)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send; returns when the front is ready for more."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            self.is_gone = True

    async def close(self) -> None:
        """Send what is left, and end."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
