"""Where the nodes of a lab live: what the rest of `cnc` has to know of it, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Substrate(Protocol):
    """The nodes of one lab that is up, or that was interrupted, as they are reached from here."""

    @property
    def timed_wires(self) -> bool:
        """Whether cables have the delays of the intent."""

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` on a node when it runs here, with all its streams."""

    def environment(self, node: str) -> Mapping[str, str]:
        """What `command` needs in its environment, so that tools find the node's datastores."""

    def place(self, node: str) -> str:
        """What a node lives in, for a person."""

    def is_present(self, node: str) -> bool:
        """Whether that is there."""

    def pids(self, node: str) -> Mapping[str, int | None]:
        """The process id of each program that makes up a node here, None for one that ended."""

    def put(self, node: str, file: Path) -> None:
        """Have a file of here on a node, too, under the same path."""

    def get(self, node: str, file: Path) -> None:
        """Have a file of a node here, too, under the same path."""

    def clock_offsets(self) -> Path | None:
        """Where the true offsets of the nodes' clocks are recorded (`lab.kernels.offsets`);
        None: nobody knows them."""

    def ended(self) -> str | None:
        """Why the nodes have ended; None if they have not, as far as can be known."""

    def holds_this_process(self) -> bool:
        """Whether this process runs on a node."""

    def remove(self) -> None:
        """End every process of the nodes, also those of users, and remove all but the lab's
        directory."""
