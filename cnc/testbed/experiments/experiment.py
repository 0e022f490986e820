"""The interface of all experiments, and their common types.

An experiment has two halves. `run` measures rows, in a kernel with the required features; `report`
computes figures from rows, on any machine and any number of times. Only files connect them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from cnc.model import Intent
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[str], None]

ROWS = "rows.csv"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of a report; a column whose name starts with `>` is aligned to the right.

    On the page the first cell of a row leads to its link, if `links` has one.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    links: Sequence[str | None] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: NAME.svg, NAME.png and NAME.pdf. `draw` fills an empty figure."""

    name: str
    caption: str
    draw: Callable[[Figure], None]


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a run.

    `summary` is plain data. `disagreements` list the deviations from what the experiment expects,
    `remarks` the conditions of the measurement and its accuracy. `modelled` are the delays that are
    emulated, in a few words; None where there are none.
    """

    summary: Mapping[str, Any]
    sheets: Sequence[Sheet]
    pictures: Sequence[Picture]
    disagreements: Sequence[str]
    remarks: Sequence[str]
    modelled: str | None


class Native(Protocol):
    """An experiment about this machine; it needs no particular kernel."""

    def run(self, directory: Path, progress: Progress) -> None:
        """Measure, and write `rows.csv` and further files for `report` into `directory`."""

    def report(self, directory: Path, platform: Platform) -> Report:
        """The figures of the rows in `directory`, which were measured on `platform`."""


@runtime_checkable
class Emulated(Protocol):
    """An experiment in a lab, and so in a kernel with taprio."""

    @property
    def emulated(self) -> Intent:
        """The network of the lab."""

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Measure in the lab of `emulated`, and write `rows.csv` into `directory`."""

    def report(self, directory: Path, platform: Platform) -> Report:
        """The figures of the rows in `directory`, which were measured on `platform`."""


@runtime_checkable
class OnKernels(Protocol):
    """An experiment in a lab whose nodes are kernels with clocks of their own."""

    @property
    def emulated(self) -> Intent:
        """The network of the lab; its document says the same."""

    def run_on(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Measure on the controller of the lab of `emulated`, once all clocks are in step, and
        write `rows.csv` and `offsets.csv` into `directory`."""

    def report(self, directory: Path, platform: Platform) -> Report:
        """The figures of the rows in `directory`, which were measured on `platform`."""


Experiment = Native | Emulated | OnKernels


def not_judged(platform: Platform) -> list[str]:
    """The remark that nothing is judged, where it is not."""
    return [] if platform.exact else ["On this clock programs take time: nothing is judged."]


def write_rows(
    directory: Path, header: Sequence[str], rows: Iterable[Sequence[object]], name: str = ROWS
) -> None:
    """Write `rows.csv`, or another file of this form."""
    with (directory / name).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def read_rows(directory: Path, name: str = ROWS) -> Iterator[dict[str, str]]:
    """The rows of `rows.csv` by column, or of another file of this form."""
    with (directory / name).open(newline="") as file:
        yield from csv.DictReader(file)
