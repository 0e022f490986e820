"""Which times of a link are taken, for periodic reservations, exactly.

Two reservations with periods P and Q meet somewhere in time if and only if they overlap modulo
gcd(P, Q). So each period's reservations are kept folded onto every gcd that was ever asked for:
a query is one bisection for each period present on the link.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from math import gcd


class _Circle:
    """A union of half-open intervals on a circle of `length_ns`, disjoint and sorted."""

    def __init__(self, length_ns: int) -> None:
        self.length_ns = length_ns
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, start_ns: int, duration_ns: int) -> None:
        if duration_ns >= self.length_ns:
            self.starts, self.ends = [0], [self.length_ns]
            return
        start = start_ns % self.length_ns
        end = start + duration_ns
        if end > self.length_ns:
            self._merge(0, end - self.length_ns)
            end = self.length_ns
        self._merge(start, end)

    def _merge(self, start: int, end: int) -> None:
        first = bisect_left(self.ends, start)
        last = bisect_right(self.starts, end)
        if first < last:
            start = min(start, self.starts[first])
            end = max(end, self.ends[last - 1])
        self.starts[first:last] = [start]
        self.ends[first:last] = [end]

    def shift(self, start_ns: int, duration_ns: int) -> int | None:
        """The least delay that clears what is in the way now; more may lie behind it.

        0 when the place is free, None when no delay can ever help.
        """
        if not self.starts:
            return 0
        length = self.length_ns
        if duration_ns > length:
            return None
        start = start_ns % length
        end = start + duration_ns
        if end > length and self.starts[0] < end - length:
            index = bisect_left(self.starts, end - length) - 1
            return self.ends[index] + length - start
        index = bisect_left(self.starts, end) - 1
        return self.ends[index] - start if index >= 0 and self.ends[index] > start else 0


class Occupancy:
    """The reservations of one link."""

    def __init__(self) -> None:
        self._reservations: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._folded: dict[int, dict[int, _Circle]] = defaultdict(dict)  # by period, then by gcd

    def reserve(self, start_ns: int, duration_ns: int, period_ns: int) -> None:
        """Take [start, start + duration) of every period."""
        self._reservations[period_ns].append((start_ns, duration_ns))
        for circle in self._folded[period_ns].values():
            circle.add(start_ns, duration_ns)

    def shift(self, start_ns: int, duration_ns: int, period_ns: int) -> int | None:
        """How much later to try, 0 when free. None when this can never fit the link."""
        for period in self._reservations:
            shift = self._circle(period, gcd(period, period_ns)).shift(start_ns, duration_ns)
            if shift != 0:
                return shift
        return 0

    def load(self) -> float:
        """The share of time that is taken."""
        return sum(
            duration / period
            for period, reservations in self._reservations.items()
            for _, duration in reservations
        )

    def _circle(self, period_ns: int, length_ns: int) -> _Circle:
        circles = self._folded[period_ns]
        if length_ns not in circles:
            circle = circles[length_ns] = _Circle(length_ns)
            for start, duration in self._reservations[period_ns]:
                circle.add(start, duration)
        return circles[length_ns]
