"""`cnc config`: which options are set outside the command line, and where."""

from __future__ import annotations

import click

from cnc.cli import render, settings
from cnc.cli.options import JSON


@click.command()
@JSON
@click.pass_context
def config(context: click.Context, as_json: bool) -> None:
    """Show the options that a file or the environment sets, and what all commands share.

    Files: /etc/cnc/config.toml, then ~/.config/cnc/config.toml ($XDG_CONFIG_HOME). The later wins,
    the environment (CNC_...) over both, the command line over all.
    """
    render.options_set(
        settings.of(context).files, settings.in_force(context.find_root()), as_json=as_json
    )
