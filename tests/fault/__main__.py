"""Runs the matrix, or a part of it, in the kernel it is started in; see scripts/fault-matrix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cnc.model import NS_PER_S
from tests.fault.matrix import Case, Walk, cases, distinct
from tests.fault.network import STRUCK, Subject
from tests.fault.table import Fault, Row, from_json, of_bridges, to_json


def main() -> int:
    """Exit status 0 if every row is sound, else 1."""
    options = _parser().parse_args()
    known = {(row.step, row.fault) for row in _rows(options.known)}
    done: list[Row] = []
    options.json.write_text(to_json(done))  # there may be none to run
    with Walk(
        options.network, is_attacked=not options.without_attackers, struck=options.switch
    ) as walk:
        steps = walk.steps()
        for case in filter(_chosen(options, steps), cases(steps)):
            if (case.step, case.fault) in known:
                continue
            if options.list:
                print(f"{case.number:4} {case.step} | {case.fault}")
                continue
            row = walk.row(case)
            print(_line(row), flush=True)
            if not row.is_sound and options.logs:
                (options.logs / f"row-{row.number}.log").write_text(walk.logs())
            walk.go_on_after(row)
            done.append(row)
            options.json.write_text(to_json(done))
    return 0 if all(row.is_sound for row in done) else 1


def _rows(file: Path | None) -> list[Row]:
    return from_json(file.read_text()) if file else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fault", description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("/dev/null"), metavar="FILE")
    parser.add_argument(
        "--logs", type=Path, metavar="DIR", help="keep what the programs said in an unsound row"
    )
    parser.add_argument("--known", type=Path, metavar="FILE", help="leave out the rows in it")
    parser.add_argument("--network", type=Subject, choices=list(Subject), default=Subject.LINE)
    parser.add_argument("--switch", default=STRUCK, metavar="NAME", help="strike this one")
    parser.add_argument(
        "--without-attackers", action="store_true", help="leave the switches' servers in peace"
    )
    parser.add_argument("--list", action="store_true", help="number the rows; run none")
    parser.add_argument("--rows", metavar="A-B", help="only rows with these numbers")
    parser.add_argument("--only", type=Fault, choices=list(Fault), metavar="FAULT")
    parser.add_argument("--step", default="", metavar="TEXT", help="only steps named so")
    parser.add_argument(
        "--distinct",
        action="store_true",
        help="of requests one after another by which the agent only asks, only the first",
    )
    parser.add_argument(
        "--case",
        nargs=2,
        action="append",
        default=[],
        metavar=("STEP", "FAULT"),
        help="only this one, and others so named",
    )
    parser.add_argument("--part", metavar="I/N", help="of N parts of all steps, the I-th")
    return parser


def _chosen(options: argparse.Namespace, steps: Sequence[str]) -> Callable[[Case], bool]:
    first, _, last = (options.rows or "").partition("-")
    part, _, parts = (options.part or "1/1").partition("/")
    named = {(step, Fault(fault)) for step, fault in options.case}
    places = {step: at for at, step in enumerate(distinct(steps) if options.distinct else steps)}

    def is_chosen(case: Case) -> bool:
        return (
            case.step in places
            and int(first or 0) <= case.number <= int(last or first or sys.maxsize)
            and options.only in (None, case.fault)
            and options.step in case.step
            and (not named or (case.step, case.fault) in named)
            and places[case.step] % int(parts) == int(part) - 1
        )

    return is_chosen


def _line(row: Row) -> str:
    mixed = f", mixed in force for {row.mixed_ns / NS_PER_S:.3f} s" if row.mixed_ns else ""
    verdict = row.outcome if row.has_struck else "NOT REACHED"
    attacked = "" if row.attacks is None else f", {row.attacks} requests of each attacker"
    return (
        f"{row.number:4} {verdict:5} {row.step} | {row.fault}: {row.ports_on_old} old, "
        f"{row.ports_on_new} new, push exit {row.controller_exit}, recovery {row.recovery}{mixed}"
        f"{attacked}{''.join(f', {said}' for said in of_bridges(row))}"
    )


if __name__ == "__main__":
    sys.exit(main())
