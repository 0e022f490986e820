"""The one way out of `cnc` for text: nothing in it can command the terminal, or reorder a line.

Much of it is foreign: error texts and names from switches, names heard by LLDP, plan files.
"""

from __future__ import annotations

import click

from cnc.support.format import printable


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text on the output stream, or with `err` on the error stream."""
    click.echo(printable(text), err=err, nl=nl)
