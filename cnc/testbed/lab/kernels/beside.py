"""The nodes of a lab as its controller sees them: each in another kernel, reached by the management
network."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cnc.errors import CncError
from cnc.testbed.lab import namespaces
from cnc.testbed.lab.kernels import offsets
from cnc.testbed.lab.kernels.layout import COMMANDS_PORT, CONTROLLER, SHARED, Kernel
from cnc.testbed.lab.management import SWITCH_PORT
from cnc.testbed.remote import client
from cnc.testbed.remote.frames import FrameError

_FILE = "kernels-beside.json"  # in the directory of a lab, on its controller: addresses by node


def write(directory: Path, kernels: Mapping[str, Kernel]) -> None:
    """Say in a lab's directory, on its controller, where the nodes are."""
    addresses = {node: str(kernel.link_local) for node, kernel in kernels.items()}
    (directory / _FILE).write_text(json.dumps(addresses))


def is_written(directory: Path) -> bool:
    """Whether this is the controller of a lab whose nodes are kernels."""
    return (directory / _FILE).exists()


def command_of(directory: Path, node: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` on a node when it runs on the controller; `directory` is
    one that `write` wrote to."""
    return [sys.executable, "-I", client.__file__, _stream(directory, node), "--", *argv]


def ask(directory: Path, node: str, argv: Sequence[str], octets: bytes = b"") -> bytes:
    """What a command that reads these octets prints on a node, asked by this process itself: that
    saves the start of a program. It runs on the controller, and `directory` is as in `command_of`.

    Raises:
        CncError: the command could not be run, or failed.
    """
    try:
        with client.connect(_stream(directory, node)) as stream:
            answer = client.ask(stream, argv, octets)
    except (OSError, FrameError) as error:
        answer = client.Answer(client.LOST, b"", str(error).encode())
    if answer.code != 0:
        raise CncError(
            f"node {node} of the lab could not run {' '.join(argv)}: "
            f"{answer.errors.decode(errors='replace').strip() or f'exit code {answer.code}'}",
            hint="`cnc lab status` shows whether the lab is up",
        )
    return answer.output


def _stream(directory: Path, node: str) -> str:
    """Where a node runs commands."""
    addresses = json.loads((directory / _FILE).read_text())
    return f"[{addresses[node]}%{SWITCH_PORT}]:{COMMANDS_PORT}"


class KernelsBeside:
    """The nodes of a lab from its controller; see `Substrate`."""

    timed_wires = True

    def __init__(self, lab: str, directory: Path) -> None:
        self._lab = lab
        self._directory = directory

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        return [*argv] if node == CONTROLLER else command_of(self._directory, node, argv)

    def environment(self, node: str) -> Mapping[str, str]:
        """The node has it."""
        del node
        return {}

    def place(self, node: str) -> str:
        return namespaces.of_node(self._lab, node)

    def is_present(self, node: str) -> bool:
        """If a kernel ends, all do."""
        del node
        return True

    def pids(self, node: str) -> Mapping[str, int | None]:
        """What runs on a node has process ids of another kernel."""
        del node
        return {}

    def put(self, node: str, file: Path) -> None:
        install = ["install", "-D", "-m", "644", "/dev/fd/0", str(file)]
        ask(self._directory, node, install, file.read_bytes())

    def get(self, node: str, file: Path) -> None:
        file.write_bytes(ask(self._directory, node, ["cat", str(file)]))

    def clock_offsets(self) -> Path | None:
        return SHARED / offsets.FILE

    def ended(self) -> str | None:
        """If they had, this process would not be there."""
        return None

    def holds_this_process(self) -> bool:
        return True

    def remove(self) -> None:
        """The machine that started the kernels ends them: `holds_this_process`."""
