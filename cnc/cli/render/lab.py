"""What `cnc lab` prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cnc.cli.render.output import new_table, print_json, print_table

if TYPE_CHECKING:
    from cnc.lab import NodeStatus


def lab_status(name: str, nodes: Sequence[NodeStatus], *, as_json: bool) -> None:
    if as_json:
        print_json([dataclasses.asdict(node) for node in nodes])
        return
    if not nodes:
        click.echo(f"no lab {name} is up")
        return
    table = new_table(f"lab {name}", "node", "namespace", "processes")
    for node in nodes:
        processes = ", ".join(
            f"{program} {pid or 'is gone'}" for program, pid in node.processes.items()
        )
        table.add_row(node.node, node.namespace if node.present else "missing", processes)
    print_table(table)
