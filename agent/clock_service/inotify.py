"""Which files of a directory change (inotify(7)), without a wake-up while none does."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

# linux/inotify.h
IN_MOVED_TO, IN_DELETE, IN_CLOSE_WRITE = 0x80, 0x200, 0x8
IN_NONBLOCK, IN_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
BUFFER_OCTETS = 65536


class DirectoryWatch:
    """Readable when a file in the directory came, went or was written."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
        mask = IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(directory), mask) < 0:
            error = ctypes.get_errno()
            raise OSError(error, f"inotify: {os.strerror(error)}", str(directory))

    def fileno(self) -> int:
        return int(self._fd)

    def acknowledge(self) -> None:
        """Make it unreadable until the next change."""
        try:
            while os.read(self._fd, BUFFER_OCTETS):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        os.close(self._fd)
