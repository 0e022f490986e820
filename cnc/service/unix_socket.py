"""Unix sockets that the service listens on."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def bound(path: Path, group: int | None, kind: socket.SocketKind) -> socket.socket:
    """A socket at `path`, which is its owner's alone from its first instant, and then for a group,
    too. What a process left there that was killed is taken away. Raises OSError."""
    path.unlink(missing_ok=True)
    its = socket.socket(socket.AF_UNIX, kind)
    try:
        before = os.umask(0o177)
        try:
            its.bind(str(path))
        finally:
            os.umask(before)
        if group is not None:
            os.chown(path, -1, group)
            path.chmod(0o660)
        its.setblocking(False)
    except BaseException:
        its.close()
        raise
    return its
