"""Serves one channel: a session process, and a relay of octets as long as both are there."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent.netconfd.front.relay import Channel, Left, relay
from agent.netconfd.front.spawner import Ended, Spawner
from agent.netconfd.session_process import ProcessLimits

# How long the client may take to read what its session has sent before it ended, and the session
# process to end after it has closed its socket.
FAREWELL_S = 10.0


async def serve(
    spawner: Spawner,
    channel: Channel,
    number: int,
    session: Mapping[str, Any],
    *,
    limits: ProcessLimits,
    broker: int,
) -> Ended:
    """Hold session `number` until the client is gone or its process has ended.

    `session` is handed to the process, with the descriptor `broker`, which is closed here. When
    this returns the process has ended, and the client has been sent the last octets of the session
    unless it did not read them in time. The channel is left open. If this is cancelled, the process
    is ended.

    Raises SpawnerError, or OSError if there are no descriptors.
    """
    try:
        near, far = socket.socketpair()
    except OSError:
        os.close(broker)
        raise
    near.setblocking(False)
    with near:
        ended = await spawner.start(number, session, limits, client=far.detach(), broker=broker)
        relaying = asyncio.create_task(relay(channel, near))
        try:
            await asyncio.wait((relaying, ended), return_when=asyncio.FIRST_COMPLETED)
            # A client that has left does not wait for answers.
            if not (relaying.done() and relaying.result() is Left.CLIENT):
                await asyncio.wait((relaying, ended), timeout=FAREWELL_S)
        finally:
            spawner.kill(number)
            relaying.cancel()
            with suppress(asyncio.CancelledError):
                await relaying
        return await ended
