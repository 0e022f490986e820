"""Files that others read: the old one or the new one, whoever interrupts the writing.

And what is read as a file: who reads a named pipe waits for a writer that may never come.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from cnc.errors import InputError

# Where a process finds what its shell has opened for it: a pipe, or the terminal.
_MEANT = (Path("/dev/stdin"), Path(os.devnull))
_OPENED = (Path("/dev/fd"), Path("/proc/self/fd"))


def refuse_special(path: Path) -> None:
    """Raise OSError if `path` is a pipe, a device or a socket, or is not there.

    But standard input, other descriptors by which a shell hands on a command's output, and
    /dev/null are meant to be read.
    """
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # to open a directory fails by itself
        return
    if path not in _MEANT and path.parent not in _OPENED:
        raise OSError(errno.EINVAL, "not a regular file")


def write(path: Path, text: str) -> None:
    """Make `text` the whole content of `path`, in one step and on disk.

    A symbolic link stays one, and a file keeps its mode. What is no regular file (/dev/stdout, a
    pipe) is written into.

    Raises:
        InputError: it cannot be written; what was there is still there.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            with opened_text(path) as file:
                file.write(text)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}",
            hint="name a place that has room and that you may write to",
        ) from error


@contextmanager
def opened_text(path: Path, *, newline: str | None = None) -> Iterator[TextIO]:
    """As `opened`, for text in UTF-8; `newline` as for `open`."""
    with opened(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline=newline)
        try:
            yield text
        finally:
            text.detach()


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which is at `path`, in one step and on disk, once all is written.

    If the writing is interrupted, what was there still is. A symbolic link stays one, and a file
    keeps its mode.

    Raises OSError as its writing does.
    """
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # The mode that any new file of this user has; not mkstemp's, which is for the owner alone.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if path.exists():
                os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(handle)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
