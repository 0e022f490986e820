"""Supervises programs: starts them, and ends them with the process that requested them.

    python -I supervisor.py DIRECTORY SHM_PREFIX

When that process ends, in whatever way, the supervisor's standard input ends: it then kills the
programs and removes DIRECTORY and all shared memory whose name begins with SHM_PREFIX. Before that,
a line of JSON on standard input lists the programs; the reply on standard output, also a line of
JSON, has their process ids when all have reported to be ready (sd_notify(3)), or the reason why
not. After a further line, "stay", the supervisor and the programs outlive that process: they end
with SIGTERM to the supervisor.

It needs only the standard library, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  sysrepo's directory, not a temporary file
READY_TIMEOUT_S = 180.0
STAY = b"stay\n"


def main(directory: Path, shm_prefix: str) -> None:
    """Serve until standard input ends."""
    running: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # through the `finally`
    try:
        with contextlib.suppress(BrokenPipeError):
            if request := sys.stdin.buffer.readline():
                error = _start(json.loads(request), shm_prefix, running)
                reply = {"pids": [each.pid for each in running], "error": error}
                sys.stdout.write(f"{json.dumps(reply)}\n")
                sys.stdout.flush()
                while sys.stdin.buffer.readline() == STAY:
                    signal.pause()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is under way
        for program in running:
            # All of its processes: tsn-netconfd has several.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
        for program in running:
            program.wait()
        for segment in SHARED_MEMORY.glob(f"{shm_prefix}*"):
            segment.unlink(missing_ok=True)
        shutil.rmtree(directory)


def _start(
    programs: Sequence[Mapping[str, Any]], address: str, running: list[subprocess.Popen[bytes]]
) -> str | None:
    """Start programs, each with `name`, `argv`, `environment`, `log`; returns the error, None if
    all are ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
        notifications.bind(f"\0{address}")  # a path might be too long
        for each in programs:
            with Path(each["log"]).open("ab") as log:
                running.append(
                    subprocess.Popen(
                        each["argv"],
                        env={**os.environ, **each["environment"], "NOTIFY_SOCKET": f"@{address}"},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        names = {r.pid: each["name"] for r, each in zip(running, programs, strict=True)}
        return _await_ready(names, notifications)


def _await_ready(names: Mapping[int, str], notifications: socket.socket) -> str | None:
    """Wait until all processes are ready; returns why they are not, None if they are."""
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN)
    poll.register(notifications, select.POLLIN)
    ends = {os.pidfd_open(pid): name for pid, name in names.items()}
    try:
        for end in ends:
            poll.register(end, select.POLLIN)
        ready = 0
        while ready < len(names):
            events = poll.poll(READY_TIMEOUT_S * 1000)
            for descriptor, _ in events:
                if descriptor in ends:
                    return f"{ends[descriptor]} ended"
                if descriptor == sys.stdin.fileno():
                    return "the process that started it has ended"
                ready += notifications.recv(4096) == b"READY=1"
            if not events:
                return f"{ready} of {len(names)} programs were ready after {READY_TIMEOUT_S:.0f} s"
    finally:
        for end in ends:
            os.close(end)
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
