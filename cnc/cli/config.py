"""`cnc config`: which options are set outside the command line, and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from cnc.cli import settings
from cnc.cli.options import JSON
from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo


@click.command()
@JSON
@click.pass_context
def config(context: click.Context, as_json: bool) -> None:
    """Show the options that a file or the environment sets, and what all commands share.

    Files: /etc/cnc/config.toml, then ~/.config/cnc/config.toml ($XDG_CONFIG_HOME). The later wins,
    the environment (CNC_...) over both, the command line over all.
    """
    files = settings.settings_of(context).files
    _print(files, settings.in_force(context.find_root()), as_json=as_json)


def _print(files: Sequence[Path], options: Sequence[settings.InForce], *, as_json: bool) -> None:
    """`options`: each that is set or shared."""
    if as_json:
        from cnc.json_output.document import Config, Option  # noqa: PLC0415

        shown = [Option.model_validate(each) for each in options]
        print_json(Config(files=[str(file) for file in files], options=shown))
        return
    read = ", ".join(map(str, files))
    echo(f"read {read}" if read else "no file is there")
    table = new_table("", "option", "value", "from")
    for option in options:
        table.add_row(option.name, option.value, option.origin or "default")
    print_table(table)
