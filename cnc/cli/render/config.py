"""What `cnc config` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo

if TYPE_CHECKING:
    from cnc.cli import documents
    from cnc.cli.settings import InForce


def options_set(files: Sequence[Path], options: Sequence[InForce], *, as_json: bool) -> None:
    """`options`: each that is set or shared."""
    if as_json:
        document: documents.Config = {
            "files": [str(file) for file in files],
            "options": [
                {"name": its.name, "value": its.value, "origin": its.origin} for its in options
            ],
        }
        print_json(document)
        return
    read = ", ".join(map(str, files))
    echo(f"read {read}" if read else "no file is there")
    table = new_table("", "option", "value", "from")
    for option in options:
        table.add_row(option.name, option.value, option.origin or "default")
    print_table(table)
