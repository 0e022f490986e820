"""Starts programs, and removes what is left of them when whoever wanted them is gone.

    python -I keeper.py DIRECTORY SHM_PREFIX

However that one ended, the keeper's standard input ends with it; then the programs end, and
DIRECTORY and all shared memory whose name begins with SHM_PREFIX go. Before that, a line of JSON on
standard input names the programs; a line on standard output answers when all have said that they
are ready (sd_notify(3)), or what the trouble is.

It runs by itself, on the standard library, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  sysrepo's place, not a temporary file of ours
READY_TIMEOUT_S = 180.0


def main(directory: Path, shm_prefix: str) -> None:
    """Serve until standard input ends."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        with contextlib.suppress(BrokenPipeError):
            if order := sys.stdin.buffer.readline():
                trouble = _start(json.loads(order), directory.name, running)
                answer = {"pids": [each.pid for each in running], "trouble": trouble}
                sys.stdout.write(f"{json.dumps(answer)}\n")
                sys.stdout.flush()
                sys.stdin.buffer.read()
    finally:
        for program in running:
            program.kill()
        for program in running:
            program.wait()
        for segment in SHARED_MEMORY.glob(f"{shm_prefix}*"):
            segment.unlink()
        shutil.rmtree(directory)


def _start(
    programs: Sequence[Mapping[str, Any]], address: str, running: list[subprocess.Popen[bytes]]
) -> str | None:
    """Start programs, each with `name`, `argv`, `environment`, `log`; returns what went wrong."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(f"\0{address}")  # a path might be too long
        for each in programs:
            with Path(each["log"]).open("ab") as log:
                running.append(
                    subprocess.Popen(
                        each["argv"],
                        env={**os.environ, **each["environment"], "NOTIFY_SOCKET": f"@{address}"},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
        names = {r.pid: each["name"] for r, each in zip(running, programs, strict=True)}
        return _trouble(names, notified)


def _trouble(names: Mapping[int, str], notified: socket.socket) -> str | None:
    """Wait until all processes are ready; returns why they will not be, None if they are."""
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN)
    poll.register(notified, select.POLLIN)
    ends = {os.pidfd_open(pid): name for pid, name in names.items()}
    try:
        for end in ends:
            poll.register(end, select.POLLIN)
        ready = 0
        while ready < len(names):
            events = poll.poll(READY_TIMEOUT_S * 1000)
            for happened, _ in events:
                if happened in ends:
                    return f"{ends[happened]} ended"
                if happened == sys.stdin.fileno():
                    return "nobody waits for it any more"
                ready += notified.recv(4096) == b"READY=1"
            if not events:
                return f"{ready} of {len(names)} programs were ready after {READY_TIMEOUT_S:.0f} s"
    finally:
        for end in ends:
            os.close(end)
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
