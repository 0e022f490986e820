"""Which system calls a session process can still make (seccomp(2), by libseccomp).

Without new descriptors it could still signal the other processes of its user, and rename or delete
its user's files. With this filter it computes, reads, writes and waits. Some calls can do more than
that, and are permitted with some arguments only: what arrives at a descriptor signals the process
that was made its owner (fcntl(2), F_SETOWN).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import termios

from agent.netconfd import confinement

_LIBRARY = "libseccomp.so.2"

# seccomp.h
_ALLOW = 0x7FFF_0000
_FAIL = 0x0005_0000
_EQUAL = 4
_MASKED_EQUAL = 7
_UNKNOWN = -1

_PERMITTED = (
    # its descriptors
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "write",
    "writev",
    "sendto",
    "sendmsg",
    "shutdown",
    "close",
    "lseek",
    "fstat",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    # memory
    "brk",
    "mmap",
    "mmap2",
    "mprotect",
    "mremap",
    "munmap",
    "madvise",
    # time, and signals to itself
    "clock_gettime",
    "clock_gettime64",
    "gettimeofday",
    "getrusage",
    "getrandom",
    "futex",
    "futex_time64",
    "sched_yield",
    "restart_syscall",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigreturn",
    "sigaltstack",
    "pause",
    "rt_sigsuspend",
    "getpid",
    "getppid",
    "gettid",
    "exit",
    "exit_group",
)


class Unavailable(Exception):
    """This machine cannot filter system calls; the text says what is missing."""


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        # With _MASKED_EQUAL, the mask; the value follows.
        ("value", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
    )


def _is(argument: int, value: int) -> _Comparison:
    return _Comparison(argument, _EQUAL, value)


def _is_without(argument: int, mask: int) -> _Comparison:
    return _Comparison(argument, _MASKED_EQUAL, mask, 0)


# Whether an operation waits; no signals for what arrives (O_ASYNC).
_GET_FLAGS = (_is(1, fcntl.F_GETFL),)
_SET_FLAGS = (_is(1, fcntl.F_SETFL), _is_without(2, os.O_ASYNC))
_PERMITTED_WITH = (
    # The limits of its own, 0, and not of another process.
    ("prlimit64", (_is(0, 0),)),
    *((name, arguments) for name in ("fcntl", "fcntl64") for arguments in (_GET_FLAGS, _SET_FLAGS)),
    ("ioctl", (_is(1, termios.FIONBIO),)),
)


class SystemCallFilter:
    """Built once, and loaded in each session process; any other call fails with EPERM there."""

    def __init__(self) -> None:
        """Raises Unavailable."""
        if not confinement.can_filter_system_calls():
            raise Unavailable("this kernel has no CONFIG_SECCOMP")
        try:
            self._library = ctypes.CDLL(_LIBRARY)
        except OSError:
            raise Unavailable(f"{_LIBRARY} is not installed") from None
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._filter = ctypes.c_void_p(self._library.seccomp_init(_FAIL | errno.EPERM))
        if not self._filter:
            raise Unavailable(f"{_LIBRARY} does not know this machine")
        for name in _PERMITTED:
            self._permit(name)
        for name, arguments in _PERMITTED_WITH:
            self._permit(name, *arguments)

    def load(self) -> None:
        """From now on no other system call, in this process. Raises OSError."""
        _check(self._library.seccomp_load(self._filter))

    def _permit(self, name: str, *arguments: _Comparison) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        # Not every machine has all of them.
        if number != _UNKNOWN:
            _check(
                self._library.seccomp_rule_add_array(
                    self._filter,
                    ctypes.c_uint32(_ALLOW),
                    number,
                    len(arguments),
                    (_Comparison * len(arguments))(*arguments),
                )
            )


def _check(outcome: int) -> None:
    if outcome < 0:
        raise OSError(-outcome, f"system call filter: {os.strerror(-outcome)}")
