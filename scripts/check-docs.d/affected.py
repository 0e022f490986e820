"""The pages that a change may make wrong: those that changed, and those that run what changed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from blocks import Page
from places import CHECKOUT

from tests.runner import changed

# Of the main branch itself, where nothing differs from it: more than most pushes have.
RECENT_COMMITS = 20
CLI = (CHECKOUT / "cnc/cli", CHECKOUT / "cnc/testbed/cli")


def paths(reference: str | None) -> list[str] | None:
    """What changed since the current branch left `reference`, by default the main branch; on that
    itself its recent commits. None if there are not so many.

    Raises changed.NoSuchReference.
    """
    if reference:
        return changed.paths(reference)
    try:
        return changed.paths(None) or changed.paths(f"HEAD~{RECENT_COMMITS}")
    except changed.NoSuchReference:
        return None


def pages(every: Iterable[Page], changes: Iterable[str]) -> list[Page]:
    """The pages that changed, and those with a command whose source did."""
    changes = set(changes)
    ran = [rf"\bcnc (lab )?{name}\b" for path in changes for name in _commands(path)]
    ran += [rf"\b{path}\b" for path in changes if re.fullmatch(r"scripts/[\w-]+", path)]
    return [
        page
        for page in every
        if str(page.file.relative_to(CHECKOUT)) in changes
        or any(re.search(command, text) for command in ran for text in _texts(page))
    ]


def _texts(page: Page) -> Iterator[str]:
    for block in page.blocks:
        for command in (*block.setup, *block.commands):
            yield command.text


def _commands(path: str) -> Iterator[str]:
    """The commands of `cnc` that a file below cnc/cli, or that of the laboratory, implements or
    shows."""
    folder = next((each for each in CLI if each in (CHECKOUT / path).parents), None)
    if folder is None or not (source := folder / Path(path).name).is_file():
        return
    if source.suffix != ".py":  # what a new intent begins with
        yield "init"
        return
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                named = re.match(r"\w+\.command\((?:'([\w-]+)')?", ast.unparse(decorator))
                if named:
                    yield named[1] or node.name.replace("_", "-")
