"""`cnc`: parse the arguments, call the application layer (`cnc.app`), render the result. No logic.

commands   check, plan, show           rollout    push, rollback, status
doctor     doctor                      watch      watch
path       path                        serve      serve, token
controller commands that a service runs
adapters   mcp, dds, opcua
history    history, diff, talkers      laboratory lab, where the laboratory is installed
init       init                        config     config
gate_lists import gates, export gates
stream_lists import streams, export streams
discover   discover                    captures   verify
planning   how a search is shown       progress   what is printed while work goes on
options    what commands share         settings   options from files and the environment
completion shell completion            logs       -v
render     text and JSON for people and programs
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from cnc.cli import controller, logs, render, settings
from cnc.cli.adapters import dds, mcp, opcua
from cnc.cli.captures import verify
from cnc.cli.commands import check, plan, show
from cnc.cli.completion import Files, completion
from cnc.cli.config import config
from cnc.cli.discover import discover
from cnc.cli.doctor import doctor
from cnc.cli.gate_lists import export, import_
from cnc.cli.history import diff, history, talkers
from cnc.cli.init import init
from cnc.cli.laboratory import lab
from cnc.cli.options import Invocation
from cnc.cli.path import path
from cnc.cli.rollout import push, rollback, status
from cnc.cli.serve import serve, token
from cnc.cli.stream_lists import export_streams, import_streams
from cnc.cli.watch import watch
from cnc.errors import CncError

VERBOSE = partial(
    click.Option,
    ["-v", "--verbose"],
    count=True,
    is_eager=True,
    expose_value=False,
    callback=logs.listen,
    help="Log each step on the error stream; -vv: every NETCONF message.",
)


def _configure(context: click.Context, _option: click.Parameter, file: Path | None) -> None:
    settings.load(context, file)


@click.group(
    cls=controller.ByController,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@controller.options
@click.option(
    "--config",
    type=Files(".toml"),
    is_eager=True,
    expose_value=False,
    envvar="CNC_CONFIG",
    callback=_configure,
    help="Read options from this file (TOML) instead of /etc/cnc/config.toml and "
    "~/.config/cnc/config.toml.",
)
@click.version_option(package_name="tsn-control-plane")
def cnc(controller: str | None, controller_certificate: Path) -> None:
    """Compute IEEE 802.1Qbv schedules, deploy them to all switches at once, verify that they run.

    Exit codes: 0 done, 1 refused or failed, 2 bad input, 130 interrupted. Options that are not
    repeated can be given in a file, see `cnc config`, and in the environment: --known-hosts of `cnc
    push` is CNC_PUSH_KNOWN_HOSTS, or CNC_KNOWN_HOSTS for all.
    """


for _command in (
    *(check, plan, show, doctor, push, rollback, status, path, watch, serve, token),
    *(mcp, dds, opcua),
    *(history, diff, talkers, verify, lab),
    *(init, discover, import_, export, config, completion),
):
    cnc.add_command(_command)

import_.add_command(import_streams)
export.add_command(export_streams)
settings.name_variables(cnc)
cnc.params.append(VERBOSE())
for _, _command in settings.commands(cnc):
    # People write it behind the command, too; but what `lab exec` is to run has its own -v.
    if not isinstance(_command, click.Group) and not _command.context_settings:
        _command.params.append(VERBOSE())


def main() -> None:
    """Entry point: every error the project raises becomes a message, a hint and an exit code."""
    invocation = Invocation(sys.argv[1:])
    try:
        sys.exit(cnc.main(prog_name="cnc", standalone_mode=False, obj=invocation))
    except CncError as error:
        render.error(error, as_json=invocation.as_json)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        render.misuse(error, as_json=invocation.as_json or _asks_for_json(error))
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        render.interrupted(error, as_json=invocation.as_json)
        sys.exit(render.INTERRUPTED)


def _asks_for_json(error: click.ClickException) -> bool:
    """Of a command line that could not be parsed."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    knows_it = context and any(param.name == "as_json" for param in context.command.params)
    return bool(knows_it) and "--json" in sys.argv
