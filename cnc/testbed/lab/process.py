"""Processes that outlive the command that started them, identified by their namespace.

A process id may be reused; membership in one of the lab's own namespaces is unambiguous. So
every signal is sent through a pidfd, after the process was found in its namespace.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cnc.testbed.lab.namespaces import is_member, members

STOP_TIMEOUT_S = 5.0
MOVE_POLL_S = 0.001


def netns_argv(namespace: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` in a namespace, with /sys showing its interfaces."""
    return ["ip", "netns", "exec", namespace, *argv]


def spawn(namespace: str, argv: Sequence[str], *, environment: Mapping[str, str], log: Path) -> int:
    """Start a daemon in a namespace, both its outputs appended to `log`; returns its process id.

    When this returns it is in the namespace, where `stop` looks for it, or has ended.
    """
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    command = netns_argv(namespace, argv)
    pid = os.posix_spawnp(
        command[0],
        command,
        {**os.environ, **environment},
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )
    handle = os.pidfd_open(pid)
    try:
        while not is_member(pid, namespace) and not _wait([handle], MOVE_POLL_S):
            pass
    finally:
        os.close(handle)
    return pid


def stop(processes: Mapping[int, str], first: signal.Signals = signal.SIGTERM) -> None:
    """End processes (id: namespace) and wait for their end; SIGKILL for those that do not end."""
    with handles(processes) as open_handles:
        for attempt in (first, signal.SIGKILL):
            for handle in open_handles:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, attempt)
            if _wait(open_handles):
                break
    for pid in processes:
        reap(pid)


@contextlib.contextmanager
def handles(processes: Mapping[int, str]) -> Iterator[Sequence[int]]:
    """A pidfd for each process (id: namespace) whose id has not been reused."""
    with contextlib.ExitStack() as stack:
        open_handles = []
        for pid, namespace in processes.items():
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            stack.callback(os.close, handle)
            # Checked after the handle exists, which from here on identifies this process.
            if pid in members(namespace):
                open_handles.append(handle)
        yield open_handles


def reap(pid: int) -> None:
    """Let the kernel forget an ended child; a process that is not a child of this one is
    ignored."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _wait(handles: Iterable[int], timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """Whether all processes ended within the time."""
    deadline = time.monotonic() + timeout_s
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return False
    return True
