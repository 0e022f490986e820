"""Tests that once failed in `scripts/test --all` and passed alone: tests/unsteady.toml.

People write the entries, and take them out once the reason is found. A second time in 14 days is no
luck: a test that is listed fails the run.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from tests.runner.table import CHECKOUT, TableError, patterns, read

FILE = "tests/unsteady.toml"
DAYS = 14


@dataclass(frozen=True)
class Entry:
    """- `test`: its node id, with or without parameters.
    - `date`, `commit`: when and where it failed and passed.
    - `tried`: what was done to find the reason.
    """

    test: str
    date: datetime.date
    commit: str
    tried: str

    @property
    def last_day(self) -> datetime.date:
        """The last day on which it may be in the file."""
        return self.date + datetime.timedelta(days=DAYS)


def load(directory: Path = CHECKOUT / "tests") -> tuple[Entry, ...]:
    """The entries of the file in `directory`. Raises TableError for what it may not say."""
    path = directory / Path(FILE).name
    return tuple(_entry(path.name, listed) for listed in read(path).get("unsteady", ()))


def listed(entries: Iterable[Entry], test: str) -> Entry | None:
    """The entry of a test, if it has one."""
    names = set(patterns(test))
    return next((entry for entry in entries if entry.test in names), None)


def overdue(entries: Iterable[Entry], today: datetime.date) -> list[str]:
    """A line for each entry that is older than it may be, or of a day to come."""
    return [
        f"{FILE}: {entry.test} failed and passed on {entry.date} and may be listed until "
        f"{entry.last_day}: mend the test or what it tests, or remove it, and take out the entry"
        for entry in entries
        if not entry.date <= today <= entry.last_day
    ]


def text(entry: Entry) -> str:
    """An entry as the file has it."""
    return (
        f"[[unsteady]]\ntest = {_quoted(entry.test)}\ndate = {entry.date}\n"
        f"commit = {_quoted(entry.commit)}\ntried = {_quoted(entry.tried)}\n"
    )


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _entry(where: str, values: object) -> Entry:
    keys = {field.name for field in fields(Entry)}
    if not isinstance(values, dict) or values.keys() != keys:
        raise TableError(f"{where}: an entry has {', '.join(sorted(keys))}, and nothing else")
    if type(values["date"]) is not datetime.date:
        raise TableError(f"{where}: date is {values['date']!r}, and has to be a day: 2026-11-28")
    for key in keys - {"date"}:
        if not isinstance(values[key], str) or not values[key].strip():
            raise TableError(f"{where}: {key} has to say something")
    return Entry(**values)
