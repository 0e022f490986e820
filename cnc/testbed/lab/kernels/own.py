"""The nodes of a lab as the machine sees it that started a kernel for each of them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cnc.testbed.lab import inventory, namespaces
from cnc.testbed.lab.kernels import offsets
from cnc.testbed.lab.kernels.beside import command_of
from cnc.testbed.lab.kernels.layout import CONTROL, CONTROLLER, ENDED, HOME, MARK, UNSETTLED
from cnc.testbed.remote import client

STOP_TIMEOUT_S = 5.0
_KERNEL = "linux"


def is_written(directory: Path) -> bool:
    """Whether the nodes of the lab with this directory are kernels that this machine started."""
    return (directory / HOME).is_symlink()


def clocks_unsettled(directory: Path) -> dict[str, str]:
    """What was wrong with the clocks that had not settled when the lab was up, by node."""
    file = directory / HOME / "shared" / UNSETTLED
    found: dict[str, str] = json.loads(file.read_text())
    return found


class OwnKernels:
    """The nodes of a lab, each a kernel; see `Substrate`."""

    timed_wires = True

    def __init__(self, lab: str, directory: Path) -> None:
        self._lab = lab
        self._directory = directory
        self._home = (directory / HOME).readlink()

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        inner = argv if node == CONTROLLER else command_of(self._home / "shared", node, argv)
        control = str(self._home / CONTROL)
        return [sys.executable, "-I", client.__file__, control, "--", *inner]

    def environment(self, node: str) -> Mapping[str, str]:
        """A kernel has its own."""
        del node
        return {}

    def place(self, node: str) -> str:
        return namespaces.of_node(self._lab, node)

    def is_present(self, node: str) -> bool:
        return self._pid(node) is not None

    def pids(self, node: str) -> Mapping[str, int | None]:
        return {_KERNEL: self._pid(node)}

    def put(self, node: str, file: Path) -> None:
        """All nodes read this machine's files."""

    def get(self, node: str, file: Path) -> None:
        """What a node writes stays in its kernel, unless a command shows it."""

    def clock_offsets(self) -> Path | None:
        return self._home / "shared" / offsets.FILE

    def ended(self) -> str | None:
        try:
            return (self._home / ENDED).read_text().strip()
        except FileNotFoundError:
            return None

    def holds_this_process(self) -> bool:
        return False

    def remove(self) -> None:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + STOP_TIMEOUT_S
            while handles := list(self._handles()):
                for handle in handles:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, sent)
                _wait(handles, max(0.0, deadline - time.monotonic()))
                for handle in handles:
                    os.close(handle)
                if time.monotonic() > deadline:
                    break
        shutil.rmtree(self._home, ignore_errors=True)

    def _number(self, node: str) -> int:
        """A kernel's number; see `layout.kernels`."""
        return [CONTROLLER, *inventory.read(self._directory)].index(node)

    def _pid(self, node: str) -> int | None:
        """The process id of a node's kernel, None if it has ended."""
        try:
            pid = int((self._home / f"node{self._number(node)}" / "pid").read_text())
        except FileNotFoundError:
            return None
        return pid if self._is_ours(pid) else None

    def _is_ours(self, pid: int) -> bool:
        """Whether a process belongs to this lab: it has inherited who started it."""
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is a corpse
            return False
        return f"{MARK}={self._directory}".encode() in environment

    def _handles(self) -> Iterator[int]:
        """A pidfd for each process of this lab."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or not self._is_ours(int(entry.name)):
                continue
            try:
                handle = os.pidfd_open(int(entry.name))
            except ProcessLookupError:
                continue
            # Checked again: from here on the handle identifies this process.
            if self._is_ours(int(entry.name)):
                yield handle
            else:
                os.close(handle)


def _wait(handles: Sequence[int], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
