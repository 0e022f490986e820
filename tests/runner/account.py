"""What a lane did: the tests it counted, and whether it stayed within its budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.runner.table import Cost

# CPU time differs with what runs beside; twice as much on one machine is another program.
ALLOWED = 1.5


@dataclass(frozen=True)
class Failure:
    """A test that failed, or those of a file whose one setup failed.

    - `tests`: their node ids; none where what failed is no test, as a file that cannot be imported.
    - `results`: how many results of the report these are.
    - `share`: which part of the time of all tests those of its file took. Seconds would be those of
      a guest, whose time may be virtual.
    """

    tests: tuple[str, ...]
    results: int = 1
    share: float = 1.0


@dataclass(frozen=True)
class Counts:
    """Tests by result; `reasons` has a line for each one skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class Account:
    """One lane's run. `cpu_s` is that of its processes and guests.

    - `fault`: why it failed where no test did.
    - `second`: tests that passed on their second run; `counts` has them as passed.
    """

    name: str
    counts: Counts
    wall_s: float
    cpu_s: float
    fault: str | None = None
    second: tuple[str, ...] = ()

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
        line += f"  passed on second run: {len(self.second)}" if self.second else ""
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
    passed = total - failures - errors - skipped
    failed = _failures([case for suite in suites for case in suite.iter("testcase")])
    return Counts(passed, failures + errors, skipped, reasons, failed)


def _failures(cases: Iterable[ElementTree.Element]) -> tuple[Failure, ...]:
    took: dict[str, float] = defaultdict(float)
    found: dict[object, list[ElementTree.Element]] = {}
    for case in cases:
        where = case.get("classname", "")
        took[where] += float(case.get("time", 0))
        for why in (*case.iter("failure"), *case.iter("error")):
            message = why.get("message", "")
            setup = message.startswith("failed on setup")
            found.setdefault((where, message if setup else case.get("name")), []).append(case)
    whole = sum(took.values())
    return tuple(
        Failure(
            tests=tuple(dict.fromkeys(test for case in same if (test := _node_id(case)))),
            results=len(same),
            share=took[same[0].get("classname", "")] / whole if whole else 1.0,
        )
        for same in found.values()
    )


def _node_id(case: ElementTree.Element) -> str | None:
    """What pytest calls the test of a report; None if it is of no file."""
    names = case.get("classname", "").split(".")
    for number in range(1, len(names) + 1):
        file = f"{'/'.join(names[:number])}.py"
        if Path(file).exists():
            return "::".join([file, *names[number:], case.get("name", "")])
    return None


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


# pytest's own exit codes.
TESTS_FAILED = 1
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
