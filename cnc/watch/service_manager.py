"""Notifications to systemd from a service that it started (sd_notify(3))."""

from __future__ import annotations

import os
import socket
import time

US_PER_S = 1_000_000


def notify(state: str) -> None:
    """Send `state`, such as "READY=1", to the service manager, if there is one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # A leading @ stands for the zero octet of an abstract address.
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        try:
            manager.sendto(state.encode(), path)
        except OSError:
            return


class Watchdog:
    """Reports that the process is alive, twice as often as requested (sd_watchdog_enabled(3))."""

    def __init__(self) -> None:
        asked_us = os.environ.get("WATCHDOG_USEC")
        is_ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._every_s = int(asked_us) / US_PER_S / 2 if asked_us and is_ours else None
        self._due_s = 0.0

    def alive(self) -> None:
        """Report if it is due; call this often."""
        if self._every_s is not None and time.monotonic() >= self._due_s:
            notify("WATCHDOG=1")
            self._due_s = time.monotonic() + self._every_s
