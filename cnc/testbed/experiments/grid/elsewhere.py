"""Runs points of a grid on the machines of a Dask cluster, as the planner's searches run there."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from pathlib import Path
from typing import NamedTuple

from cnc.planner.executors import open_executor
from cnc.testbed.experiments.grid.points import EXPERIMENT, Point
from cnc.testbed.experiments.grid.runs import LOG, Ended, command


class _Results(NamedTuple):
    exit_code: int
    took_s: float
    files: Mapping[str, bytes]


class Cluster:
    """The workers of the Dask scheduler at `HOST:PORT`; each has the same version installed, and
    boots kernels as this machine does.

    A worker comes to the end of a run that it has begun when `stop` is called.
    """

    def __init__(self, address: str) -> None:
        self._where = f"dask://{address}"
        self._begun: list[Future[_Results]] = []
        self._stopped = False

    def run(self, points: Sequence[Point], directory: Path) -> Iterator[Ended]:
        """As `Place.run`.

        Raises:
            InputError: it is no address, or Dask is not installed.
            CncError: no scheduler answers, or its workers do not fit.
        """
        with open_executor(self._where) as executor:
            assert executor is not None  # noqa: S101  a cluster is never this process
            begun = {executor.submit(_measured, dict(point.files)): point for point in points}
            self._begun.extend(begun)
            for future in as_completed(begun):
                try:
                    results = future.result()
                except CancelledError:
                    if self._stopped:
                        continue
                    raise  # the scheduler is gone
                point = begun[future]
                place = directory / point.name
                point.write(place)
                for name, content in results.files.items():
                    (place / name).write_bytes(content)
                yield Ended(point, results.exit_code, results.took_s)

    def stop(self) -> None:
        self._stopped = True
        for future in self._begun:
            future.cancel()


def _measured(files: Mapping[str, str]) -> _Results:
    """Run the experiment that `files` describe on this machine; what it leaves."""
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cnc-point-") as scratch:
        for name, text in files.items():
            Path(scratch, name).write_text(text)
        out = Path(scratch, "out")
        out.mkdir()
        with (out / LOG).open("wb") as log:
            done = subprocess.run(
                command(Path(EXPERIMENT), Path(out.name)),
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        left = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    code = 1 if done.returncode < 0 else done.returncode
    return _Results(code, time.monotonic() - begun_s, left)
