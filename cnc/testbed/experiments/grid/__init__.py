"""Experiments with other values for keys of their file or intent: a grid of runs, or one of them.

FILE, --set ─► points ─► runs, side by side ─► DIR/POINT/…, one directory each
                                                    │
         grid.csv, summary.json, report.html ◄─ results
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cnc.testbed.experiments import description
from cnc.testbed.experiments.experiment import Progress, Report
from cnc.testbed.experiments.grid import results
from cnc.testbed.experiments.grid.elsewhere import Cluster
from cnc.testbed.experiments.grid.points import Point, points
from cnc.testbed.experiments.grid.results import TABLE
from cnc.testbed.experiments.grid.runs import LOG, Place, Processes, forget

__all__ = ["TABLE", "Grid", "MeasuredGrid", "Point", "place_of", "points"]


@dataclass(frozen=True, slots=True)
class MeasuredGrid:
    """What came of a grid: `exit_code` is the worst of its points, `ended` how many of them have
    ended by themselves."""

    report: Report
    exit_code: int
    ended: int


class Grid:
    """The runs of several points of the experiment `file`, with their results below `directory`."""

    def __init__(
        self, file: Path, directory: Path, its_points: Sequence[Point], place: Place
    ) -> None:
        self._file = file
        self._directory = directory
        self._points = its_points
        self._place = place

    def run(
        self, progress: Progress = lambda _: None, *, command: str | None = None
    ) -> MeasuredGrid:
        """Run all points, and write the table of those that have ended.

        `command` is the command line that asked for it.

        Raises:
            CncError: the place takes no runs.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        forget(self._points, self._directory)
        codes: dict[str, int] = {}
        for point, code, took_s in self._place.run(self._points, self._directory):
            codes[point.name] = code
            log = self._directory / point.name / LOG
            outcome = "agrees" if code == 0 else f"ended with exit code {code} (see {log})"
            count = f"{len(codes)} of {len(self._points)}"
            progress(f"{count}: {point.name} {outcome}, {took_s:.0f} s")
        rows = results.read_rows(self._points, codes, self._directory)
        its = description.load(self._file)
        report = results.write(self._directory, self._file, its, rows, command)
        return MeasuredGrid(report, max(codes.values(), default=0), len(codes))

    def stop(self) -> None:
        """End the runs that go on; what has ended stays. For signal handlers."""
        self._place.stop()


def place_of(its_points: Sequence[Point], jobs: int | None, dask: str | None) -> Place:
    """Where the runs of a grid go on: `jobs` processes of this machine, or the workers of the Dask
    scheduler at `HOST:PORT`.

    Raises:
        InputError: what is to go on side by side measures on a machine's own kernel and clock.
    """
    experiment = next((point.experiment for point in its_points if point.experiment), None)
    return Cluster(dask) if dask else Processes(experiment, jobs)
