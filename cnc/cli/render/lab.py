"""What `cnc lab` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo

if TYPE_CHECKING:
    from cnc.cli import documents
    from cnc.lab import Lab, NodeStatus


def lab_up(running: Lab, *, timed_wires: bool, as_json: bool) -> None:
    """How to push to a lab that has come up."""
    if as_json:
        document: documents.LabUp = {
            "name": running.intent.name,
            "wires": "timed" if timed_wires else "instant",
            "identity": str(running.identity),
            "known_hosts": str(running.known_hosts),
        }
        print_json(document)
        return
    echo(
        f"lab {running.intent.name} is up, with {'timed' if timed_wires else 'instant'} wires. "
        "To push to it:\n"
        f"  export CNC_IDENTITY={running.identity} CNC_KNOWN_HOSTS={running.known_hosts}"
    )


def lab_status(name: str | None, nodes: Sequence[NodeStatus], *, as_json: bool) -> None:
    """Every node of a lab; `name` is None where no lab is up."""
    if as_json:
        print_json(list(nodes))
        return
    if not nodes:
        echo(f"no lab {name} is up" if name else "no lab is up")
        return
    table = new_table(f"lab {name}", "node", "addresses", "namespace", "processes")
    for node in nodes:
        processes = ", ".join(
            f"{program} {pid or 'is gone'}" for program, pid in node.processes.items()
        )
        namespace = node.namespace if node.present else "missing"
        table.add_row(node.node, "  ".join(node.addresses), namespace, processes)
    print_table(table)
