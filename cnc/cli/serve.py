"""serve, token: the CNC as a service, and who may ask it."""

from __future__ import annotations

import grp
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnc.cli.completion import Files
from cnc.cli.options import (
    FILE,
    JSON,
    TAKE_OVER,
    address_and_port,
    connection,
    history_option,
    missing,
)
from cnc.cli.render.output import print_json
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError

if TYPE_CHECKING:
    from cnc.switch import ConnectOptions

_VARIABLE = "CNC_TOKEN"
_ROLES = ("viewer", "cuc", "operator", "admin")


def _group(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """The number of a group."""
    if value is None:
        return None
    try:
        return grp.getgrnam(value).gr_gid
    except KeyError:
        raise click.BadParameter(f"there is no group {value!r}", param=parameter) from None


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--listen",
    callback=address_and_port,
    default="127.0.0.1:8443",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where the workers answer HTTPS.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Processes that end TLS; 0: only the core answers, on its socket.",
)
@click.option(
    "--worker-socket",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Answer workers there that another program keeps running, as another user.",
)
@click.option(
    "--worker-group",
    callback=_group,
    metavar="GROUP",
    help="Who may connect to --worker-socket.",
)
@click.option(
    "--database",
    metavar="URL",
    help="Keep the state in this PostgreSQL database, postgresql://USER@HOST/DATABASE, and not in "
    "files of --state-dir. The password is read as libpq does: ~/.pgpass or $PGPASSFILE.",
)
@click.option(
    "--url",
    metavar="URL",
    help="Where the other controllers of the database reach the workers of this one.  [default: "
    "https:// and --listen]",
)
@click.option(
    "--certificate",
    type=FILE,
    help="With --workers 0: what the workers show that others keep running.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Where switches keep what the database does not know: lead all the same if they run its "
    "plan.",
)
@click.option(
    "--move-state",
    is_flag=True,
    help="Take what the files of --state-dir have to the --database first, which has to be empty.",
)
@click.option(
    "--netconf-socket",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Answer a NETCONF server there: tsn-netconfd --broker PATH.",
)
@click.option(
    "--netconf-group",
    callback=_group,
    metavar="GROUP",
    help="Who may connect to --netconf-socket, beside the user of this service.",
)
@TAKE_OVER
@connection
@history_option
def serve(  # noqa: PLR0917  one parameter an option
    file: Path,
    listen: tuple[str, int],
    workers: int,
    worker_socket: Path | None,
    worker_group: int | None,
    database: str | None,
    url: str | None,
    certificate: Path | None,
    adopt: bool,
    move_state: bool,
    netconf_socket: Path | None,
    netconf_group: int | None,
    take_over: bool,
    connect: ConnectOptions,
    state_dir: Path,
) -> None:
    """Own the network of the intent FILE: answer those who ask for streams, until SIGTERM.

    At the first start this makes a TLS certificate and, in --state-dir, the token of an admin.
    What was accepted is kept in --state-dir, or in --database, and is there again at the next
    start.
    """
    if (worker_socket is None) != (worker_group is None):
        raise click.UsageError("--worker-socket and --worker-group are given together")
    if database is None and (url or certificate or adopt or move_state):
        raise click.UsageError(
            "--url, --certificate, --adopt and --move-state are of several controllers: give them "
            "with --database"
        )
    if netconf_group is not None and netconf_socket is None:
        raise click.UsageError("--netconf-group is given with --netconf-socket")
    try:
        from cnc.service import process  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing("serve", "service", error) from error
    settings = process.Settings(
        file,
        state_dir.expanduser(),
        connect,
        *listen,
        workers,
        take_over=take_over,
        worker_socket=(
            (worker_socket, worker_group)
            if worker_socket is not None and worker_group is not None
            else None
        ),
        database=database,
        url=url,
        certificate=certificate,
        adopt=adopt,
        move_state=move_state,
        netconf_socket=None if netconf_socket is None else (netconf_socket, netconf_group),
    )
    group = click.get_current_context().find_root().command
    assert isinstance(group, click.Group)  # noqa: S101  this command is one of it
    process.run(settings, group, lambda line: echo(line, err=True))


@click.group()
def token() -> None:
    """Who may ask the service of this machine: its tokens, shown once each.

    An admin's token is read from $CNC_TOKEN, or from the file that the service made at its first
    start.
    """


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="What it is for.")
@click.option("--cuc", metavar="CUC", help="Of the role cuc: whose streams.")
@click.option("--days", type=click.IntRange(1, 3650), help="How long it is good.  [default: 365]")
@click.option("--ssh-key", type=Files(".pub"), help="Public key that logs in as NAME over NETCONF.")
@history_option
@JSON
def add(  # noqa: PLR0917  one parameter an option
    name: str,
    role: str,
    cuc: str | None,
    days: int | None,
    ssh_key: Path | None,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Make a token called NAME, and print it."""
    key = None if ssh_key is None else _text_of(ssh_key)
    asked = {"name": name, "role": role, "cuc": cuc, "days": days, "ssh_key": key}
    _print_token(_ask(state_dir, "token.add", asked), as_json=as_json)


@token.command(name="list")
@history_option
@JSON
def list_(state_dir: Path, as_json: bool) -> None:
    """List the tokens: names, roles, and until when they are good."""
    found = _ask(state_dir, "token.list", {})["tokens"]
    if as_json:
        from cnc.json_output.service import Token  # noqa: PLC0415

        print_json([Token.model_validate(its) for its in found])
        return
    for its in found:
        until = f"revoked {its['revoked']}" if its["revoked"] else f"until {its['expires']}"
        whose = f"{its['role']} {its['cuc']}" if its["cuc"] else its["role"]
        key = f"  {its['ssh_key']}" if its["ssh_key"] else ""
        echo(f"{its['name']:24} {whose:24} {until}{key}")


@token.command()
@click.argument("name")
@click.option("--days", type=click.IntRange(1, 3650), help="How long it is good.  [default: 365]")
@history_option
@JSON
def rotate(name: str, days: int | None, state_dir: Path, as_json: bool) -> None:
    """Put another token in the place of NAME; the former one is good for five minutes more."""
    asked = {"name": name, "days": days}
    _print_token(_ask(state_dir, "token.rotate", asked), as_json=as_json)


@token.command()
@click.argument("name")
@click.option("--ssh-key", type=Files(".pub"), help="Public key that logs in from now on.")
@click.option("--remove", is_flag=True, help="No key logs in any more.")
@history_option
@JSON
def key(name: str, ssh_key: Path | None, *, remove: bool, state_dir: Path, as_json: bool) -> None:
    """Let another SSH key log in as NAME over NETCONF, or none; the token stays."""
    if (ssh_key is None) != remove:
        raise click.UsageError("give either --ssh-key or --remove")
    asked = {"name": name, "ssh_key": None if ssh_key is None else _text_of(ssh_key)}
    found = _ask(state_dir, "token.key", asked)
    if as_json:
        from cnc.json_output.service import Token  # noqa: PLC0415

        print_json(Token.model_validate(found))
        return
    echo(f"{name}: {found['ssh_key'] or 'no SSH key logs in'}")


@token.command()
@click.argument("name")
@history_option
def revoke(name: str, state_dir: Path) -> None:
    """Let the token NAME be none any more, from now on."""
    _ask(state_dir, "token.revoke", {"name": name})
    echo(f"{name} is revoked")


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error


def _print_token(made: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        from cnc.json_output.service import NewToken  # noqa: PLC0415

        print_json(NewToken.model_validate(made))
        return
    echo(made["token"])
    echo(f"{made['name']} ({made['role']}), until {made['expires']}; shown only now", err=True)


def _ask(state_dir: Path, call: str, arguments: dict[str, Any]) -> Any:
    """What the core of the service in this directory answers. Raises CncError."""
    import asyncio  # noqa: PLC0415

    from cnc.service import process  # noqa: PLC0415
    from cnc.service.channel import connected  # noqa: PLC0415

    directory = state_dir.expanduser()

    async def ask() -> Any:
        async with connected(process.socket_in(directory)) as channel:
            return await channel.call(call, arguments, token=_token_in(directory), source="local")

    return asyncio.run(ask())


def _token_in(directory: Path) -> str:
    from cnc.service.process import ADMIN_TOKEN  # noqa: PLC0415

    if given := os.environ.get(_VARIABLE):
        return given
    path = directory / ADMIN_TOKEN
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CncError(
            f"{path}: cannot be read: {error.strerror}",
            hint=f"set {_VARIABLE} to the token of an admin",
        ) from error
