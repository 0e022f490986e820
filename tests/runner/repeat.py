"""The same run again and again, which goes on where it was stopped, and its lines in a page."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.runner.lanes import Outcome
from tests.runner.table import CHECKOUT

PAGE = CHECKOUT / "docs/lab/benchmarks.md"
# Rows go below the head of the table that follows this comment.
RUNS, LONG = "<!-- runs of scripts/test -->", "<!-- runs of scripts/long -->"
BUSY_LIMIT_S = 3 * 3600
_LOOP = "while :; do :; done"


class OtherForm(Exception):
    """The state file is about other runs; the text says about which."""


@dataclass(frozen=True)
class Repeat:
    """`times` runs of `form` (the options that make it); `state` remembers those that ended."""

    form: str
    times: int
    state: Path
    busy: bool

    def run(self, once: Callable[[], Outcome], page: Path = PAGE) -> bool:
        """Make the runs that are missing. Returns whether all of them, earlier ones too, were good.

        Raises OtherForm if the state file was written by another form.
        """
        results = self._read()
        while len(results) < self.times:
            print(f"=== run {len(results) + 1} of {self.times}: {self.form}", flush=True)
            begun, load = time.monotonic(), os.getloadavg()[0]
            outcome = once()
            verdict = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped"
            beside = (
                f"a busy loop on each of {os.cpu_count()} processors" if self.busy else "nothing"
            )
            took = f"{time.monotonic() - begun:.0f} s"
            append_row(
                page,
                RUNS,
                (today(), commit(), f"`{self.form}`", f"{beside} (load {load:.1f})", verdict, took),
            )
            results.append(outcome.good)
            self._write(results)
        print(f"{sum(results)} of {len(results)} runs without a failure")
        return all(results)

    @property
    def _identity(self) -> dict[str, object]:
        return {"form": self.form, "busy": self.busy}

    def _read(self) -> list[bool]:
        if not self.state.exists():
            return []
        state = json.loads(self.state.read_text(encoding="utf-8"))
        found = {key: state.get(key) for key in self._identity}
        if found != self._identity:
            raise OtherForm(
                f"{self.state} counts runs of {found['form']}"
                f"{' beside a busy loop' if found['busy'] else ''}: give another file, or remove it"
            )
        return list(state["good"])

    def _write(self, results: list[bool]) -> None:
        new = self.state.with_name(f"{self.state.name}.new")
        new.write_text(json.dumps({**self._identity, "good": results}) + "\n", encoding="utf-8")
        new.replace(self.state)


@contextlib.contextmanager
def busy_loops(limit_s: int = BUSY_LIMIT_S) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One shell per processor that only computes.

    They end with us, and each after `limit_s` of CPU time.
    """
    command = ["setpriv", "--pdeathsig", "KILL", "prlimit", f"--cpu={limit_s}", "sh", "-c", _LOOP]
    loops = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.send_signal(signal.SIGKILL)
            loop.wait()


def append_row(page: Path, comment: str, cells: tuple[str, ...], *, replace: bool = False) -> None:
    """Add a row to the table below a comment; with `replace` instead of the row that begins alike.

    Raises ValueError if the page has no such table.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    if comment not in lines:
        raise ValueError(f"{page}: no table below {comment}")
    start = next(
        number
        for number in range(lines.index(comment), len(lines))
        if lines[number].startswith("|")
    )
    end = start
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    row = f"| {' | '.join(cells)} |"
    if replace:
        first = row[: row.index("|", 1) + 1]
        same = [number for number in range(start + 2, end) if lines[number].startswith(first)]
        if same:
            lines[same[0]] = row
            end = -1
    if end >= 0:
        lines.insert(end, row)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def today() -> str:
    """The date of today, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def commit() -> str:
    """The commit that runs, with a + if tracked files differ from it other than by our own rows."""
    describe = ["git", "rev-parse", "--short", "HEAD"]
    short = subprocess.run(describe, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True)
    differing = subprocess.run(
        ["git", "diff", "--quiet", "HEAD", "--", ".", f":!{PAGE.relative_to(CHECKOUT)}"],
        cwd=CHECKOUT,
        check=False,
    )
    return short.stdout.strip() + ("+" if differing.returncode else "")
