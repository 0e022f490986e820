"""The command line of `scripts/test`; its usage is at the head of that script."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.runner import changed, order, repeat, table, unsteady
from tests.runner.lanes import MOST_AT_ONCE, Options, Outcome, Run
from tests.runner.table import CHECKOUT, Lane, Table, TableError

QUICK = ("lint", "unit")
# Options of pytest that choose tests.
SELECTING = ("-k", "-m", "--deselect", "--lf", "--last-failed", "--ignore")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; what is unknown here is for pytest."""
    parser = argparse.ArgumentParser(
        prog="scripts/test", add_help=False, allow_abbrev=False, usage="scripts/test --help"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--quick", action="store_true")
    form.add_argument("--all", action="store_true")
    form.add_argument("--changed", nargs="?", const="", metavar="REF")
    form.add_argument("--lane", action="append", metavar="NAME")
    form.add_argument("--timing", action="store_true")
    form.add_argument("--list", action="store_true")
    parser.add_argument("--budget", type=table.seconds, metavar="TIME")
    parser.add_argument("--repeat", type=int, metavar="N")
    parser.add_argument("--state", type=Path, metavar="FILE")
    parser.add_argument("--busy", action="store_true")
    options, others = parser.parse_known_args(argv)
    options.pytest = others
    if (options.repeat is None) != (options.state is None):
        parser.error("--repeat and --state need each other")
    if options.repeat is not None and options.repeat < 1:
        parser.error("--repeat is at least 1")
    if options.busy and not options.repeat:
        parser.error("--busy is for --repeat")
    if options.budget is not None and not options.all:
        parser.error("--budget is for --all")
    return options


def chosen(options: argparse.Namespace, lanes: Table) -> list[Lane]:
    """The lanes that the command line asks for, in the order in which they start.

    Raises TableError for a lane that does not exist, changed.NoSuchReference.
    """
    every = list(lanes.lanes.values())
    if options.lane:
        if unknown := set(options.lane) - lanes.lanes.keys():
            raise TableError(f"no lane {', '.join(sorted(unknown))}: see --list")
        return [lane for lane in every if lane.name in options.lane]
    if options.quick:
        return [lane for lane in every if lane.name in QUICK]
    if options.changed is not None:
        picked, unnamed = changed.lanes(lanes, changed.paths(options.changed or None))
        if unnamed:
            print(f"every lane, since no lane names {', '.join(unnamed)}")
        return picked
    if options.timing:
        return [lane for lane in every if lane.name in {lanes.home(p) for p in lanes.timing}]
    short = short_form(lanes)
    if options.all:
        rest = [lane for lane in every if lane not in short]
        return everything_else(rest, limited=options.budget is not None)
    for lane in every:
        if lane.short and lane not in short:
            print(f"{lane.name}: no change starts it here; --all begins with it")
    return short


def short_form(lanes: Table) -> list[Lane]:
    """The lanes of the short form. Where nothing can be compared, nothing has changed; a path that
    no lane names starts none, so that a file which the tests leave behind changes no answer."""
    named: set[str] = set()
    with contextlib.suppress(changed.NoSuchReference):
        for path in changed.paths(None):
            named |= set(changed.named_by(lanes, path))
    return [
        lane
        for lane in lanes.lanes.values()
        if lane.short and (lane.name in named or not lane.when_changed)
    ]


def everything_else(rest: Sequence[Lane], *, limited: bool) -> list[Lane]:
    """The lanes of `--all`; where the time is limited without those whose turn it is not."""
    number = commits()
    later = order.waiting(rest, number) if limited else []
    for lane in later:
        print(f"{lane.name}: once in {lane.once_in} commits, and not at this one")
    return order.at_commit([lane for lane in rest if lane not in later], number)


def runs_again(options: argparse.Namespace) -> bool:
    """Whether a test that fails runs once more: not where runs are counted, nor after an option of
    pytest such as -x, with which the others may not have run at all."""
    return options.all and options.repeat is None and not options.pytest


def commits() -> int:
    """How many commits the checkout has; 0 outside a repository."""
    command = ["git", "rev-list", "--count", "HEAD"]
    counted = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=False)
    return int(counted.stdout) if counted.returncode == 0 else 0


def run_once(lanes: Sequence[Lane], options: Options) -> Outcome:
    """Run the lanes and show what came of each."""
    with tempfile.TemporaryDirectory(prefix="tsn-test-") as directory:
        run = Run(lanes, options, Path(directory))
        outcome = run.run()
    print()
    for account in outcome.accounts:
        print(account.line(run.cost(account.name)))
    for reason in [reason for account in outcome.accounts for reason in account.counts.reasons]:
        print(f"skipped: {reason}")
    for remark in outcome.remarks:
        print(remark)
    for name in outcome.left_out:
        print(f"left out, since the time does not suffice: {name}")
    print(f"\n{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped")
    if outcome.second:
        show_second_runs(outcome.second)
    return outcome


def show_second_runs(tests: Sequence[str]) -> None:
    """Print the tests that failed and then passed as entries of tests/unsteady.toml."""
    today, commit = datetime.date.fromisoformat(repeat.today()), repeat.commit()
    print(f"passed on second run: {len(tests)}. Find out why, and add to {unsteady.FILE}:\n")
    for test in tests:
        print(unsteady.text(unsteady.Entry(test, today, commit, "nothing yet")))


def listing(lanes: Table) -> None:
    """Print every lane with its cost."""
    for lane in lanes.lanes.values():
        form = "short" if lane.short else "--all"
        when = ", where a change starts it; else --all" if lane.when_changed else ""
        if lane.once_in > 1:
            when = f", with a budget at one commit in {lane.once_in}"
        print(f"{lane.name:18} {form:6} {lane.place:5} {lane.cost.cpu_s:5.0f} s CPU{when}")


def spare(picked: Sequence[Lane]) -> int:
    """How many lanes run beside those that the processors are for: where all are short, the one
    that waits for servers is always among them."""
    return 1 if len(picked) > 1 and all(each.short for each in picked) else 0


def main(argv: Sequence[str]) -> int:
    """Exit code: 0 all passed, 1 something failed, 2 bad arguments."""
    options = parse(argv)
    try:
        lanes, listed = table.load(), unsteady.load()
        if options.list:
            listing(lanes)
            return 0
        picked = chosen(options, lanes)
    except (TableError, changed.NoSuchReference) as error:
        print(f"scripts/test: {error}", file=sys.stderr)
        return 2
    if subprocess.run([CHECKOUT / "scripts/setup"], check=False).returncode != 0:
        return 1
    table.use_environment()
    pytest = [*options.pytest, *(["-m", "timing"] if options.timing else [])]
    how = Options(
        pytest=pytest,
        selecting=any(option.startswith(SELECTING) for option in pytest),
        processors=min(os.cpu_count() or 1, MOST_AT_ONCE) + spare(picked),
        budget_s=options.budget or float("inf"),
        judge_cost=not options.busy and not pytest,
        again=runs_again(options),
        unsteady=listed,
    )
    if not options.repeat:
        return 0 if run_once(picked, how).good else 1
    return repeated(argv, options, picked, how)


def repeated(
    argv: Sequence[str], options: argparse.Namespace, picked: Sequence[Lane], how: Options
) -> int:
    """`--repeat`: 0 if every run was good."""
    left = iter(argv)
    words = []
    for word in left:
        if word in ("--repeat", "--state"):
            next(left)
        elif not word.startswith(("--repeat=", "--state=", "--busy")):
            words.append(word)
    form = shlex.join(["scripts/test", *words])
    runs = repeat.Repeat(form, options.repeat, options.state, options.busy)

    def once() -> Outcome:
        if not options.busy:
            return run_once(picked, how)
        with repeat.busy_loops():
            return run_once(picked, how)

    try:
        return 0 if runs.run(once) else 1
    except repeat.OtherForm as error:
        print(f"scripts/test: {error}", file=sys.stderr)
        return 2


def stop(number: int, _frame: object) -> None:
    """Leave through every finally, so that no test outlives us."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    sys.exit(main(sys.argv[1:]))
