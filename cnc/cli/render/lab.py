"""What `cnc lab` prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cnc.cli.render.output import new_table, print_json, print_table

if TYPE_CHECKING:
    from cnc.lab import NodeStatus


def lab_status(name: str | None, nodes: Sequence[NodeStatus], *, as_json: bool) -> None:
    """Every node of a lab; `name` is None where no lab is up."""
    if as_json:
        print_json([dataclasses.asdict(node) for node in nodes])
        return
    if not nodes:
        click.echo(f"no lab {name} is up" if name else "no lab is up")
        return
    table = new_table(f"lab {name}", "node", "addresses", "namespace", "processes")
    for node in nodes:
        processes = ", ".join(
            f"{program} {pid or 'is gone'}" for program, pid in node.processes.items()
        )
        namespace = node.namespace if node.present else "missing"
        table.add_row(node.node, "  ".join(node.addresses), namespace, processes)
    print_table(table)
