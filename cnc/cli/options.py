"""Options that several commands share."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cnc import app
from cnc.cli.completion import Documents, Files
from cnc.errors import CncError, InputError
from cnc.model import Intent, Plan
from cnc.support import directories
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc import rollout, switch
    from cnc.keys.units import Quantity
    from cnc.rollout.history import History
else:
    rollout = lazy_import("cnc.rollout")
    switch = lazy_import("cnc.switch")

_ADDRESS_AND_PORT = re.compile(r"(?:\[([^]]+)\]|([^:\[\]]+)):(\d{1,5})")

FILE = Files(".yaml", ".yml", ".json")
DOCUMENT = Documents(".yaml", ".yml", ".json")


@dataclass(slots=True)
class Invocation:
    """What whoever ends `cnc` has to know of its command line.

    `words` are those after `cnc`; none where it was not started as a command.
    """

    words: Sequence[str] = ()
    as_json: bool = False


def command_line() -> str | None:
    """What the operator typed, as a shell would take it; None outside of a command."""
    words = click.get_current_context().ensure_object(Invocation).words
    return shlex.join(["cnc", *words]) if words else None


def _note_json(context: click.Context, _option: click.Parameter, as_json: bool) -> bool:
    context.ensure_object(Invocation).as_json = as_json
    return as_json


JSON = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,  # so that an error in another option is told as JSON, too
    callback=_note_json,
    help="Print data for programs.",
)

MESSAGE_MAX = 200


def _message(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is not None and (len(text) > MESSAGE_MAX or not text.isprintable()):
        raise click.BadParameter(f"at most {MESSAGE_MAX} characters in one line")
    return text


MESSAGE = click.option(
    "-m",
    "--message",
    callback=_message,
    help="Why, for the history of rollouts: one line.",
)
FORCE_MARGIN = click.option(
    "--force-margin",
    is_flag=True,
    help="Accept a plan although switches have measured gates to open later than it allows.",
)
TAKE_OVER = click.option(
    "--take-over",
    is_flag=True,
    help="Override the rollout of another controller, and act for the network in its place.",
)
WITHOUT_DEADLINE = click.option(
    "--without-deadline",
    is_flag=True,
    help="Change also switches whose agent applies a commit however late it comes.",
)


def quantity(kind: str) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Callback of an option: a figure with its unit as in intents, `DURATION` or `RATE`."""

    def read(_context: click.Context, _option: click.Parameter, value: str | None) -> int | None:
        from cnc.keys import units  # noqa: PLC0415

        if value is None:
            return None
        found: Quantity = getattr(units, kind)
        try:
            return found.parse(value)
        except ValueError as expected:
            raise click.BadParameter(f"found {value!r}, expected {expected}") from None

    return read


def _ssh_config(context: click.Context, parameter: click.Parameter, file: Path) -> Path:
    """Only the default may be missing."""
    file = file.expanduser()
    is_asked = context.get_parameter_source(str(parameter.name)) is not ParameterSource.DEFAULT
    if is_asked and not file.is_file():
        raise click.BadParameter(f"there is no file {file}", param=parameter)
    return file


def connection(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how to reach the switches, for a parameter `connect`."""

    @wraps(command)
    def connecting(
        *args: Any,
        identity: Path,
        known_hosts: Path,
        ssh_config: Path,
        timeout_s: float,
        **kwargs: Any,
    ) -> Any:
        connect = switch.ConnectOptions(
            identity.expanduser(), known_hosts.expanduser(), timeout_s, ssh_config
        )
        return command(*args, connect=connect, **kwargs)

    for option in (
        click.option(
            "--identity",
            type=click.Path(dir_okay=False, path_type=Path),
            default=Path("~/.ssh/id_ed25519"),
            show_default=True,
            help="Private key that the switches accept.",
        ),
        click.option(
            "--known-hosts",
            type=click.Path(dir_okay=False, path_type=Path),
            default=Path("~/.ssh/known_hosts"),
            show_default=True,
            help="File of the switches' host keys; an unknown key is refused.",
        ),
        click.option(
            "--ssh-config",
            type=click.Path(dir_okay=False, path_type=Path),
            default=Path("~/.ssh/config"),
            show_default=True,
            callback=_ssh_config,
            help="File whose HostName and ProxyJump lead to the switches.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0.1),
            default=30.0,
            metavar="SECONDS",
            show_default=True,
            help="Seconds to wait for a connection or a reply.",
        ),
    ):
        connecting = option(connecting)
    return connecting


def address_and_port(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    """Callback of an option: ADDRESS:PORT, an IPv6 address in brackets."""
    if value is None:
        return None
    parts = _ADDRESS_AND_PORT.fullmatch(value)
    if not parts:
        raise click.BadParameter(f"{value!r} is not ADDRESS:PORT", param=parameter)
    return parts[1] or parts[2], int(parts[3])


def refuse_to_overwrite(file: Path, *, force: bool) -> None:
    """Raises InputError if `file` is there and `--force` was not given."""
    if file.exists() and not force:
        raise InputError(
            f"{file} exists and was not changed",
            hint="name another file, or overwrite this one with --force",
        )


def history_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says where rollouts are recorded, for `open_history`."""
    return click.option(
        "--state-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=directories.state_dir,
        show_default="$XDG_STATE_HOME/cnc or ~/.local/state/cnc",
        help="Directory of the history of rollouts.",
    )(command)


def open_history(state_dir: Path) -> History:
    """The history in `state_dir`, which is made if it is not there. Of a service whose state is in
    a database it is there."""
    directory = state_dir.expanduser()
    if (directory / rollout.DATABASE).exists():
        from cnc.service import state  # noqa: PLC0415  needs an extra

        return state.history(directory)
    return app.open_history(directory)


def load(file: Path, state_dir: Path) -> Plan | Intent:
    """What a `DOCUMENT` is: the plan or the intent of a file, or the plan of a rollout.

    Raises InputError.
    """
    if not file.name.isdecimal() or file.exists():
        return app.load(file)
    with open_history(state_dir) as history:
        return app.plan_of_rollout(history, int(file.name))


def missing(command: str, extra: str, error: ModuleNotFoundError) -> CncError:
    """Why a command cannot run without an extra of the distribution."""
    return CncError(
        f"cnc {command} needs the Python package {error.name}",
        hint=f"pip install 'tsn-control-plane[{extra}]'",
    )
