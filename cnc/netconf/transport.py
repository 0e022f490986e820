"""An SSH session of ncclient that sends at once, and wakes only when there is something to read.

ncclient's own sends from a thread that looks every TICK seconds whether there is something to send:
a short tick makes every session that merely waits cost a percent of a core, all of them in one
interpreter; a long one delays every RPC.
"""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any

from ncclient import manager
from ncclient.transport import SSHSession
from ncclient.transport.errors import TransportError
from ncclient.transport.session import NetconfBase

LOG = logging.getLogger(__name__)

END_OF_MESSAGE = b"]]>]]>"  # RFC 6242 4.3
END_OF_CHUNKS = b"\n##\n"  # RFC 6242 4.2


def open_session(*, timeout_s: float, **where: Any) -> manager.Manager:
    """What `manager.connect` does, over a prompt session; `where` is for `SSHSession.connect`.

    `timeout_s` is how long to wait for a connection, and for each reply. Raises OSError, and what
    ncclient and paramiko raise.
    """
    handler = manager.make_device_handler(None)
    session = PromptSession(handler, timeout_s)
    connected = socket.create_connection((where["host"], where["port"]), timeout_s)
    # Or the kernel keeps a short message back until the peer has acknowledged the one before it,
    # which that does after 40 ms where it has nothing to say itself (RFC 896, RFC 1122 4.2.3.2).
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        session.connect(**where, sock=connected, timeout=timeout_s)
    except BaseException:
        if session.transport:
            session.close()
        connected.close()
        raise
    return manager.Manager(session, handler, timeout=timeout_s)


class PromptSession(SSHSession):  # type: ignore[misc]  # ncclient has no types
    """One session. `timeout_s`: how long a peer that reads nothing may hold up a message."""

    def __init__(self, device_handler: Any, timeout_s: float) -> None:
        super().__init__(device_handler)
        self._timeout_s = timeout_s
        self._sending = threading.Lock()

    def send(self, message: str) -> None:
        """Send now. Raises TransportError or OSError."""
        if not self.connected:
            raise TransportError("not connected")
        LOG.debug("to %s: %s", self._host, message)
        octets = message.encode()
        if self._base == NetconfBase.BASE_11:
            framed = b"\n#%d\n%b%b" % (len(octets), octets, END_OF_CHUNKS)
        else:
            framed = octets + END_OF_MESSAGE
        with self._sending:
            self._channel.settimeout(self._timeout_s)
            self._channel.sendall(framed)

    def _dispatch_message(self, raw: str) -> None:
        LOG.debug("from %s: %s", self._host, raw)
        super()._dispatch_message(raw)

    def load_known_hosts(self, filename: str | None = None) -> None:
        """Read none: the one key to accept is given with the connection."""
