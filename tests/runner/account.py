"""What a lane did: the tests it counted, and whether it stayed within its budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.runner.table import Cost

# CPU time differs with what runs beside; twice as much on one machine is another program.
ALLOWED = 1.5


@dataclass(frozen=True)
class Counts:
    """Tests by result; `reasons` has a line for each one skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Account:
    """One lane's run. `cpu_s` is that of its processes and guests.

    `fault` says why it failed where no test did.
    """

    name: str
    counts: Counts
    wall_s: float
    cpu_s: float
    fault: str | None = None

    @property
    def bad(self) -> bool:
        """Whether the run has failed."""
        return bool(self.counts.failed or self.fault)

    def line(self, cost: Cost) -> str:
        """For the summary."""
        counts = self.counts
        line = (
            f"{self.name:18} {counts.passed:5} passed {counts.failed:4} failed "
            f"{counts.skipped:4} skipped {self.wall_s:6.0f} s wall {self.cpu_s:6.0f} s CPU "
            f"of {cost.cpu_s:.0f}"
        )
        return f"{line}  FAILED: {self.fault}" if self.fault else line


def read(junit: Path) -> Counts | None:
    """The counts of a report that pytest wrote; None if there is none."""
    try:
        suites = list(ElementTree.parse(junit).iter("testsuite"))  # noqa: S314  our own pytest wrote it
    except (OSError, ElementTree.ParseError):
        return None
    counted = [
        sum(int(suite.get(key, 0)) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    ]
    total, failures, errors, skipped = counted
    reasons = tuple(
        f"{case.get('classname')}.{case.get('name')}: {why.get('message')}"
        for suite in suites
        for case in suite.iter("testcase")
        for why in case.iter("skipped")
    )
    return Counts(total - failures - errors - skipped, failures + errors, skipped, reasons)


def judge(
    name: str,
    counts: Counts | None,
    status: int | None,
    spent: tuple[float, float],
    *,
    may_be_empty: bool = False,
) -> Account:
    """The account of a lane that exited with `status`, or that did not start (None).

    - `spent`: seconds from start to end, and of CPU time.
    - `may_be_empty`: options of pytest chose the tests, and may have chosen none here.

    A lane that died, or ran nothing, has failed even if no test has.
    """
    fault = None
    if status is None:
        fault = "what it needs could not be made"
    elif counts is None or (status != 0 and not counts.failed and status != NOTHING_COLLECTED):
        fault = f"ended with {status} and no failed test: see its output"
    elif not counts.passed and not counts.failed and not may_be_empty:
        fault = "ran nothing"
    return Account(name, counts or Counts(), *spent, fault)


# pytest's own exit code.
NOTHING_COLLECTED = 5


def over_budget(account: Account, cost: Cost, slowness: float = 1.0) -> str | None:
    """The fault of an account that took too much CPU time, or None.

    - `slowness`: how many times as much of it things take here as where the budget was measured.
    """
    if account.cpu_s <= cost.cpu_s * slowness * ALLOWED:
        return None
    here = f" on a machine {slowness:.1f} times as slow" if slowness > 1 else ""
    return (
        f"{account.cpu_s:.0f} s of CPU time{here}, more than {ALLOWED} times the "
        f"{cost.cpu_s:.0f} s of tests/budget.toml"
    )
