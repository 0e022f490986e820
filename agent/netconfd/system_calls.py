"""Which system calls a session process can still make (seccomp(2), by libseccomp).

Without new descriptors it could still signal the other processes of its user, and rename or delete
its user's files. With this filter it computes, reads, writes and waits.
"""

from __future__ import annotations

import ctypes
import errno
import os

from agent.netconfd import confinement

_LIBRARY = "libseccomp.so.2"

# seccomp.h
_ALLOW = 0x7FFF_0000
_FAIL = 0x0005_0000
_EQUAL = 4
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
    "fcntl",
    "fcntl64",
    "ioctl",
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
# The limits of its own, 0, and not of another process.
_PERMITTED_ON_ITSELF = ("prlimit64",)


class Unavailable(Exception):
    """This machine cannot filter system calls; the text says what is missing."""


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
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
        on_itself = _Comparison(argument=0, operator=_EQUAL, value=0)
        for name in _PERMITTED:
            self._permit(name, 0, None)
        for name in _PERMITTED_ON_ITSELF:
            self._permit(name, 1, ctypes.byref(on_itself))

    def load(self) -> None:
        """From now on no other system call, in this process. Raises OSError."""
        _check(self._library.seccomp_load(self._filter))

    def _permit(self, name: str, count: int, comparisons: object) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        # Not every machine has all of them.
        if number != _UNKNOWN:
            _check(
                self._library.seccomp_rule_add_array(
                    self._filter, ctypes.c_uint32(_ALLOW), number, count, comparisons
                )
            )


def _check(outcome: int) -> None:
    if outcome < 0:
        raise OSError(-outcome, f"system call filter: {os.strerror(-outcome)}")
