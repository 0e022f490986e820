"""`cnc --controller URL COMMAND`: commands that a service runs, printed here.

What a command prints is what it prints on the machine of the service, of the plan that is decided
there. A file among the words goes along. `push` hands the service another intent, `rollback` puts a
former one back.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnc.cli.options import Invocation
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError
from cnc.support import directories

if TYPE_CHECKING:
    from cnc.service.client import Client

TOKEN = "CNC_TOKEN"  # noqa: S105  the name of a variable
# What `cnc.service.commands` offers, and `push` and `rollback`; all others stay on this machine.
RUN_BY_SERVICE = frozenset(
    {
        *("check", "diff", "doctor", "history", "path", "plan"),
        *("push", "rollback", "show", "status", "talkers", "watch"),
    }
)
_SUFFIXES = {".yaml", ".yml", ".json"}


class ByController(click.Group):
    """The group of all commands: with --controller those of a service are its own."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As `click.Group`, but for the commands that a service runs."""
        if ctx.params.get("controller") and args[0] in RUN_BY_SERVICE:
            return args[0], _run_there(args[0]), args[1:]
        return super().resolve_command(ctx, args)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a service."""
    directory = directories.config_dir()
    for option in (
        click.option(
            "--controller-certificate",
            type=click.Path(dir_okay=False, path_type=Path),
            default=directory / "controller.crt",
            show_default=True,
            help="Certificate of the service: tls.crt of its --state-dir.",
        ),
        click.option(
            "--controller",
            metavar="URL",
            help="Ask the service there (cnc serve): its plan, its switches, its history. The "
            f"token is in ${TOKEN}, or in the file controller.token beside the certificate.",
        ),
    ):
        command = option(command)
    return command


def _run_there(name: str) -> click.Command:
    @click.pass_context
    def run(context: click.Context, words: tuple[str, ...]) -> None:
        context.ensure_object(Invocation).as_json = "--json" in words
        with _refusals_by_exit_code(), client_of(context) as client:
            if name == "push":
                _push(client, words)
            elif name == "rollback":
                _rollback(client, words)
            else:
                sys.exit(_printed(client, {"words": [name, *words], **_with_file(words)}))

    return click.Command(
        name,
        callback=run,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )


def _push(client: Client, words: tuple[str, ...]) -> None:
    """The plan of FILE, or else the decided one once more, on all switches."""
    if len(words) > 1 or (words and words[0].startswith("-")):
        raise InputError(
            f"a service takes an intent file and no options, found {' '.join(words)}",
            hint="cnc --controller URL push [FILE]",
        )
    if words:
        sent = _with_file(words)
        if not sent:
            raise InputError(f"{words[0]}: there is no such intent file (.yaml)")
        _taken(client, client.ask("PUT", "/api/v1/intent", sent))
    else:
        _wait(client, client.ask("POST", "/api/v1/push", {})["after"])


def _rollback(client: Client, words: tuple[str, ...]) -> None:
    """The intent of rollout NUMBER, or else the one before the last that was taken; the streams of
    CUCs stay."""
    if len(words) > 1 or any(not word.isdecimal() for word in words):
        raise InputError(
            f"a service returns to the intent of one rollout, found {' '.join(words)}",
            hint="cnc --controller URL rollback [NUMBER]",
        )
    asked = {"number": int(words[0])} if words else {}
    _taken(client, client.ask("POST", "/api/v1/rollback", asked))


def _taken(client: Client, found: Mapping[str, Any]) -> None:
    if not found["change"]:
        echo("The service has this intent already.")
        return
    echo(f"Taken: {found['change']}.")
    _wait(client, found["after"])


def _wait(client: Client, after: int) -> None:
    """Until all switches run the plan that was decided before the event `after`."""
    for event in client.events(after):
        if event["kind"] == "rollout-failed":
            raise CncError(
                f"{event['reason']}\nThe service tries again in {event['next_try_s']:g} s.",
                hint=event["hint"],
            )
        if event["kind"] == "rollout-done":
            if event["rollout"] is None:
                echo("All switches run the plan.")
            else:
                echo(f"All switches run the plan, by rollout {event['rollout']}:")
                _printed(client, {"words": ["history", str(event["rollout"])]})
            return


def _printed(client: Client, asked: Mapping[str, Any]) -> int:
    """Print what a command of the service prints, as it comes. Its exit code."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for item in client.run({**asked, "columns": columns}):
        match item:
            case {"exit": int(code)}:
                return code
            case {"out": str(text)}:
                echo(text, nl=False)
            case {"err": str(text)}:
                echo(text, err=True, nl=False)
    raise CncError("the service ended before its command did", hint="run it again")


def _with_file(words: tuple[str, ...]) -> dict[str, str]:
    """The plan or intent among the words, which goes along by its name. Raises InputError."""
    files = [word for word in words if Path(word).suffix in _SUFFIXES and Path(word).exists()]
    if not files:
        return {}
    if len(files) > 1 or Path(files[0]).name != files[0]:
        raise InputError(
            f"a service takes one file of this directory, found {', '.join(files)}",
            hint="change to the directory of the file; a plan of the service is named by the "
            "number of its rollout",
        )
    try:
        return {"file": files[0], "text": Path(files[0]).read_text(encoding="utf-8")}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{files[0]}: cannot be read: {error}") from error


def client_of(context: click.Context) -> Client:
    """A client of the service that --controller names. Raises InputError."""
    from cnc.service.client import Client  # noqa: PLC0415

    group = context.find_root()
    if not group.params["controller"]:
        raise InputError(
            f"cnc {context.info_name} is a client of a service, and none is named",
            hint=f"cnc --controller https://cnc.example:8443 {context.info_name}",
        )
    certificate = Path(group.params["controller_certificate"]).expanduser()
    token = os.environ.get(TOKEN) or _token_in(certificate.with_name("controller.token"))
    return Client(group.params["controller"], token, certificate=certificate)


def _token_in(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(
            f"{file}: no token can be read: {error.strerror}",
            hint=f"an admin of the service makes one: cnc token add NAME --role operator; it goes "
            f"into this file, or into ${TOKEN}",
        ) from error


@contextmanager
def _refusals_by_exit_code() -> Iterator[None]:
    """What a service refuses as bad input is bad input here, too."""
    from cnc.service.refused import CallRefused, Code  # noqa: PLC0415

    try:
        yield
    except CallRefused as refused:
        if refused.code is Code.INVALID:
            raise InputError(str(refused), hint=refused.hint) from refused
        raise
