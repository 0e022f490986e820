"""What a service manager wants to hear from a process it has started (sd_notify(3))."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Say `state`, such as "READY=1", if somebody asked to be told."""
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
