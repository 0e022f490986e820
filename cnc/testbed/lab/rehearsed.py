"""The rehearsed lab of an intent: its agents and NETCONF servers on loopback, its ports in memory.

No frame is sent, so there is nothing of it but these programs, which `lab.supervisor` looks
after until the lab goes down: no namespaces, no cables, no end stations without an agent.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zlib import crc32

from cnc.errors import InputError
from cnc.support import whole_file
from cnc.testbed.lab.supervisor import SHARED_MEMORY

_FILE = "rehearsal.json"
_STOP_TIMEOUT_S = 20.0
_POLL_S = 0.02


def is_written(directory: Path) -> bool:
    """Whether the lab with this directory is rehearsed."""
    return (directory / _FILE).exists()


def refuse(lab: str, directory: Path) -> None:
    """Refuse what needs frames, or a node to be on.

    Raises:
        InputError: the lab with this directory is rehearsed.
    """
    if is_written(directory):
        raise InputError(
            f"lab {lab} is rehearsed: its ports are in memory and carry no frames, and no node is "
            "there to run a command on",
            hint=f"`cnc lab down {lab}`, then `cnc lab up` without --rehearse, which needs root; "
            "push, status, watch, doctor, path and rollback work here, too",
        )


def label(directory: Path) -> str:
    """What is in the names of the lab's shared memory. All labs of a machine share one place for
    these, also those of users whose labs have the same name."""
    return f"{directory.name}-{crc32(os.fsencode(directory)):08x}"


def write(
    directory: Path,
    supervisor: int | None = None,
    programs: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> None:
    """Say in `directory` that the lab is rehearsed, and by which processes, as far as they have
    started: the supervisor, and each program of each node."""
    document = {
        "supervisor": _process(supervisor) if supervisor else None,
        "programs": {
            node: {program: _process(pid) for program, pid in pids.items()}
            for node, pids in programs.items()
        },
    }
    whole_file.write(directory / _FILE, json.dumps(document))


class Rehearsed:
    """The nodes of a rehearsed lab; see `Substrate`."""

    timed_wires = False

    def __init__(self, lab: str, directory: Path) -> None:
        self._lab = lab
        self._directory = directory
        self._known: Mapping[str, Any] = json.loads((directory / _FILE).read_text())

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        del node, argv
        refuse(self._lab, self._directory)
        raise AssertionError

    def environment(self, node: str) -> Mapping[str, str]:
        del node
        return {}

    def place(self, node: str) -> str:
        del node
        return "none: ports in memory"

    def is_present(self, node: str) -> bool:
        return node in self._known["programs"]

    def pids(self, node: str) -> Mapping[str, int | None]:
        programs = self._known["programs"][node]
        return {name: its["pid"] if _lives(its) else None for name, its in programs.items()}

    def put(self, node: str, file: Path) -> None:
        """No node reads a file."""

    def get(self, node: str, file: Path) -> None:
        """No node writes a file."""

    def ended(self) -> str | None:
        return None

    def clock_offsets(self) -> Path | None:
        """All programs have the clock of this machine."""
        return None

    def holds_this_process(self) -> bool:
        return False

    def remove(self) -> None:
        """End all programs. The supervisor does it, and kills them; else this process."""
        if supervisor := self._known["supervisor"]:
            _end(supervisor, signal.SIGTERM, os.kill)
        for programs in self._known["programs"].values():
            for program in programs.values():
                _end(program, signal.SIGKILL, os.killpg)
        for segment in SHARED_MEMORY.glob(f"tsn-{label(self._directory)}.*"):
            segment.unlink(missing_ok=True)


def _process(pid: int) -> dict[str, Any]:
    """A process as it is found again: an id may belong to another one later."""
    return {"pid": pid, "born": _born(pid)}


def _lives(process: Mapping[str, Any]) -> bool:
    return process["born"] is not None and _born(process["pid"]) == process["born"]


def _born(pid: int) -> str | None:
    """In which boot of the machine a process began, and when in it, in clock ticks (field 22 of
    proc_pid_stat(5)); None: it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if state in {"Z", "X"} else f"{boot} {fields[18]}"


def _end(process: Mapping[str, Any], number: int, send: Callable[[int, int], None]) -> None:
    """Send a process a signal, if it lives, and wait for its end."""
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    if not _lives(process):
        return
    with contextlib.suppress(ProcessLookupError):
        send(process["pid"], number)
    while _lives(process) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
