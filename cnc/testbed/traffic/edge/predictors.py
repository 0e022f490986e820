"""What an edge sends in a period, from what it has received until then.

As `predict()` in Polachan and others, "TCPSbed: A Modular Testbed for Tactile Internet-Based
Cyber-Physical Systems", section IV-C: a value that has just come is sent as it is; in periods in
which none has come the predictors differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Received(NamedTuple):
    """A value, and the period in which the edge read it."""

    period: int
    value: float


Predictor = Callable[[Sequence[Received], int], float | None]


def forward(received: Sequence[Received], period: int) -> float | None:
    """Nothing is sent: an edge that only passes on."""
    last = received[-1]
    return last.value if last.period == period else None


def hold(received: Sequence[Received], _period: int) -> float:
    """The last value (zero-order hold)."""
    return received[-1].value


def line(received: Sequence[Received], period: int) -> float:
    """The line through the last two values; the first is held until there is a second."""
    *_, last = received
    if len(received) == 1:
        return last.value
    before = received[-2]
    slope = (last.value - before.value) / (last.period - before.period)
    return last.value + slope * (period - last.period)


PREDICTORS: Mapping[str, Predictor] = {"none": forward, "hold": hold, "line": line}
