"""Nodes that are namespaces of this kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyroute2 import IPRoute

from cnc.testbed.lab import inventory, namespaces, topology
from cnc.testbed.lab.process import MOVE_POLL_S, STOP_TIMEOUT_S, netns_argv, stop
from cnc.testbed.lab.switch import PROGRAMS, Switch

STOP_ROUNDS_MAX = 5


class Namespaces:
    """The nodes of a lab as namespaces; see `Substrate`."""

    def __init__(self, lab: str, directory: Path) -> None:
        self._lab = lab
        self._directory = directory

    @property
    def timed_wires(self) -> bool:
        with IPRoute(netns=namespaces.of_wires(self._lab)) as ip:
            return bool(ip.link_lookup(ifname="w0"))

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        return netns_argv(self.place(node), argv)

    def environment(self, node: str) -> Mapping[str, str]:
        switch = self._switch(node)
        return switch.environment if switch.repository.exists() else {}

    def place(self, node: str) -> str:
        return namespaces.of_node(self._lab, node)

    def is_present(self, node: str) -> bool:
        return namespaces.exists(self.place(node))

    def pids(self, node: str) -> Mapping[str, int | None]:
        switch = self._switch(node)
        has_agent = inventory.read(self._directory)[node].has_agent
        return {program: switch.pid(program) for program in (PROGRAMS if has_agent else ())}

    def put(self, node: str, file: Path) -> None:
        """All nodes have this machine's files."""

    def get(self, node: str, file: Path) -> None:
        """All nodes have this machine's files."""

    def ended(self) -> str | None:
        """A namespace stays."""
        return None

    def clock_offsets(self) -> Path | None:
        """All nodes have the clock of this machine."""
        return None

    def holds_this_process(self) -> bool:
        return any(namespaces.is_member(os.getpid(), home) for home in self._homes())

    def remove(self) -> None:
        homes = self._homes()
        # Whoever started them may have been killed meanwhile.
        give_up = time.monotonic() + STOP_TIMEOUT_S
        while namespaces.entering(homes) and time.monotonic() < give_up:
            time.sleep(MOVE_POLL_S)
        for _ in range(STOP_ROUNDS_MAX):  # an ending process may still start another
            processes = {pid: home for home in homes for pid in namespaces.members(home)}
            if not processes:
                break
            stop(processes)
        for node, entry in inventory.read(self._directory).items():
            if entry.has_agent:
                self._switch(node).forget()
        # The processes of an interrupted `make_template`.
        template = namespaces.of_template(self._lab)
        Switch("template", template, self._directory / "template").forget()
        topology.remove(self._lab, homes)

    def _homes(self) -> list[str]:
        nodes = inventory.read(self._directory)
        return [*map(self.place, nodes), *namespaces.inner(self._lab)]

    def _switch(self, node: str) -> Switch:
        return Switch(node, self.place(node), self._directory / node)
