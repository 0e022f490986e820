"""Where a history is kept: in a file, or in a database that several controllers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Protocol

# A file of the state directory; the database that it names has the history of that directory.
DATABASE = "database"


class Rows(Protocol):
    """One transaction. Statements are of SQLite and PostgreSQL, with `:name` for a value."""

    def rows(self, statement: str, /, **values: object) -> Sequence[Mapping[str, Any]]:
        """The rows that a statement finds, or returns."""
        ...

    def changed(self, statement: str, /, **values: object) -> int:
        """How many rows a statement has changed."""
        ...

    def clock_ahead(self) -> timedelta:
        """How far the clock by which rollouts are noted is ahead of that of this machine."""
        ...


class Held(Protocol):
    """The lock of a rollout's controller, until it is released or the process ends."""

    def release(self) -> None:
        """Another controller can acquire it."""

    def remove(self) -> None:
        """Release it for ever: the rollout has ended."""


class Place(Protocol):
    """From any thread. All raise CncError where the place cannot be read or written."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    def reading(self) -> AbstractContextManager[Rows]:
        """The block reads one consistent snapshot."""
        ...

    def writing(self) -> AbstractContextManager[Rows]:
        """What the block writes is on the disk when it ends; nothing is written if it raises."""
        ...

    def lock(self, number: int) -> Held:
        """The lock of a rollout's controller. Raises RolloutError while another one holds it."""
        ...

    def is_held(self, number: int) -> bool:
        """Whether a living controller holds the lock of a rollout."""
        ...

    def end_others(self) -> None:
        """Take the locks from all that hold one; not from a process of this machine, whose lock
        ends with it."""

    def close(self) -> None:
        """Stop; what is held is released."""
