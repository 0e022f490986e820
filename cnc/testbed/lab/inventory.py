"""What a lab's directory says of its nodes: enough to show, reach and remove them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cnc.model import Intent
from cnc.testbed.lab.addressing import addresses

_FILE = "inventory.json"


@dataclass(frozen=True, slots=True)
class Node:
    """One node: whether an agent runs on it, and by which addresses all others reach it."""

    has_agent: bool
    addresses: Sequence[str]


def of_intent(intent: Intent) -> dict[str, Node]:
    """The nodes of a lab that emulates a network, by name."""
    network = intent.network
    node_addresses = addresses(intent)
    return {
        name: Node(
            name in network.managed,
            [str(node_addresses[name].v4), str(node_addresses[name].v6)]
            if name in node_addresses
            else [],
        )
        for name in (*network.bridges, *network.end_stations)
    }


def write(directory: Path, nodes: Mapping[str, Node]) -> None:
    """Say in `directory` which nodes the lab has: atomically, as `down` reads it after a crash."""
    file = directory / _FILE
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps({name: asdict(node) for name, node in nodes.items()}))
    partial.rename(file)


def read(directory: Path) -> Mapping[str, Node]:
    """The nodes by name; none if the lab was interrupted before anything was created."""
    try:
        document = json.loads((directory / _FILE).read_text())
    except FileNotFoundError:
        return {}
    return {name: Node(**node) for name, node in document.items()}
