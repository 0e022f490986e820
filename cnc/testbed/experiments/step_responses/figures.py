"""Curves of a loop over a network that takes long and loses frames: computed, and measured."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from cnc.loops.model import Accepted, Loop
from cnc.support.format import counted, duration
from cnc.testbed.traffic.loop import axes, parts
from cnc.testbed.traffic.loop.response import StepResponse, step_responses
from cnc.testbed.traffic.loop.run import Curve

PERCENT = 100
WATCHED = 4  # parts of a curve: in the last it is to have settled, lest it just passes by


@dataclass(frozen=True, slots=True)
class Lost:
    """The periods of which the network loses the sample, and those of which it loses the
    command."""

    samples: frozenset[int]
    commands: frozenset[int]


NOTHING = Lost(frozenset(), frozenset())


def draw(periods: int, percent: int, seed: int | None) -> Lost:
    """Each sample and each command by a chance of its own; without a seed none.

    By the same seed, what is lost at one percentage is lost at every greater one.
    """
    if seed is None:
        return NOTHING
    drawn = []
    for direction in (0, 1):
        chance = random.Random(2 * seed + direction)  # noqa: S311  repeatable, not a secret
        values = [chance.random() for _ in range(periods)]
        drawn.append(frozenset(n for n, each in enumerate(values) if each * PERCENT < percent))
    return Lost(*drawn)


def over(loop: Loop, round_trip_ns: int) -> Loop:
    """The loop over a network that takes so much longer: its commands act so much later."""
    return replace(loop, deadline_ns=loop.deadline_ns + round_trip_ns)


class Held:
    """A controller as its plant sees it through a network that loses frames: it goes on with the
    last sample that came, and the plant with the last command that did; before the first both are
    0."""

    def __init__(self, controller: parts.Controller, lost: Lost) -> None:
        self._controller = controller
        self._lost = lost
        self._period = 0
        self._sample = 0.0
        self._command = 0.0

    def __call__(self, reference: float, sample: float) -> float:
        if self._period not in self._lost.samples:
            self._sample = sample
        answer = self._controller(reference, self._sample)
        if self._period not in self._lost.commands:
            self._command = answer
        self._period += 1
        return self._command


def computed(loop: Loop, lost: Lost = NOTHING) -> list[float]:
    """The outputs by the recursion of plant and controller, where all that is not lost is in time.

    To the last digit what a lab measures. The loop has one axis, one step, and no code of the
    operator's.
    """
    controller = parts.controller_of(axes.numbers(loop.controller), loop.period_ns, "")
    outputs = parts.undisturbed(
        parts.controlled_of(axes.controlled(loop, "")),
        parts.one_by_one([Held(controller, lost)]),
        [(float(loop.reference),)] * loop.periods,
        inputs=1,
        period_ns=loop.period_ns,
        deadline_ns=loop.deadline_ns,
    )
    return [output for (output,) in outputs]


def has_settled(response: StepResponse, loop: Loop) -> bool:
    """Whether a curve stays near its reference in all of the last quarter of its duration."""
    settling_ns = response.settling_time_ns
    return settling_ns is not None and settling_ns * WATCHED <= loop.duration_ns * (WATCHED - 1)


@dataclass(frozen=True, slots=True)
class Measured:
    """One curve of the grid, beside the recursion with the frames lost that were `drawn`."""

    round_trip_ns: int
    loss_percent: int
    seed: int | None
    curve: Curve
    drawn: Lost
    expected: Sequence[float]

    @property
    def response(self) -> StepResponse:
        return step_responses(self.curve.outputs, self.curve.loop)[0]

    @property
    def lost(self) -> Lost:
        """What did not come."""
        periods = self.curve.periods
        return Lost(
            frozenset(each.step for each in periods if each.sample_received_ns is None),
            frozenset(each.step for each in periods if each.command_received_ns is None),
        )

    @property
    def differs_at(self) -> int | None:
        """The first period whose output is not as computed, digit by digit."""
        pairs = zip(self.curve.outputs, self.expected, strict=True)
        return next((n for n, (one, other) in enumerate(pairs) if repr(one) != repr(other)), None)

    def disagreement(self) -> str | None:
        """What is not as the recursion says, if anything."""
        here = f"round trip {duration(self.round_trip_ns)}, {self.loss_percent} % lost"
        here += "" if self.seed is None else f", seed {self.seed}"
        if self.lost != self.drawn:
            return f"{here}: {_counts(self.lost)} did not come, and {_counts(self.drawn)} were to"
        if (n := self.differs_at) is None:
            return None
        output, expected = self.curve.outputs[n], self.expected[n]
        return f"{here}: the output of period {n} is {output!r}, computed {expected!r}"

    def document(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            **asdict(self.response),
            "lost_samples": self.curve.lost_samples,
            "lost_commands": self.curve.lost_commands,
            "is_computed": self.differs_at is None,
        }


def _counts(lost: Lost) -> str:
    commands = counted(len(lost.commands), "command")
    return f"{counted(len(lost.samples), 'sample')} and {commands}"


@dataclass(frozen=True, slots=True)
class Cell:
    """All curves at one round-trip time and one loss: one for each seed, or one alone where nothing
    is lost."""

    round_trip_ns: int
    loss_percent: int
    curves: Sequence[Measured]

    def good(self, accepted: Accepted) -> int:
        """How many of them are within the operator's limits."""
        return sum(each.response.is_good(accepted) for each in self.curves)

    def document(self, accepted: Accepted) -> dict[str, Any]:
        return {
            "round_trip_ns": self.round_trip_ns,
            "loss_percent": self.loss_percent,
            "good": self.good(accepted) / len(self.curves),
            "curves": [each.document() for each in self.curves],
        }


def order_disagreements(cells: Sequence[Cell]) -> list[str]:
    """Where a longer round trip does not make the overshoot greater, though nothing is lost.

    Behind the first curve that has not settled nothing is said: how far one that grows has come at
    its end is no measure of anything.
    """
    wrong = []
    lossless = [cell.curves[0] for cell in cells if cell.loss_percent == 0]
    for shorter, longer in pairwise(lossless):
        before, after = shorter.response, longer.response
        if not has_settled(before, shorter.curve.loop) or before.overshoot is None:
            break
        if after.overshoot is not None and after.overshoot < before.overshoot:
            wrong.append(
                f"round trip {duration(longer.round_trip_ns)}: overshoot "
                f"{after.overshoot * PERCENT:.1f} %, less than {before.overshoot * PERCENT:.1f} % "
                f"at {duration(shorter.round_trip_ns)}"
            )
    return wrong
