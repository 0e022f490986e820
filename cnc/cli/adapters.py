"""mcp, dds, opcua: other protocols' ways to a service."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from cnc.cli import controller
from cnc.cli.completion import Files
from cnc.cli.options import address_and_port, missing
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError
from cnc.support import directories, whole_file
from cnc.support.format import counted, duration


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
        raise missing("mcp", "mcp", error) from error
    opened = Terminal.opened(terminal or OWN) if allow_changes else nullcontext()
    with controller.client_of(context) as service, opened as its:
        serve(service, its)


@click.command()
@click.argument("file", type=Files(".xml"))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the system with the answers here, if all streams have a place.",
)
@click.option(
    "--cuc", metavar="CUC", help="Ask as this CUC; a token of the role cuc is for one alone."
)
@click.pass_context
def dds(context: click.Context, file: Path, output: Path | None, cuc: str | None) -> None:
    """Ask the service of --controller for the streams of the DDS system FILE (DDS-TSN, in XML).

    Each tsn_talker with its tsn_listeners is a stream; one that is there already stays where it is.
    What frames have to have and when they are sent goes into a copy of FILE.
    """
    from cnc.adapters.dds import System  # noqa: PLC0415
    from cnc.service.refused import CallRefused  # noqa: PLC0415

    system = System.read(file)
    refused = 0
    with controller.client_of(context) as service:
        asking = cuc or service.ask("GET", "/api/v1/who")["cuc"]
        if not asking:
            raise InputError("the token is for every CUC", hint="say which one: --cuc")
        for stream in system.streams:
            try:
                placed = service.put_stream(asking, stream.body)
            except CallRefused as error:
                refused += 1
                echo(f"{stream.name} ({stream.stream_id}): refused: {error}")
                continue
            latency_ns = placed["talker"].get("accumulated-latency")
            if latency_ns is None:
                refused += 1
                echo(f"{stream.name} ({stream.stream_id}): has no place, and waits to be computed")
                continue
            system.fill(stream, placed)
            echo(
                f"{stream.name} ({stream.stream_id}): {placed['stream-status']}, at all listeners "
                f"{duration(latency_ns)} after the start of the period"
            )
    if refused:
        raise CncError(
            f"{refused} of {counted(len(system.streams), 'stream')} without a place; others stay",
            hint="ask for less and run it again; nothing was written" if output else None,
        )
    if output:
        whole_file.write(output, system.text())
        echo(f"wrote {output}")


@click.command()
@click.option(
    "--listen",
    callback=address_and_port,
    default="127.0.0.1:4840",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where OPC UA clients connect.",
)
@click.option(
    "--pki",
    type=click.Path(file_okay=False, path_type=Path),
    default=directories.state_dir() / "opcua",
    show_default=True,
    help="Folder of the server's certificate and key, made at the first start; trusted/ in it has "
    "the certificates of clients.",
)
@click.pass_context
def opcua(context: click.Context, listen: tuple[str, int], pki: Path) -> None:
    """Serve the state of the streams of --controller by OPC UA (OPC 10000-22), until SIGTERM.

    Clients read, over channels that are signed and encrypted (Basic256Sha256), if their
    certificates are in trusted/ of --pki. Nothing can be written.
    """
    try:
        from cnc.adapters.opcua import Address, serve  # noqa: PLC0415
        from cnc.adapters.opcua.identity import Identity  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing("opcua", "opcua", error) from error
    address, identity = Address(*listen), Identity.ensure(pki.expanduser())
    with controller.client_of(context) as service:
        if (role := service.ask("GET", "/api/v1/who")["role"]) == "cuc":
            raise InputError(
                f"the token has the role {role}, which does not read what happens to streams",
                hint="cnc token add NAME --role viewer",
            )
        line = f"{address.url}, as {identity.certificate}; clients: {identity.trusted}"
        serve(service, address, identity, lambda: echo(line, err=True))
