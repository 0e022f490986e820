"""The seam between planning and the ways to place streams: what each is given and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement


class Progress(NamedTuple):
    """How far a search has come: `step` names what it does now."""

    step: str
    placed: int
    wanted: int


def _silent(_: Progress) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much an algorithm may work: counted in attempts, not seconds, so that a slow machine
    comes to the same plan. Without any ejections it returns what it finds without a search.
    `watch` receives progress and may be slow only occasionally."""

    ejections: int = 20_000
    watch: Callable[[Progress], None] = field(default=_silent, compare=False)


DEFAULT_BUDGET = Budget()


@dataclass(frozen=True, slots=True)
class Result:
    """Where members were placed, and by what; the problem's others were not.

    `impossible` names streams that have no place together on their routes by the rules of this
    planner, where an algorithm can prove that: no proof of what other plans can do.
    `interrupted`: the operator ended the search early.
    """

    algorithm: str
    placements: Mapping[Member, Placement]
    impossible: tuple[str, ...] = ()
    interrupted: bool = False

    def is_complete(self, problem: Problem) -> bool:
        """Whether every member of the problem has a place."""
        return all(member in self.placements for member in problem.members)


class Algorithm(Protocol):
    """A way to place streams. The same problem and budget give the same result everywhere."""

    name: str

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        """Place as many of the problem's members as possible around those that are kept."""
