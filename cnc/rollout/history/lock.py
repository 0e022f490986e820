"""The lock of a rollout's controller, which the kernel releases when its process ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Self

_PROBE_TIMEOUT_S = 1.0
_PROBE_INTERVAL_S = 0.01


class ControllerLock:
    """An exclusive flock(2) on a file that names its process, until released or the process ends.

    Raises BlockingIOError while another process holds it, and OSError if the file cannot be
    created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "a+", opener=_private)  # noqa: SIM115
        try:
            _lock(self._file.fileno())
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n")
            self._file.flush()
        except BaseException:
            self._file.close()
            raise

    def release(self) -> None:
        """Release the lock; another process can acquire it."""
        self._file.close()

    def remove(self) -> None:
        """Release the lock and remove its file, when the rollout has ended."""
        if not self._file.closed:
            self._path.unlink(missing_ok=True)
            self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock on `path`."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def holder(path: Path) -> str:
    """Id of the process that holds, or last held, the lock on `path`."""
    return path.read_text().strip()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _lock(descriptor: int) -> None:
    """Lock, retrying while another process probes with `is_held`, which holds the lock for an
    instant."""
    deadline_s = time.monotonic() + _PROBE_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_PROBE_INTERVAL_S)
        else:
            return
