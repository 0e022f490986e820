"""What an experiment over two uplinks is, whatever it transfers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from cnc.model import Intent
from cnc.testbed.experiments.experiment import Progress, write_rows
from cnc.testbed.experiments.multipath.description import UplinksDescription
from cnc.testbed.experiments.multipath.uplinks import Uplinks
from cnc.testbed.lab.running import Lab

_Description = TypeVar("_Description", bound=UplinksDescription)


@dataclass(frozen=True)
class OverUplinks(Generic[_Description]):
    """The experiment of a file; `columns` are those of its rows."""

    description: _Description
    uplinks: Uplinks
    columns: ClassVar[tuple[str, ...]]

    @classmethod
    def of(cls, description: _Description, file: Path) -> Self:
        """The experiment of `file`. Raises InputError as `Uplinks.of` does."""
        return cls(description, Uplinks.of(description, file))

    @property
    def emulated(self) -> Intent:
        return self.uplinks.intent

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Measure, with both uplinks there at the beginning."""
        with self.uplinks.ready(running):
            write_rows(directory, self.columns, self.rows(running, progress))

    def rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        """What is measured, as it comes."""
        raise NotImplementedError
