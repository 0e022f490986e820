"""Figures of step responses: how soon, how far beyond, how long until it stays, how far off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cnc.loops.model import Accepted, Loop
from cnc.model import NS_PER_S

RISEN = 0.9  # of the step
SETTLED = 0.02  # of the step, either way


@dataclass(frozen=True, slots=True)
class StepResponse:
    """A step response at the instants of samples; None: it never came so far, or is no number.

    `rise_time_ns` is until the first sample at 90 % of the step, `settling_time_ns` until the first
    from which on all are within 2 % of it. `overshoot` is how far the output went beyond, in parts
    of the step, and `absolute_error_s` the integral of the error's amount in parts of the step,
    in seconds (IAE).
    """

    rise_time_ns: int | None
    overshoot: float | None
    settling_time_ns: int | None
    absolute_error_s: float | None

    def is_good(self, accepted: Accepted) -> bool:
        """Whether it is within the limits that the operator accepts."""
        if (most_ns := accepted.rise_time_ns) is not None and (
            self.rise_time_ns is None or self.rise_time_ns > most_ns
        ):
            return False
        most = accepted.overshoot_percent
        return most is None or (self.overshoot is not None and self.overshoot * 100 <= most)


def step_response(
    outputs: Sequence[float], begin: float, end: float, period_ns: int
) -> StepResponse:
    """The figures of outputs, one a period, from the instant on at which the reference went from
    `begin` to `end`."""
    done = [(output - begin) / (end - begin) for output in outputs]
    if not all(map(math.isfinite, done)):
        return StepResponse(None, None, None, None)
    risen = next((n for n, part in enumerate(done) if part >= RISEN), None)
    off = [n for n, part in enumerate(done) if abs(part - 1) > SETTLED]
    settled = off[-1] + 1 if off else 0
    return StepResponse(
        rise_time_ns=None if risen is None else risen * period_ns,
        overshoot=max(0.0, max(done) - 1),
        settling_time_ns=None if settled == len(done) else settled * period_ns,
        absolute_error_s=math.fsum(abs(1 - part) for part in done) * period_ns / NS_PER_S,
    )


def step_responses(outputs: Sequence[float], loop: Loop) -> list[StepResponse]:
    """The figures of each of the steps of a loop."""
    each = loop.periods // loop.steps
    levels = [0.0, float(loop.reference)]
    return [
        step_response(
            outputs[n * each : (n + 1) * each], levels[n % 2], levels[(n + 1) % 2], loop.period_ns
        )
        for n in range(loop.steps)
    ]
