"""`cnc completion`, and what the shells offer in the place of an argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")

_BASH_REGISTERS = "complete -o nosort"
_HOW = """\b
Once, for every new shell:
  bash  cnc completion bash > ~/.local/share/bash-completion/completions/cnc
  zsh   cnc completion zsh > DIRECTORY/_cnc, a directory of $fpath
  fish  cnc completion fish > ~/.config/fish/completions/cnc.fish
For the shell that runs: eval "$(cnc completion bash)"
"""


class Files(click.Path):
    """A file that is there; shells offer those with one of the endings, and directories."""

    def __init__(self, *endings: str) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)
        self._endings = endings

    def shell_complete(
        self, _context: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Called by click for every argument and option of this type."""
        typed, _, beginning = incomplete.rpartition("/")
        typed += "/" if "/" in incomplete else ""
        try:
            entries = sorted(Path(typed or ".").expanduser().iterdir())
            shown = [
                f"{typed}{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in entries
                if entry.name.startswith(beginning or entry.name.lstrip("."))
                and (entry.is_dir() or entry.name.endswith(self._endings))
            ]
        except OSError:
            return []
        return [CompletionItem(words) for words in shown]


class Documents(Files):
    """A file that is there, or the number of a rollout: then the plan that it deployed."""

    name = "file or number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Called by click."""
        if isinstance(value, str) and value.isdecimal() and not Path(value).exists():
            return Path(value)
        return super().convert(value, param, ctx)


@click.command(epilog=_HOW)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete commands, options, files and node names."""
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  click has all three
    root = click.get_current_context().find_root()
    script = kind(root.command, {}, root.info_name or "cnc", "_CNC_COMPLETE").source()
    if shell == "bash":  # so that it goes on behind a directory instead of a blank
        script = script.replace(_BASH_REGISTERS, f"{_BASH_REGISTERS} -o filenames")
    click.echo(script, nl=False)
