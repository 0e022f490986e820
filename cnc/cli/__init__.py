"""`cnc`: parse the arguments, call the room that does the work, render what it says. No logic.

commands   check, plan, show           rollout    push, rollback, status
doctor     doctor                      watch      watch
history    history, diff               lab        the emulated network's own commands
planning   intent to judged plan       progress   what is said while work goes on
options    what commands share         render     text and JSON for people and programs
"""

from __future__ import annotations

import sys

import click

from cnc.cli import render
from cnc.cli.commands import check, plan, show
from cnc.cli.doctor import doctor
from cnc.cli.history import diff, history
from cnc.cli.lab import lab
from cnc.cli.rollout import push, rollback, status
from cnc.cli.watch import watch
from cnc.errors import CncError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tsn-control-plane")
def cnc() -> None:
    """Compute IEEE 802.1Qbv schedules, bring them to all switches as one change, see them run.

    Exit codes: 0 done, 1 refused or failed, 2 bad input. Every option can be given in the
    environment: --known-hosts of `cnc push` is CNC_PUSH_KNOWN_HOSTS, or CNC_KNOWN_HOSTS for all.
    """


for _command in (check, plan, show, doctor, push, rollback, status, watch, history, diff, lab):
    cnc.add_command(_command)


def main() -> None:
    """Entry point: every error the project raises becomes a message, a hint and an exit code."""
    try:
        sys.exit(cnc(auto_envvar_prefix="CNC", standalone_mode=False))
    except CncError as error:
        render.error(error)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("cnc: interrupted", err=True)
        sys.exit(130)
