"""What all printing shares: tables that know the terminal, JSON, errors, long lists cut short.

Rich leaves out colours and animation when the output is no terminal or NO_COLOR is set.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnc.errors import CncError
from cnc.model import GateControlList, PortRef

if TYPE_CHECKING:
    from rich.table import Table

_SOME_MAX = 20


def error(raised: CncError) -> None:
    """What happened, the first of a long list of reasons, and what to do next."""
    head, *items = str(raised).split("\n")
    click.echo(f"cnc: {head}", err=True)
    if items:
        click.echo(some(items, "\n"), err=True)
    if raised.hint:
        click.echo(f"hint: {raised.hint}", err=True)


def some(texts: Sequence[str], separator: str) -> str:
    """The first of many texts, and how many more there are."""
    shown = list(texts[:_SOME_MAX])
    if len(texts) > len(shown):
        shown.append(f"and {len(texts) - len(shown)} more")
    return separator.join(shown)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, default=_plain))


def _plain(value: object) -> str:
    if isinstance(value, PortRef | Path):
        return str(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def gates_json(gates: GateControlList | None) -> dict[str, Any] | None:
    if gates is None:
        return None
    return {
        "cycle_ns": gates.cycle_ns,
        "entries": [[f"{e.gate_states:#04x}", e.interval_ns] for e in gates.entries],
    }


def new_table(title: str, *columns: str) -> Table:
    """A table; a column whose name starts with `>` is aligned to the right."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column[0] == ">" else "left")
    return table


def print_table(table: Table, wanted: int = 0, *, whole: str = "the plan file") -> None:
    """Print a table; if it shows fewer rows than `wanted`, say so and that `whole` has all."""
    open_console().print(table)
    if wanted > table.row_count:
        click.echo(f"  and {wanted - table.row_count} more; {whole} has all\n")


def open_console() -> Any:
    from rich.console import Console  # noqa: PLC0415

    # A pipe has no width: wide enough that no cell is folded. Text in [brackets] is no markup.
    return Console(markup=False, width=None if sys.stdout.isatty() else 160)
