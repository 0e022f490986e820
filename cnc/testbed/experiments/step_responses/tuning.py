"""PI gains with which the curves of a loop tell round-trip times apart best.

With timid gains every network gives the same curve, and with bold ones every curve runs away. What
is searched is the greatest *separation*: of curves over networks with rising round-trip times, each
is apart from the next by the integral of the amount of their difference, in parts of the step, and
the least of these counts. So no two of them look alike.

Gains are allowed if the curve at the shortest round-trip time is within the limits of the loop's
`accept` and takes no step back while it rises, and the curves at all of them have settled in the
last quarter of the loop's duration. If one might run away, the search would end in the corner of
its ranges, since two curves that run away are as far apart as one waits; and if the shortest might
ring, ringing would be what keeps curves apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

from cnc.loops.model import Loop, PiController
from cnc.model import NS_PER_S
from cnc.support.format import duration
from cnc.testbed.experiments.description import GainRange, Tuning
from cnc.testbed.experiments.step_responses.figures import computed, has_settled, over
from cnc.testbed.traffic.loop.response import RISEN, StepResponse, step_responses

STEPS = 16  # of a grid: a power of two, by which decimal numbers are divided without a rest
ROUNDS = 4  # grids, each an eighth of the one before and around its best point

Range = tuple[Decimal, Decimal]


@dataclass(frozen=True, slots=True)
class Gains:
    kp: Decimal
    ki_per_s: Decimal

    def of(self, loop: Loop) -> Loop:
        """The loop with these gains; it keeps the limit of its commands."""
        limit = loop.controller.limit if isinstance(loop.controller, PiController) else None
        return replace(loop, controller=PiController(self.kp, self.ki_per_s, limit))


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found: the best gains, None if no point of the first grid is allowed.

    `surface` has the separation at each point of the first grid, None where it is not allowed.
    """

    gains: Gains | None
    separation_s: float | None
    surface: Mapping[Gains, float | None]


def search(separation_s: Callable[[Gains], float | None], kp: Range, ki: Range) -> Tuned:
    """The greatest separation within two ranges, by grids that become finer around the best.

    Of equal points the one with the least `kp`, and of these with the least `ki`, of the coarsest
    grid is taken: the same ranges give the same gains.
    """
    surface = {gains: separation_s(gains) for gains in _points(kp, ki)}
    best = _best(surface)
    if best is None:
        return Tuned(None, None, surface)
    known, around_kp, around_ki = dict(surface), kp, ki
    for _ in range(ROUNDS - 1):
        around_kp = _around(best.kp, around_kp, kp)
        around_ki = _around(best.ki_per_s, around_ki, ki)
        finer = (gains for gains in _points(around_kp, around_ki) if gains not in known)
        known |= {gains: separation_s(gains) for gains in finer}
        best = _best(known) or best
    return Tuned(best, known[best], surface)


def _best(known: Mapping[Gains, float | None]) -> Gains | None:
    allowed = {gains: found for gains, found in known.items() if found is not None}
    return max(allowed, key=allowed.__getitem__, default=None)


def _points(kp: Range, ki: Range) -> list[Gains]:
    return [Gains(one, other) for one in _values(kp) for other in _values(ki)]


def _values(its: Range) -> list[Decimal]:
    least, most = its
    return [least + (most - least) * n / STEPS for n in range(STEPS + 1)]


def _around(best: Decimal, its: Range, whole: Range) -> Range:
    """One step of the grid to either side, within the range of the whole search."""
    step = (its[1] - its[0]) / STEPS
    return max(whole[0], best - step), min(whole[1], best + step)


def separation_s(loop: Loop, gains: Gains, round_trips_ns: Sequence[int]) -> float | None:
    """How far apart the two of the curves are that are least so, in seconds; None: such gains are
    not allowed."""
    curves: list[list[float]] = []
    for round_trip_ns in round_trips_ns:
        response, outputs = curve(loop, gains, round_trip_ns)
        if not has_settled(response, loop):
            return None
        if not curves and not (_is_steady(loop, outputs) and _is_good(loop, response)):
            return None
        curves.append(outputs)
    step = abs(float(loop.reference))
    return min(
        math.fsum(abs(one - other) for one, other in zip(*pair, strict=True))
        * (loop.period_ns / NS_PER_S / step)
        for pair in pairwise(curves)
    )


def _is_good(loop: Loop, response: StepResponse) -> bool:
    return loop.accepted is None or response.is_good(loop.accepted)


def _is_steady(loop: Loop, outputs: Sequence[float]) -> bool:
    """Whether a curve takes no step back until it has risen for good."""
    done = [output / float(loop.reference) for output in outputs]
    below = [n for n, part in enumerate(done) if part < RISEN]
    rising = done[: below[-1] + 2]  # the first is 0
    return all(one <= other for one, other in pairwise(rising))


def curve(loop: Loop, gains: Gains, round_trip_ns: int) -> tuple[StepResponse, list[float]]:
    """The computed curve with these gains, and its figures."""
    its = over(gains.of(loop), round_trip_ns)
    outputs = computed(its)
    return step_responses(outputs, its)[0], outputs


@dataclass(frozen=True, slots=True)
class Tried:
    """Gains, and the computed curves that they give, one for each round-trip time."""

    gains: Gains
    separation_s: float | None
    responses: Sequence[StepResponse]
    outputs: Sequence[Sequence[float]]

    def document(self, round_trips_ns: Sequence[int]) -> dict[str, Any]:
        return {
            "kp": float(self.gains.kp),
            "ki_per_s": float(self.gains.ki_per_s),
            "separation_s": self.separation_s,
            "curves": [
                {"round_trip_ns": round_trip_ns, **asdict(response)}
                for round_trip_ns, response in zip(round_trips_ns, self.responses, strict=True)
            ],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The gains that the loop has, and those that were found for it, if any are allowed."""

    tune: Tuning
    period_ns: int
    reference: float
    own: Tried
    found: Tried | None
    surface: Mapping[Gains, float | None]

    @property
    def round_trips_ns(self) -> Sequence[int]:
        return self.tune.round_trips_ns

    @property
    def by_name(self) -> dict[str, Tried]:
        return {"of the loop": self.own, **({"found": self.found} if self.found else {})}

    def disagreement(self) -> str | None:
        """Why the search was in vain, if it was."""
        if self.found is None or self.found.separation_s is None:
            return (
                "tuning: with no gains of the first grid the curve at "
                f"{duration(self.round_trips_ns[0])} is good and steady, and all curves settle"
            )
        if (own_s := self.own.separation_s) is None or own_s <= self.found.separation_s:
            return None
        gains, tune = self.own.gains, self.tune
        within = _is_in(gains.kp, tune.kp) and _is_in(gains.ki_per_s, tune.ki)
        return "tuning: the gains of the loop separate its curves more" if within else None

    def document(self) -> dict[str, Any]:
        return {
            "own": self.own.document(self.round_trips_ns),
            "found": self.found and self.found.document(self.round_trips_ns),
        }


def _is_in(gain: Decimal, its: GainRange) -> bool:
    return its.from_ <= gain <= its.to


def compare(loop: Loop, controller: PiController, tune: Tuning) -> Comparison:
    """Search gains for a loop that has this controller."""
    round_trips_ns = tune.round_trips_ns

    def tried(gains: Gains, apart_s: float | None) -> Tried:
        curves = [curve(loop, gains, each_ns) for each_ns in round_trips_ns]
        responses, outputs = zip(*curves, strict=True)
        return Tried(gains, apart_s, responses, outputs)

    own = Gains(controller.kp, controller.ki_per_s)
    tuned = search(
        lambda gains: separation_s(loop, gains, round_trips_ns),
        (tune.kp.from_, tune.kp.to),
        (tune.ki.from_, tune.ki.to),
    )
    return Comparison(
        tune,
        loop.period_ns,
        float(loop.reference),
        tried(own, separation_s(loop, own, round_trips_ns)),
        tried(tuned.gains, tuned.separation_s) if tuned.gains else None,
        tuned.surface,
    )
