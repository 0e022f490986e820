"""From lanes to processes: what each runs, where, and what must be there before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.runner import account, unsteady
from tests.runner.account import TESTS_FAILED, Account, Counts, Failure
from tests.runner.pool import Ended, Job, Pool
from tests.runner.speed import Speed
from tests.runner.table import CHECKOUT, UML_PLACES, Cost, Lane, prerequisite_cost

# tests/conftest.py keeps the tests of the lane that this names.
LANE_VARIABLE = "TSN_TEST_LANE"
# And which tell where a prerequisite is.
PACKAGE_VARIABLES = {"package": "TSN_BOOT_PACKAGE", "cnc-package": "TSN_BOOT_CNC_PACKAGE"}
# Each may start a guest of 2 GB.
MOST_AT_ONCE = 4
SYSTEM_PYTHON = "/usr/bin/python3"
REPORT, OUTPUT = "report.xml", "output"
# More failures than these of one lane, or of a run, are no bad luck.
MOST_OF_A_LANE, MOST_OF_A_RUN = 3, 8
PREREQUISITES: Mapping[str, Callable[[Path], list[str]]] = {
    "image": lambda _: ["scripts/image"],
    "package": lambda directory: ["scripts/build-deb", "-o", str(directory)],
    "cnc-package": lambda directory: ["scripts/build-deb", "--cnc", "-o", str(directory)],
    "first-version": lambda _: ["scripts/upgrade-fixture", "--no-package"],
    "network-managers": lambda _: ["scripts/network-managers"],
}
_NO_KERNEL = """WARNING: no user-mode kernel: the kernel tests run under QEMU, in real time
WARNING: what is exact in virtual time only is NOT tested"""


@dataclass(frozen=True)
class Options:
    """- `pytest`: options for every pytest.
    - `selecting`: these choose tests, so that a lane may be left with none.
    - `processors`: how many lanes run at once.
    - `budget_s`: no lane starts that would end later.
    - `judge_cost`: a short lane over its budget of CPU time has failed; a slower machine has more.
    - `again`: a test that fails runs once more, alone, unless `unsteady` lists it.
    """

    pytest: Sequence[str] = ()
    selecting: bool = False
    processors: int = 1
    budget_s: float = float("inf")
    judge_cost: bool = True
    again: bool = False
    unsteady: tuple[unsteady.Entry, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What all lanes of a run did, and those left out because the time was too short.

    `remarks` say why a test that failed did not run again.
    """

    accounts: tuple[Account, ...]
    left_out: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> int:
        """Tests passed."""
        return sum(account.counts.passed for account in self.accounts)

    @property
    def failed(self) -> int:
        """Tests failed, and lanes that failed without one."""
        return sum(max(account.counts.failed, account.bad) for account in self.accounts)

    @property
    def skipped(self) -> int:
        """Tests skipped."""
        return sum(account.counts.skipped for account in self.accounts)

    @property
    def second(self) -> tuple[str, ...]:
        """Tests that failed, and passed alone."""
        return tuple(test for account in self.accounts for test in account.second)

    @property
    def good(self) -> bool:
        """Whether nothing failed and something ran."""
        return not self.failed and self.passed > 0


class Run:
    """One run of some lanes below a directory for what they write."""

    def __init__(self, lanes: Sequence[Lane], options: Options, directory: Path) -> None:
        self.lanes = {lane.name: lane for lane in lanes}
        self.options = options
        self.directory = directory
        self.accounts: list[Account] = []
        self.remarks: list[str] = []
        self.speed = Speed()
        self._virtual = True
        self._failures = 0
        self._again: dict[str, tuple[Lane, Failure]] = {}

    def run(self) -> Outcome:
        """Run them and what they need; each shows its output when it ends."""
        self._virtual = self._kernel()
        jobs = [*self._prerequisites(), *map(self._job, self.lanes.values())]
        names = ", ".join(job.name for job in jobs)
        print(f"{names}: {self.options.processors} at a time, each shown at its end\n", flush=True)
        pool = Pool(self.options.processors, self._ended, self._last_line, self.options.budget_s)
        with self.speed.measuring():
            left_out = pool.run(jobs)
        return Outcome(
            accounts=tuple(self.accounts),
            left_out=tuple(self._title(job.name) for job in left_out),
            remarks=tuple(self.remarks),
        )

    def cost(self, name: str) -> Cost:
        """What the budget has for a lane or a prerequisite."""
        return self.lanes[name].cost if name in self.lanes else prerequisite_cost(name)

    def _kernel(self) -> bool:
        """Whether there is virtual time: without the user-mode kernel there is none."""
        if not any(lane.place in UML_PLACES for lane in self.lanes.values()):
            return True
        print("=== kernel: a kernel to test in", flush=True)
        if subprocess.run([CHECKOUT / "scripts/vm", "--build"], check=False).returncode == 0:
            return True
        print(_NO_KERNEL, file=sys.stderr, flush=True)
        return False

    def _prerequisites(self) -> list[Job]:
        needed = dict.fromkeys(name for lane in self.lanes.values() for name in lane.needs)
        return [
            Job(
                name=name,
                command=PREREQUISITES[name](self._at(name)),
                output=self._at(name) / OUTPUT,
            )
            for name in needed
        ]

    def _job(self, lane: Lane) -> Job:
        return Job(
            name=lane.name,
            command=command(lane, self._at(lane.name), self.options, self._virtual),
            needs=lane.needs,
            environment=lambda made: {
                **lane.environment,
                LANE_VARIABLE: lane.name,
                **{
                    PACKAGE_VARIABLES[name]: made[name]
                    for name in lane.needs
                    if name in PACKAGE_VARIABLES
                },
            },
            output=self._at(lane.name) / OUTPUT,
            wall_s=lane.cost.wall_s,
        )

    def _ended(self, ended: Ended) -> list[Job]:
        """Account for a job. Returns those that run its failed tests again."""
        name = ended.job.name
        where = self._at(name)
        print(f"=== {self._title(name)}", flush=True)
        if (where / OUTPUT).exists():
            sys.stdout.write((where / OUTPUT).read_text(encoding="utf-8", errors="replace"))
        print(flush=True)
        spent = (ended.wall_s, ended.cpu_s)
        if name in self._again:
            self._ended_again(*self._again[name], ended, account.read(where / REPORT))
            return []
        if name not in self.lanes:
            counts = account.Counts() if ended.status == 0 else None
            made = account.judge(name, counts, ended.status, spent, may_be_empty=True)
        else:
            counts = account.read(where / REPORT)
            made = account.judge(
                name, counts, ended.status, spent, may_be_empty=self.options.selecting
            )
            if self._judges_cost(self.lanes[name]) and not made.bad:
                slowness = self.speed.slowness(ended.wall_s)
                fault = account.over_budget(made, self.lanes[name].cost, slowness)
                made = replace(made, fault=fault)
        self.accounts.append(made)
        if not self.options.again or name not in self.lanes or ended.status != TESTS_FAILED:
            return []
        return self._second_runs(self.lanes[name], made)

    def _second_runs(self, lane: Lane, first: Account) -> list[Job]:
        """A job for each failure that may have been bad luck."""
        failures = first.counts.failures
        self._failures += len(failures)
        if len(failures) > MOST_OF_A_LANE or self._failures > MOST_OF_A_RUN:
            self.remarks.append(
                f"{lane.name}: none of {len(failures)} failures ran again: more than "
                f"{MOST_OF_A_LANE} of a lane, or {MOST_OF_A_RUN} of a run, are no bad luck"
            )
            return []
        jobs = []
        for failure in failures:
            entries = [unsteady.listed(self.options.unsteady, test) for test in failure.tests]
            if known := next(filter(None, entries), None):
                self.remarks.append(
                    f"{known.test} did not run again: {unsteady.FILE} has it since {known.date}"
                )
            elif failure.tests:
                jobs.append(self._second_run(lane, failure, first.wall_s * failure.share))
        return jobs

    def _second_run(self, lane: Lane, failure: Failure, wall_s: float) -> Job:
        name = f"{lane.name}-again-{len(self._again) + 1}"
        self._again[name] = (lane, failure)
        return replace(
            self._job(lane),
            name=name,
            command=command(lane, self._at(name), self.options, self._virtual, failure.tests),
            output=self._at(name) / OUTPUT,
            wall_s=wall_s,
        )

    def _ended_again(
        self, lane: Lane, failure: Failure, ended: Ended, counts: Counts | None
    ) -> None:
        """Take back the failure of a lane whose tests all passed this time."""
        index = next(n for n, made in enumerate(self.accounts) if made.name == lane.name)
        first = self.accounts[index]
        now = replace(first, wall_s=first.wall_s + ended.wall_s, cpu_s=first.cpu_s + ended.cpu_s)
        if ended.status == 0 and counts and counts.passed == len(failure.tests):
            changed = replace(
                first.counts,
                passed=first.counts.passed + len(failure.tests),
                failed=first.counts.failed - failure.results,
            )
            now = replace(now, counts=changed, second=(*first.second, *failure.tests))
        self.accounts[index] = now

    def _title(self, name: str) -> str:
        """What a job is called where it is shown."""
        if name not in self._again:
            return name
        lane, failure = self._again[name]
        return f"{lane.name}, again and alone: {' '.join(failure.tests)}"

    def _judges_cost(self, lane: Lane) -> bool:
        """Whether the budget is about this run: that of a kernel lane is not about emulation."""
        emulated = lane.place in UML_PLACES and not self._virtual
        return self.options.judge_cost and lane.short and not emulated

    def _last_line(self, job: Job) -> str:
        """A script that makes something names it in its last line."""
        lines = (self._at(job.name) / OUTPUT).read_text(encoding="utf-8").splitlines()
        return lines[-1] if lines else ""

    def _at(self, name: str) -> Path:
        where = self.directory / name
        where.mkdir(exist_ok=True)
        return where


def command(
    lane: Lane, directory: Path, options: Options, virtual: bool, tests: Sequence[str] = ()
) -> list[str]:
    """What runs a lane, or some of its tests, its report and other files below `directory`.

    Without `virtual` time the lanes of the user-mode kernel run under QEMU.
    """
    if lane.place == "lint":
        return [SYSTEM_PYTHON, "-m", "tests.runner.lint", str(directory / REPORT)]
    guest = lane.place != "host"
    report = f"/mnt/out/{REPORT}" if guest else str(directory / REPORT)
    pytest = ["pytest", "-q", "--junit-xml", report, *(tests or lane.paths)]
    if lane.processes > 1 and not tests:
        pytest += ["-n", str(lane.processes), "--dist", "loadfile"]
    if not guest:
        return [*pytest, *options.pytest]
    machine = ["scripts/vm", "--out", str(directory), "--memory", "2G", "--timeout", "2400"]
    if lane.place == "qemu" or not virtual:
        machine += ["--qemu"]
    else:
        machine += ["--uml", "--virtual-time"] if lane.place == "uml" else ["--uml"]
    # The root of a guest is copy-on-write, and an emulated one slow.
    pytest += ["-p", "no:cacheprovider", "--override-ini", "timeout=600"]
    return [*machine, "--", *pytest, *options.pytest]
