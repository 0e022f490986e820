"""mcp: other protocols' ways to a service."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from cnc.cli import controller
from cnc.errors import CncError


def _missing(command: str, extra: str, error: ModuleNotFoundError) -> CncError:
    return CncError(
        f"cnc {command} needs the Python package {error.name}",
        hint=f"pip install 'tsn-control-plane[{extra}]'",
    )


@click.command()
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Offer tools that put and remove streams; each change is confirmed on the terminal.",
)
@click.option(
    "--terminal",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Where changes are confirmed, as the command tty prints it; else on the terminal that "
    "started this, /dev/tty.",
)
@click.pass_context
def mcp(context: click.Context, allow_changes: bool, terminal: Path | None) -> None:
    """Offer the service of --controller to a program that speaks the Model Context Protocol, on
    standard input and output.

    What comes from CUCs and switches is marked as data. Nothing is changed without
    --allow-changes, and then nothing without a person's yes on the terminal.
    """
    if terminal and not allow_changes:
        raise click.UsageError("--terminal is for --allow-changes: nothing else is confirmed")
    try:
        from cnc.adapters.mcp import Terminal, serve  # noqa: PLC0415
        from cnc.adapters.mcp.terminal import OWN  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing("mcp", "mcp", error) from error
    opened = Terminal.opened(terminal or OWN) if allow_changes else nullcontext()
    with controller.client_of(context) as service, opened as its:
        serve(service, its)
