"""Files that are there whole or not at all, whatever ends the process or fills the disk."""

from __future__ import annotations

import os
from pathlib import Path

_PRIVATE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def replace(path: Path, content: bytes, *, durable: bool = True, mode: int = _PRIVATE) -> None:
    """Make `content` the file at `path`, readable for its owner alone unless `mode` says otherwise.

    A `durable` file outlives a power cut once this has returned; others cost no wait for the disk.
    Raises OSError; what was there before then is there still, unless it is the last step that
    fails, the one that makes the new content durable.
    """
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(new, _NEW, _PRIVATE), "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask is
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        # On a full disk even the part of a file is in the way.
        new.unlink(missing_ok=True)
        raise
    if durable:
        _sync(path.parent)


def remove(path: Path) -> None:
    """Remove the file for good: a power cut does not bring it back. Raises OSError."""
    path.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
