"""`cnc init`: an intent to begin with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from cnc.cli.options import refuse_to_overwrite
from cnc.cli.terminal import echo
from cnc.support import whole_file


@click.command()
@click.argument(
    "file", type=click.Path(dir_okay=False, path_type=Path), default=Path("network.yaml")
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def init(file: Path, force: bool) -> None:
    """Write a commented example intent to FILE (network.yaml) as a template.

    It has two switches and three streams, and can be planned unchanged.
    """
    refuse_to_overwrite(file, force=force)
    example = resources.files(__package__).joinpath("example.yaml")
    whole_file.write(file, example.read_text(encoding="utf-8"))
    echo(
        f"wrote {file}. Make its switches, links and streams yours, then:\n"
        f"  cnc check {file}     is it sound?\n"
        f"  cnc plan {file}      does all of it fit? prints every bound\n"
        f"  cnc doctor {file}    are the switches ready?\n"
        f"  cnc push {file}      bring it to all switches, or to none\n"
        f"`cnc discover` drafts switches and links from what the switches know of each other."
    )
