"""What a worker gives up before it looks at anything that strangers send (landlock(7)).

From then on it opens no file but those of its program, starts no other, makes no TCP connection,
also not of the port that it was given, and signals and traces no process but its own. What is open
stays: the port, and the core's socket, to which a Unix socket may still connect.

A process confines itself, without privileges, so that a worker of `cnc serve` has this wall, too,
which runs as the user of the core and its files. That of `tsn-cnc-web@` has its unit's beside it.
"""

from __future__ import annotations

import ctypes
import os
import sysconfig
from collections.abc import Iterable
from importlib.resources import as_file, files
from pathlib import Path

# linux/landlock.h; the numbers of the calls are the same on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# All rights to files, to bind and connect TCP sockets, and what is scoped, by the version that
# knows them first: what is handled and not allowed is forbidden.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_NET_RIGHTS = {4: 0b11}
_SCOPED = {6: 1 << 1}
_PR_SET_NO_NEW_PRIVS = 38

_LIBC = ctypes.CDLL(None, use_errno=True)


class Unavailable(Exception):
    """This kernel has no Landlock."""


class _Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr"""

    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr"""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def confine() -> None:
    """Give all of that up, as far as this kernel knows how; for this thread and those that it
    starts. Raises Unavailable, OSError."""
    known = version()
    attributes = _Ruleset(*(_known(its, known) for its in (_FILE_RIGHTS, _NET_RIGHTS, _SCOPED)))
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    ruleset = _done(_LIBC.syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for directory in _of_program():
            _allow_reading(ruleset, directory)
        _done(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, *(ctypes.c_ulong(n) for n in (1, 0, 0, 0))))
        _done(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def version() -> int:
    """Of Landlock in this kernel: 4 knows TCP, 6 signals. Raises Unavailable."""
    found: int = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    if found < 1:
        raise Unavailable(f"this kernel has no Landlock: {os.strerror(ctypes.get_errno())}")
    return found


def _of_program() -> Iterable[str]:
    """Where modules and libraries are that it may load later. Not where it was started, as
    `sys.path` has it: that may be the home of an operator."""
    with as_file(files("cnc")) as package:
        yield str(package)
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    yield from sorted(its for its in {*found, "/usr/lib", "/lib64"} if Path(its).is_dir())


def _allow_reading(ruleset: int, directory: str) -> None:
    parent = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(_READ_FILE | _READ_DIR, parent)
        _done(_LIBC.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(parent)


def _known(rights: dict[int, int], known: int) -> int:
    return sum(its for first, its in rights.items() if first <= known)


def _done(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"landlock: {os.strerror(number)}")
    return result
