"""How many echo commands are enough: the rule of the latency characterizer.

Echo points are asked in turn, A, B, A, B, …, each once a round. Of neighbouring points the
difference of their round-trip times is taken within each round, so that what drifts between rounds
is in none of them. Sampling goes on until the confidence interval of the mean of each difference is
narrow enough (Polachan and others, "TCPSbed", section V-B: an error of 5 % at 95 % confidence).

The standard library only: `cnc.testbed.traffic.echo.program` is to start fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

CONFIDENCE = 0.95
WITHIN = 0.05  # of the mean
# Half the width of the interval in standard errors, by the normal distribution: there are tens of
# samples at least.
STANDARD_ERRORS = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Sample:
    """Durations in nanoseconds, of which the mean is sought; sums are exact."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0
        self._squares = 0

    def add(self, value_ns: int) -> None:
        self.count += 1
        self._sum += value_ns
        self._squares += value_ns**2

    @property
    def mean_ns(self) -> float:
        """Raises ZeroDivisionError without a value."""
        return self._sum / self.count

    @property
    def margin_ns(self) -> float:
        """Half the width of the confidence interval of the mean; infinite below two values."""
        if self.count < 2:  # noqa: PLR2004
            return math.inf
        squares = self._squares * self.count - self._sum**2
        variance = squares / (self.count * (self.count - 1))
        return STANDARD_ERRORS * math.sqrt(variance / self.count)

    @property
    def is_precise(self) -> bool:
        """Whether the interval is within WITHIN of the mean to either side."""
        return self.count > 0 and self.margin_ns <= WITHIN * abs(self.mean_ns)


class Sampling:
    """Rounds of round-trip times to echo points, at least `least` of them and at most `most`."""

    def __init__(self, points: int, least: int, most: int) -> None:
        self._least, self._most = least, most
        self.asked = 0
        self.points = [Sample() for _ in range(points)]
        self.differences = [Sample() for _ in range(points - 1)]

    def add(self, round_trips_ns: Sequence[int | None]) -> None:
        """One round, a value for each point; one with a lost echo, None, counts as asked only."""
        self.asked += 1
        if all(each is not None for each in round_trips_ns):
            complete = [each for each in round_trips_ns if each is not None]
            for sample, value_ns in zip(self.points, complete, strict=True):
                sample.add(value_ns)
            for sample, (one, other) in zip(self.differences, pairwise(complete), strict=True):
                sample.add(other - one)

    @property
    def rounds(self) -> int:
        """Those in which no echo was lost: N."""
        return self.points[0].count

    @property
    def is_precise(self) -> bool:
        """Whether there are as many as the rule asks for."""
        return self.rounds >= self._least and all(each.is_precise for each in self.differences)

    @property
    def is_over(self) -> bool:
        return self.is_precise or self.asked >= self._most
