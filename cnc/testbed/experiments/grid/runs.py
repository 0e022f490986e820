"""Runs points of a grid side by side, each as `cnc lab measure` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from cnc.errors import InputError
from cnc.testbed import experiments
from cnc.testbed.experiments.experiment import Emulated, Experiment, OnKernels
from cnc.testbed.experiments.grid.points import Point
from cnc.testbed.lab import vm

LOG = "measure.log"
_KILL_AFTER_S = 30  # what a run needs to take down its lab


class Ended(NamedTuple):
    """A run that has ended by itself, after so many seconds."""

    point: Point
    exit_code: int
    took_s: float


class Place(Protocol):
    """Where runs go on."""

    def run(self, points: Sequence[Point], directory: Path) -> Iterator[Ended]:
        """Run all points, each with its results in the directory of its name in `directory`, and
        tell of each that has ended. What it prints is in `measure.log` there."""

    def stop(self) -> None:
        """End the runs, as Ctrl-C does, and begin no other. For signal handlers."""


def command(file: Path, directory: Path) -> list[str]:
    """The run of the experiment `file`, with its results in `directory`."""
    return [sys.executable, "-m", "cnc", "lab", "measure", str(file), "-o", str(directory)]


def boots_a_kernel(experiment: Experiment | None) -> bool:
    """Whether a run has a kernel and a clock of its own, so that others may go on beside it."""
    return isinstance(experiment, OnKernels) or (
        isinstance(experiment, Emulated)
        and "TSN_VM" not in os.environ
        and not vm.own_kernel_has_taprio()
    )


class Processes:
    """Processes of this machine, so many at a time; by default one a processor, and one where it
    measures on the machine's own kernel and clock.

    Raises:
        InputError: there are to be several of these.
    """

    def __init__(self, experiment: Experiment | None, wanted: int | None) -> None:
        boots = boots_a_kernel(experiment)
        if wanted is not None and wanted > 1 and not boots:
            raise InputError(
                f"--jobs: found {wanted}, expected 1: nothing may run beside a measurement on "
                "this machine's own kernel and clock"
            )
        self.count = wanted or (len(os.sched_getaffinity(0)) if boots else 1)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, points: Sequence[Point], directory: Path) -> Iterator[Ended]:
        with ThreadPoolExecutor(self.count, "point") as executor:
            begun = [executor.submit(self._run, point, directory / point.name) for point in points]
            try:
                for future in as_completed(begun):
                    if ended := future.result():
                        yield ended
            except BaseException:  # also that nobody wants the others any more
                self.stop()
                raise

    def stop(self) -> None:
        self._stopped = True
        for process in list(self._running):
            _signal(process, signal.SIGINT)

    def _run(self, point: Point, directory: Path) -> Ended | None:
        """None if it was stopped."""
        if self._stopped:
            return None
        begun_s = time.monotonic()
        file = point.write(directory)
        with (directory / LOG).open("wb") as log:
            # A group of its own: Ctrl-C in the terminal comes by way of `stop`, and reaches all.
            process = subprocess.Popen(
                command(file, directory),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        self._running.add(process)
        try:
            if self._stopped:  # between the start and the line before
                _signal(process, signal.SIGINT)
            code = self._wait(process)
        finally:
            self._running.discard(process)
        if self._stopped:
            return None
        return Ended(point, 1 if code < 0 else code, time.monotonic() - begun_s)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        stopped_s: float | None = None
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(1)
            if self._stopped:
                stopped_s = stopped_s or time.monotonic()
                if time.monotonic() - stopped_s > _KILL_AFTER_S:
                    _signal(process, signal.SIGKILL)


def forget(points: Sequence[Point], directory: Path) -> None:
    """Remove the summaries that a former grid may have left below `directory`."""
    for point in points:
        (directory / point.name / experiments.SUMMARY).unlink(missing_ok=True)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
