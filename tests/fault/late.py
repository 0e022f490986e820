"""Holds each RPC of a push to one switch, and delivers it later: at each moment, in each way.

Three rehearsed switches, and several such networks side by side; see docs/operate/rollout.md.
Exit code: 0 every row was met and is sound, 1 one is not, 2 bad arguments.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fault.late_bench import late_bench
from tests.fault.late_table import (
    Case,
    LateRow,
    from_json,
    summary,
    to_markdown,
)
from tests.fault.link import Way
from tests.fault.moments import Moment
from tests.fault.table import Recovery, to_json

CHECKOUT = Path(__file__).parents[2]
NETWORKS = 4
# A row that a slow machine missed is tried again.
ATTEMPTS = 3
HEAD = """\
# Late delivery of an RPC

Made by `scripts/long late-link`; not written by hand. Each cell is one `cnc push` to three switches
in a line, with real agents, sysrepo and NETCONF servers, and ports in memory. One RPC to the second
switch is held on its way by a TCP proxy before its NETCONF server, and delivered later. *Old* and
*new* name the schedule that **all** ports run after it.

- RPCs are those of a push in which nothing fails, in order; the first answers are fast. A number
  distinguishes repeated ones. `commit persist-id` is the confirming commit.
- Held is either the link, both ways and with new connections, as a link that is down does; or the
  connection alone, and only what the controller sends: answers pass, and so do new connections.
  That the controller has ended a connection is delivered a second after what it sent before.
- *Before the revert* is 1 s after it is held, while the controller waits for the answer; *between
  revert and base time* 0.6 s before the base time; *after the base time* 0.5 s after it; *after cnc
  has ended* 0.5 s after that, which may be before the base time. Where no base time has been chosen
  yet, the earliest that could be is taken for it.
- A row is sound if all ports end on one schedule and all switches with one rollout id, nothing
  waits and nothing is locked; and if gates of both schedules were never in force at one time. These
  are read from what every change has left in the ports, with its instant.
- `--resume` or `--rollback` marks rows in which an operator had to choose; half of these rows used
  the one and half the other. *Mixed* is the time during which gates of both schedules were in force
  until then. The harness chooses when the push has ended and what was held is delivered. The
  rollout that it starts changes the switches that differ, so that two rollout ids are left.
- Rows in which the RPC was not reached, or which the machine was too slow to deliver at the moment
  named, say so and are not counted.

"""


def main() -> int:
    options = _parser().parse_args()
    if options.part:
        return _walk(options)
    begun_s = time.monotonic()
    with TemporaryDirectory() as directory:
        files = [Path(directory, f"{number}.json") for number in range(options.networks)]
        wanted = [part for case in options.case for part in ("--case", *case)]
        parts = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.fault.late", *wanted),
                    *("--json", file, "--part", f"{number}/{options.networks}"),
                ],
                cwd=CHECKOUT,
            )
            for number, file in enumerate(files, start=1)
        ]
        statuses = [part.wait() for part in parts]
        found = [row for file in files if file.exists() for row in from_json(file.read_text())]
    rows = sorted(found, key=lambda row: row.number)
    options.json.write_text(to_json(rows))
    if options.table:
        options.table.write_text(f"{HEAD}{summary(rows)}\n\n{to_markdown(rows)}")
    print(summary(rows))
    print(f"{options.networks} networks side by side, {time.monotonic() - begun_s:.0f} s")
    return 0 if rows and not any(statuses) and all(row.is_sound for row in rows) else 1


def cases(steps: Sequence[str]) -> list[Case]:
    """Every RPC in every way at every moment; the operator's choices alternate."""
    every = enumerate(product(enumerate(steps), Way, enumerate(Moment)), start=1)
    choices = (Recovery.RESUME, Recovery.ROLLBACK)
    return [
        Case(number, step, way, moment, choices[(line + column) % len(choices)])
        for number, ((line, step), way, (column, moment)) in every
    ]


def _walk(options: argparse.Namespace) -> int:
    """One network's part of the rows."""
    number, _, count = options.part.partition("/")
    done: list[LateRow] = []
    with ExitStack() as stack:
        bench = stack.enter_context(late_bench())
        wanted = {(step, Way(way), Moment(moment)) for step, way, moment in options.case}
        chosen = [
            case
            for case in cases(bench.steps())
            if not wanted or (case.step, case.way, case.moment) in wanted
        ]
        for case in _part(chosen, int(number) - 1, int(count)):
            for _ in range(ATTEMPTS):
                row = bench.row(case)
                print(row, flush=True)
                if not row.is_one:
                    print(bench.log(), file=sys.stderr)
                if row.outcome == "mixed" or not row.is_at_rest:
                    stack.close()  # from which no further row can begin
                    bench = stack.enter_context(late_bench())
                    bench.steps()
                else:
                    bench.go_on_after(row)
                if row.is_counted:
                    break
            done.append(row)
            options.json.write_text(to_json(done))
    return 0 if all(row.is_sound for row in done) else 1


def _part(chosen: Sequence[Case], number: int, count: int) -> list[Case]:
    """Cases of every moment, for some take longer."""
    moments = len(Moment)
    return [case for at, case in enumerate(chosen) if (at + at // moments) % count == number]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fault.late", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--json", type=Path, default=Path("/dev/null"), metavar="FILE")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="docs/lab/late-link.md is made so"
    )
    parser.add_argument("--networks", type=int, default=NETWORKS, metavar="N")
    parser.add_argument(
        "--case",
        nargs=3,
        action="append",
        default=[],
        metavar=("STEP", "WAY", "MOMENT"),
        help="only this one, and others so named",
    )
    parser.add_argument("--part", metavar="I/N", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
