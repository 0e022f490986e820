"""How long a change of a few switches of many takes, from when it is accepted until it runs.

The streams between some neighbouring switches of the line come and go; the others stay as they are.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from cnc.errors import CncError
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import Step, StepBegun, push
from cnc.rollout.history import History
from tests.scale.simulation import Simulation

PLACES = 7  # groups of neighbours whose streams come and go in turn


@dataclass(frozen=True)
class Way:
    """How a change is rolled out; one at once has been judged before it was accepted."""

    name: str
    touched: bool
    at_once: bool
    rounds: int


@dataclass(frozen=True)
class Change:
    """One change: the seconds until all touched kernels were read back with it running, and until
    it was saved everywhere; from when it was accepted, attempts that were refused included."""

    running_s: float
    saved_s: float


@dataclass(frozen=True)
class Changes:
    """The changes of one way; `refused` were rolled back, such as for a commit that came late."""

    way: Way
    made: Sequence[Change]
    refused: int

    def running_s(self, percent: int) -> float:
        """A percentile of the time until a change runs."""
        return percentile([each.running_s for each in self.made], percent)

    def saved_s(self, percent: int) -> float:
        return percentile([each.saved_s for each in self.made], percent)


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many of a hundred do not exceed."""
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def measure(simulation: Simulation, touched: int, period: str, rounds: int) -> list[Changes]:
    """Change `touched` of the switches: at once, and by the ways that need a lead."""
    ways = (
        Way("touched, at once", touched=True, at_once=True, rounds=rounds),
        Way("touched, with a lead", touched=True, at_once=False, rounds=max(1, rounds // 10)),
        Way("all, with a lead", touched=False, at_once=False, rounds=max(1, rounds // 20)),
    )
    whole, turns = _plans(simulation, touched, period)
    with TemporaryDirectory() as directory, History(Path(directory) / "history.sqlite") as history:
        push(whole, connect=simulation.connect, history=history)
        _changed(
            simulation, next(turns), history, ways[0], time.monotonic()
        )  # caches are warm then
        return [_of_way(simulation, turns, history, way, touched) for way in ways]


def _plans(simulation: Simulation, touched: int, period: str) -> tuple[Plan, Iterator[Plan]]:
    """The plan with all streams, and those without some, each followed by the whole."""
    count = len(simulation.switches)
    step = max(1, (count - touched) // PLACES)
    groups = [
        {f"h{here}-h{there}" for here, there in pairwise(range(first, first + touched))}
        for first in range(1, count - touched + 2, step)
    ]
    whole = compute(simulation.intent(period=period))
    fewer = [compute(simulation.intent(period=period, without=each), keep=whole) for each in groups]
    return whole, cycle([plan for each in fewer for plan in (each, whole)])


def _of_way(
    simulation: Simulation, turns: Iterator[Plan], history: History, way: Way, touched: int
) -> Changes:
    made, refused = [], 0
    for _ in range(way.rounds):
        plan = next(turns)
        accepted_s = time.monotonic()
        while True:
            try:
                change, switches = _changed(simulation, plan, history, way, accepted_s)
            except CncError:
                refused += 1
                continue
            break
        if switches != touched:
            raise CncError(f"a change was one of {switches} switches instead of {touched}")
        made.append(change)
    return Changes(way, made, refused)


def _changed(
    simulation: Simulation, plan: Plan, history: History, way: Way, accepted_s: float
) -> tuple[Change, int]:
    decided_s = 0.0

    def listen(event: StepBegun) -> None:
        nonlocal decided_s
        if event.step is Step.CONFIRM:
            decided_s = time.monotonic()

    report = push(
        plan,
        connect=simulation.connect,
        history=history,
        touched=way.touched,
        at_once=way.at_once,
        judged=way.at_once,
        listener=listen,
    )
    saved_s = time.monotonic() - accepted_s
    running_s = decided_s - accepted_s
    if not way.at_once:  # it was read back while it waited for its base time
        time.sleep(max(0, report.all_start_in_ns) / NS_PER_S)
        running_s = time.monotonic() - accepted_s
    return Change(running_s, saved_s), len({change.port.node for change in report.changes})
