"""Processes side by side, as many as there are processors, each with what it took.

CPU time is that of a process and of every descendant that was waited for, guests included
(wait4(2)): other work on the machine hardly changes it, unlike the time from start to end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

GRACE_S = 20.0


@dataclass(frozen=True)
class Job:
    """- `needs`: names of jobs that must have succeeded before.
    - `environment`: further variables, from what the jobs that others need wrote last, by name.
    - `output`: where stdout and stderr go; None leaves them to the terminal.
    - `wall_s`: how long it is expected to take, for a budget.
    """

    name: str
    command: list[str]
    needs: tuple[str, ...] = ()
    environment: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _: {}
    output: Path | None = None
    wall_s: float = 0.0


@dataclass(frozen=True)
class Ended:
    """`status` is the exit code, 128 + n for signal n; None if the job did not start because one
    that it needs failed."""

    job: Job
    status: int | None
    wall_s: float
    cpu_s: float


@dataclass
class Pool:
    """Runs jobs in their order, skipping over those that have to wait.

    - `slots`: how many run at once.
    - `ended`: called with each job that has ended; returns those to start next, before others.
    - `result`: what a job that others need wrote last.
    - `budget_s`: no job starts that is expected to end later than this after `run` began.
    """

    slots: int
    ended: Callable[[Ended], Iterable[Job]]
    result: Callable[[Job], str]
    budget_s: float = float("inf")
    _results: dict[str, str] = field(default_factory=dict)
    _running: dict[int, tuple[Job, float]] = field(default_factory=dict)

    def run(self, jobs: Iterable[Job]) -> list[Job]:
        """Run them all. Returns those for which the budget was too short.

        However it is left, no job is running afterwards.
        """
        waiting, left_out, begun = list(jobs), [], time.monotonic()
        failed: set[str] = set()
        try:
            while waiting or self._running:
                for job in list(waiting):
                    if failed & set(job.needs):
                        waiting.remove(job)
                        self.ended(Ended(job, None, 0.0, 0.0))
                    elif time.monotonic() - begun + job.wall_s > self.budget_s:
                        waiting.remove(job)
                        left_out.append(job)
                    elif self._fits(job):
                        waiting.remove(job)
                        self._start(job)
                if not self._running:
                    if waiting and not failed:
                        names = ", ".join(job.name for job in waiting)
                        raise RuntimeError(f"nothing makes what these need: {names}")
                    continue
                ended = self._wait()
                if any(ended.job.name in job.needs for job in waiting):
                    if ended.status == 0:
                        self._results[ended.job.name] = self.result(ended.job)
                    else:
                        failed.add(ended.job.name)
                waiting[:0] = self.ended(ended)
        finally:
            self._stop()
        return left_out

    def _fits(self, job: Job) -> bool:
        return len(self._running) < self.slots and self._results.keys() >= set(job.needs)

    def _start(self, job: Job) -> None:
        with contextlib.ExitStack() as files:
            output = files.enter_context(job.output.open("wb")) if job.output else None
            process = subprocess.Popen(
                job.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **job.environment(self._results)},
                start_new_session=True,
            )
        self._running[process.pid] = (job, time.monotonic())
        process.returncode = 0  # `_wait` waits for it: subprocess must not

    def _wait(self) -> Ended:
        while True:
            pid, status, usage = os.wait4(-1, 0)
            if pid in self._running:
                job, begun = self._running.pop(pid)
                _signal(pid, signal.SIGKILL)  # what it started and left
                code = os.waitstatus_to_exitcode(status)
                cpu_s = usage.ru_utime + usage.ru_stime
                return Ended(
                    job, code if code >= 0 else 128 - code, time.monotonic() - begun, cpu_s
                )

    def _stop(self) -> None:
        """End what still runs as Ctrl-C does, so that pytest tears down, and then for good."""
        for group in self._running:
            _signal(group, signal.SIGINT)
        deadline = time.monotonic() + GRACE_S
        while self._running:
            pid, _, _ = os.wait4(-1, os.WNOHANG)
            if self._running.pop(pid, None):
                _signal(pid, signal.SIGKILL)
            elif time.monotonic() < deadline:
                time.sleep(0.05)
            else:
                for group in self._running:
                    _signal(group, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
