"""What the processes of the server give up (prctl(2), setrlimit(2)).

All of it holds until the process ends, and most of it for its children. The limits bind root, too,
except the one on processes (getrlimit(2), RLIMIT_NPROC).
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_GET_SECCOMP = 21
_PR_SET_NO_NEW_PRIVS = 38

# Of 1000 (proc_pid_oom_score_adj(5)): the kernel ends these processes before the others.
_OOM_SCORE_ADJ = 500

# linux/capability.h
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITY_WORDS = 2


class _CapabilityHeader(ctypes.Structure):
    """struct __user_cap_header_struct; pid 0 is this process."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilitySets(ctypes.Structure):
    """struct __user_cap_data_struct"""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


_LIBC = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int | bytes) -> None:
    argument = value if isinstance(value, bytes) else ctypes.c_ulong(value)
    zero = ctypes.c_ulong(0)
    if _LIBC.prctl(option, argument, zero, zero, zero) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl option {option}: {os.strerror(number)}")


def set_name(name: str) -> None:
    """The name that ps and top show; 15 octets of it. Raises OSError."""
    _prctl(_PR_SET_NAME, name.encode())


def die_with(parent: int) -> None:
    """Be killed when the process `parent`, which has forked this one, ends. Raises OSError."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It ended before the kernel knew what to do then.
        os._exit(1)


def forbid_inspection() -> None:
    """No other process of this user can trace this one or read its memory. Raises OSError.

    What belongs to the user in /proc/PID belongs to root from now on. Children inherit it.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """No program that this process starts gets more rights than it has. Raises OSError."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def can_filter_system_calls() -> bool:
    """Whether this kernel was built with seccomp(2)."""
    zero = ctypes.c_ulong(0)
    return int(_LIBC.prctl(_PR_GET_SECCOMP, zero, zero, zero, zero)) >= 0


def drop_capabilities() -> None:
    """Keep none of root's capabilities, and gain none by starting a program. Raises OSError.

    What a root process may do because it owns files stays.
    """
    header = _CapabilityHeader(version=_CAPABILITY_VERSION_3)
    nothing = (_CapabilitySets * _CAPABILITY_WORDS)()
    if _LIBC.capset(ctypes.byref(header), nothing) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")


def end_first_without_memory() -> None:
    """When memory runs out, the kernel ends this process and its children before others.

    To be called before `forbid_inspection`. Where /proc is not mounted it does nothing.
    """
    with suppress(FileNotFoundError):
        path = Path("/proc/self/oom_score_adj")
        path.write_text(str(max(_OOM_SCORE_ADJ, int(path.read_text()))))


def close_all_but(descriptors: Collection[int]) -> None:
    """Close every other descriptor."""
    first = 0
    for descriptor in sorted(descriptors):
        # In CPython 3.11 an empty range that begins with 0 is every descriptor.
        if first < descriptor:
            os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def forbid_processes_and_files() -> None:
    """No new processes and threads, no octet written to a file, no core dump. Raises OSError."""
    for limit in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))


def forbid_descriptors() -> None:
    """No new descriptors: of files, sockets, pipes, received ones. Raises OSError.

    poll(2) refuses to wait for any descriptor then, and with it `settimeout` of Python's sockets;
    epoll(7) works.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


def limit_memory(octets: int) -> None:
    """At most `octets` of address space more than there is now. Reads a file; raises OSError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + octets
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def limit_cpu(seconds: int) -> None:
    """SIGXCPU ends this process once it has used `seconds` more, and up to one second.

    The limit is of whole seconds since the process began (getrlimit(2), RLIMIT_CPU).
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(usage.ru_utime + usage.ru_stime + seconds)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
