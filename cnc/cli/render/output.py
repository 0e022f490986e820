"""What all printing shares: tables that know the terminal, JSON, errors, long lists cut short.

Rich leaves out colours and animation when the output is no terminal, TERM is dumb or NO_COLOR is
set; FORCE_COLOR asks for colours in a pipe.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, cast

import click

from cnc.cli import settings
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError
from cnc.support.format import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


_SOME_MAX = 20
_PIPE_COLUMNS = 160
_PIPE_COLUMNS_MAX = 240
INTERRUPTED = 130  # 128 + SIGINT, as shells tell it


def error(raised: CncError, *, as_json: bool = False) -> None:
    """What happened, the first of a long list of reasons, and what to do next."""
    if as_json:
        _error_json(str(raised), raised.hint, raised.exit_code)
        return
    quoted = raised.quoted if isinstance(raised, InputError) else {}
    head, *items = (
        f"{line}\n{quoted[line]}" if quoted.get(line) else line for line in str(raised).split("\n")
    )
    echo(f"cnc: {head}", err=True)
    if items:
        echo(some(items, "\n"), err=True)
    if raised.hint:
        echo(f"hint: {raised.hint}", err=True)


def warning(text: str, hint: str | None) -> None:
    """What may go wrong although the command does its work, on the error stream."""
    echo(f"cnc: warning: {text}", err=True)
    if hint:
        echo(f"hint: {hint}", err=True)


def misuse(raised: click.ClickException, *, as_json: bool) -> None:
    """What is wrong with a command line, and where a value comes from that was not in it."""
    context = raised.ctx if isinstance(raised, click.UsageError) else None
    option = raised.param if isinstance(raised, click.BadParameter) else None
    origin = settings.origin(context, option) if context and option else None
    hint = f"the value comes from {origin}" if origin else None
    if as_json:
        if context and not hint:
            hint = f"see `{context.command_path} --help` for usage"
        _error_json(raised.format_message(), hint, raised.exit_code)
        return
    raised.show()
    if hint:
        echo(f"hint: {hint}", err=True)


def interrupted(raised: BaseException, *, as_json: bool) -> None:
    """That Ctrl-C ended the command; and what became of its work, if it says so."""
    told = str(raised.__cause__ or "") or str(raised)
    if as_json:
        _error_json("\n".join(filter(None, ["interrupted", told])), None, INTERRUPTED)
        return
    echo("cnc: interrupted", err=True)
    if told:
        echo(told, err=True)


def _error_json(message: str, hint: str | None, exit_code: int) -> None:
    from cnc.json_output.document import Error  # noqa: PLC0415

    print_json(Error(error=message, hint=hint, exit_code=exit_code), err=True)


def some(texts: Sequence[str], separator: str) -> str:
    """The first of many texts, and how many more there are."""
    shown = list(texts[:_SOME_MAX])
    if len(texts) > len(shown):
        shown.append(f"and {len(texts) - len(shown)} more")
    return separator.join(shown)


def print_json(document: object, *, indent: int | None = 2, err: bool = False) -> None:
    """What `dump_json` makes of a document."""
    from cnc.json_output.document import dump_json  # noqa: PLC0415

    echo(dump_json(document, indent=indent), err=err)


def new_table(title: str, *columns: str) -> Table:
    """A table; a column whose name starts with `>` is aligned to the right, and has figures, of
    which no digit is left out."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        if column[0] == ">":
            table.add_column(column[1:], justify="right", overflow="fold")
        else:
            table.add_column(column)
    return table


def print_table(table: Table, wanted: int = 0, *, whole: str = "the plan file") -> None:
    """Print a table; if it shows fewer rows than `wanted`, say so and that `whole` has all."""
    console = open_console()
    if not _has_width():
        _widen(console, table)
    console.print(table)
    if wanted > table.row_count:
        echo(f"  and {wanted - table.row_count} more; {whole} has all\n")


def _widen(console: Any, table: Table) -> None:
    """Make a pipe wide enough for a table, unless it is texts that make it wide."""
    from rich.measure import Measurement  # noqa: PLC0415

    any_width = console.options.update(max_width=2 * _PIPE_COLUMNS_MAX)
    wanted = Measurement.get(console, any_width, table).maximum
    if wanted <= _PIPE_COLUMNS_MAX:
        console.width = max(console.width, wanted)


def open_console() -> Any:
    from rich.console import Console  # noqa: PLC0415

    class Printing(Console):
        """Makes the text of every cell and line printable."""

        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(printable(text), **how)

    # A pipe has no width: wide enough for most tables. Text in [brackets] is no markup.
    width = None if _has_width() else _PIPE_COLUMNS
    file = None if sys.stdout.isatty() else cast(IO[str], _Unpadded())
    return Printing(markup=False, width=width, file=file)


class _Unpadded(io.TextIOBase):
    """The output stream without the blanks that fill the lines of a table."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r" +(?=\n)", "", text))

    def flush(self) -> None:
        sys.stdout.flush()


def _has_width() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ
