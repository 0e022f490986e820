"""What a service manager wants to hear from a process it has started (sd_notify(3))."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import Any

log = logging.getLogger(__name__)

US_PER_S = 1_000_000
# So that one that comes late does not end the process.
SIGNS_PER_TIMEOUT = 3


def notify(state: str) -> None:
    """Notify the service manager of `state`, such as "READY=1", where there is one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # A leading @ stands for the zero octet of an abstract address.
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        try:
            manager.sendto(state.encode(), path)
        except OSError as error:
            log.warning("cannot notify %s: %s", address, error)


def watchdog_interval_s() -> float | None:
    """How often to notify "WATCHDOG=1" while all is well; None if the manager has no watchdog.

    See sd_watchdog_enabled(3): WATCHDOG_PID says which process was meant.
    """
    timeout_us = os.environ.get("WATCHDOG_USEC")
    is_ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(timeout_us) / US_PER_S / SIGNS_PER_TIMEOUT if timeout_us and is_ours else None


async def stay_alive_until(*ends: asyncio.Future[Any]) -> None:
    """Notify the manager's watchdog, if it has one, until one of these is done."""
    interval_s = watchdog_interval_s()
    while True:
        done, _ = await asyncio.wait(ends, timeout=interval_s, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return
        notify("WATCHDOG=1")
