"""Runs the blocks of pages, a session for each page and place, and judges each block."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from blocks import NOWHERE, Block, Command
from output import alike
from places import CHECKOUT, PLACES, workspace


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a block; `exit_code` is None where it was not run, or did not end."""

    file: str
    line: int
    place: str
    exit_code: int | None
    expected_exit_code: int
    seconds: float
    fault: str = ""
    not_run: str = ""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Outcome:
    code: int | None
    seconds: float
    output: str


def check(blocks: Iterable[Block]) -> Iterator[Result]:
    """Every block's result, page by page. Sessions do not know of each other: as many run at a
    time as there are processors."""
    ordered = sorted(blocks, key=lambda b: (str(b.page), [*PLACES, NOWHERE].index(b.place), b.line))
    sessions = [list(found) for _, found in groupby(ordered, key=lambda b: (b.page, b.place))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in pool.map(_session, sessions):
            yield from results


def _left_out(block: Block) -> Result:
    missing = [name for name in block.covered_by if not (CHECKOUT / name).exists()]
    why = block.reason or f"run by {' '.join(block.covered_by)}"
    fault = f"covered-by names no file: {' '.join(missing)}" if missing else ""
    return _result(block, None, 0.0, fault=fault, not_run=why)


def _session(blocks: list[Block]) -> list[Result]:
    """Run blocks of one page and one place, in one shell."""
    place = blocks[0].place
    if place == NOWHERE:
        return [_left_out(block) for block in blocks]
    steps = [(block, command) for block in blocks for command in (*block.setup, *block.commands)]
    with workspace() as work, tempfile.TemporaryDirectory(prefix="tsn-docs-steps-") as name:
        directory = Path(name)
        for number, (_, command) in enumerate(steps):
            (directory / f"{number:04}.step").write_text(command.text, encoding="utf-8")
        said = PLACES[place](directory, work)
        outcomes = [_outcome(directory, number) for number in range(len(steps))]
    run = list(zip(steps, outcomes, strict=True))
    return [_judged(block, [(c, o) for (b, c), o in run if b is block], said) for block in blocks]


def _outcome(directory: Path, number: int) -> _Outcome:
    begun, out, code = (directory / f"{number:04}.{kind}" for kind in ("begun", "out", "code"))
    output = out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""
    if not code.exists():
        return _Outcome(None, 0.0, output)
    # The times of the files are this machine's, also where the clock of a guest stands still.
    seconds = code.stat().st_mtime - begun.stat().st_mtime
    return _Outcome(int(code.read_text()), seconds, output)


def _judged(block: Block, run: list[tuple[Command, _Outcome]], said: str) -> Result:
    seconds = sum(outcome.seconds for _, outcome in run)
    for number, (command, outcome) in enumerate(run, 1):
        expected = block.exit_code if number == len(run) else 0
        fault = _fault(command, outcome, expected, said)
        if fault:
            return _result(block, outcome.code, seconds, fault=fault)
    return _result(block, run[-1][1].code, seconds)


def _fault(command: Command, outcome: _Outcome, expected: int, said: str) -> str:
    text = command.text.rstrip()
    if outcome.code is None:
        return f"$ {text}\ndid not end; it printed\n{outcome.output}{said}"
    if outcome.code != expected:
        return f"$ {text}\nexit code {outcome.code}, not {expected}; it printed\n{outcome.output}"
    if command.output is not None and not alike(command.output, outcome.output):
        return f"$ {text}\nthe page shows\n{command.output}\nit printed\n{outcome.output}"
    return ""


def _result(
    block: Block, code: int | None, seconds: float, *, fault: str = "", not_run: str = ""
) -> Result:
    page = block.page.resolve()
    return Result(
        file=str(page.relative_to(CHECKOUT) if page.is_relative_to(CHECKOUT) else page),
        line=block.line,
        place=block.place,
        exit_code=code,
        expected_exit_code=block.exit_code,
        seconds=round(seconds, 2),
        fault=fault,
        not_run=not_run,
    )
