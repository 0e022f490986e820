"""Which lanes a change needs: those that name a changed path, and those of a changed test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator

from tests.runner.table import CHECKOUT, Lane, Table

ALWAYS = ("lint", "unit")
DEFAULT_REFERENCES = ("origin/main", "main")


class NoSuchReference(Exception):
    """git does not know the commit to compare with; the text is git's."""


def paths(reference: str | None) -> list[str]:
    """What differs from the commit where the current branch left `reference`, uncommitted and
    untracked files included. Raises NoSuchReference."""
    base = _base(reference)
    changed = _git("diff", "--name-only", "--no-renames", base)
    untracked = _git("ls-files", "--others", "--exclude-standard")
    return [*changed.splitlines(), *untracked.splitlines()]


def lanes(table: Table, changed: Iterable[str]) -> tuple[list[Lane], list[str]]:
    """The lanes for these paths, in the order of the table, and the paths that no lane names.

    What no lane names may matter to any: then these are all lanes.
    """
    chosen, unnamed = set(ALWAYS), []
    for path in changed:
        for_this = set(named_by(table, path))
        chosen |= for_this
        if not for_this:
            unnamed.append(path)
    return [lane for lane in table.lanes.values() if unnamed or lane.name in chosen], unnamed


def named_by(table: Table, path: str) -> Iterator[str]:
    """The lanes that name a path, and the one that has its tests."""
    if home := table.home(path):
        yield home
    for lane in table.lanes.values():
        if any(pattern.startswith(f"{path}::") for pattern in lane.tests) or any(
            path == named or (named.endswith("/") and path.startswith(named)) for named in lane.when
        ):
            yield lane.name


def _base(reference: str | None) -> str:
    faults = []
    for candidate in [reference] if reference else DEFAULT_REFERENCES:
        try:
            return _git("merge-base", candidate, "HEAD").strip()
        except NoSuchReference as error:
            faults.append(str(error))
    raise NoSuchReference(faults[0])


def _git(*command: str) -> str:
    done = subprocess.run(
        ["git", *command], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        fault = done.stderr.strip() or "no common commit"
        raise NoSuchReference(f"git {' '.join(command)}: {fault}")
    return done.stdout
