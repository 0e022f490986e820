"""`cnc lab`: the emulated network of an intent, in this kernel's namespaces."""

from __future__ import annotations

from pathlib import Path

import click

from cnc.cli import render
from cnc.cli.commands import load_intent
from cnc.cli.options import FILE, JSON
from cnc.errors import CncError


@click.group()
def lab() -> None:
    """Emulate the network of an intent: a namespace for every node, a real agent on every switch.

    Needs root and a kernel with sch_taprio; where the machine's own has none, run the command
    inside one with scripts/vm.
    """


@lab.command()
@click.argument("file", type=FILE)
def up(file: Path) -> None:
    """Bring the network of the intent FILE up."""
    from cnc import lab as rooms  # noqa: PLC0415

    running = rooms.up(load_intent(file))
    click.echo(
        f"lab {running.intent.name} is up. To push to it:\n"
        f"  export CNC_IDENTITY={running.identity} CNC_KNOWN_HOSTS={running.known_hosts}"
    )


@lab.command()
@click.argument("name")
def down(name: str) -> None:
    """Remove the lab NAME, also one whose start was interrupted. Nothing is left behind."""
    from cnc import lab as rooms  # noqa: PLC0415

    rooms.down(name)


@lab.command("status")
@click.argument("name")
@JSON
def lab_status(name: str, as_json: bool) -> None:
    """Show the nodes of the lab NAME and their processes."""
    from cnc import lab as rooms  # noqa: PLC0415

    nodes = rooms.status(name)
    render.lab_status(name, nodes, as_json=as_json)
    if not all(n.present and all(n.processes.values()) for n in nodes):
        raise click.exceptions.Exit(CncError.exit_code)


@lab.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("node")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(name: str, node: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on NODE of the lab NAME: `cnc lab exec line3 s1 -- tc qdisc`."""
    from cnc import lab as rooms  # noqa: PLC0415

    raise click.exceptions.Exit(rooms.execute(name, node, command))
