"""The busy times of one resource, seen by a stream of one period: intervals on a circle.

A reservation of period P and a search of period T meet somewhere in time if and only if they
overlap modulo gcd(P, T). So each reservation is folded onto that and repeated around the circle of
length T, and a search asks one sorted list, whatever the mix of periods.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from math import gcd

_TWICE_MAX = 16


class Circle:
    """A union of half-open intervals on a circle of `length_ns`, disjoint and sorted.

    An interval over the end of the circle is kept as two. Reservations meet in `twice` alone, where
    these are no more than _TWICE_MAX: to free a time in which none meet takes no look at others.
    """

    __slots__ = ("ends", "length_ns", "starts", "twice")

    def __init__(self, length_ns: int, reservations: Iterable[tuple[int, int, int]]) -> None:
        """Fold `reservations`, each (start, duration, period)."""
        self.length_ns = length_ns
        folded: list[tuple[int, int]] = []
        for start, duration, period in reservations:
            # Most have one piece, and a planner that stays up (`Live`) makes circles all the time.
            phase = start % length_ns
            if period % length_ns == 0 and phase + duration <= length_ns:
                folded.append((phase, phase + duration))
            else:
                folded += self._pieces(start, duration, period)
        folded.sort()
        self.twice: list[tuple[int, int]] = []
        starts, ends, until = list[int](), list[int](), -1
        for start, end in folded:
            if start > until:
                starts.append(start)
                ends.append(end)
                until = end
                continue
            if start < until:
                self.twice.append((start, min(end, until)))
            if end > until:
                ends[-1] = until = end
        self.starts, self.ends = starts, ends

    def repeated(self, length_ns: int) -> Circle:
        """The same times on a longer circle, a multiple of this one."""
        starts, ends = self.starts, self.ends
        found = Circle(length_ns, ())
        turns = range(0, length_ns, self.length_ns)
        found.starts = [turn + start for turn in turns for start in starts]
        found.ends = [turn + end for turn in turns for end in ends]
        found.twice = [(turn + start, turn + end) for turn in turns for start, end in self.twice]
        if starts and starts[0] == 0 and ends[-1] == self.length_ns:  # one, but where it is cut
            del found.starts[len(starts) :: len(starts)]
            del found.ends[len(ends) - 1 : -1 : len(ends)]
        return found

    def add(self, start_ns: int, duration_ns: int, period_ns: int) -> None:
        starts, ends = self.starts, self.ends
        for piece_start, piece_end in self._pieces(start_ns, duration_ns, period_ns):
            start, end = piece_start, piece_end
            first = bisect_left(ends, start)
            last = bisect_right(starts, end, first)
            if first < last:
                if len(self.twice) <= _TWICE_MAX and (
                    bisect_right(ends, start, first) < bisect_left(starts, end, first)
                ):
                    self.twice.append((start, end))
                start = min(start, starts[first])
                end = max(end, ends[last - 1])
            starts[first:last] = [start]
            ends[first:last] = [end]

    def may_be_twice(self, start_ns: int, duration_ns: int, period_ns: int) -> bool:
        """Whether more than one reservation may take some of that time."""
        return len(self.twice) > _TWICE_MAX or any(
            start < until and begin < end
            for start, end in self._pieces(start_ns, duration_ns, period_ns)
            for begin, until in self.twice
        )

    def subtract(self, start_ns: int, duration_ns: int, period_ns: int) -> None:
        """Free that time, whoever took it."""
        starts, ends = self.starts, self.ends
        for start, end in self._pieces(start_ns, duration_ns, period_ns):
            first = bisect_right(ends, start)
            last = bisect_left(starts, end, first)
            if first == last:
                continue
            left = [(starts[first], start)] if starts[first] < start else []
            if ends[last - 1] > end:
                left.append((end, ends[last - 1]))
            starts[first:last] = [begin for begin, _ in left]
            ends[first:last] = [until for _, until in left]

    def _pieces(self, start_ns: int, duration_ns: int, period_ns: int) -> list[tuple[int, int]]:
        length = self.length_ns
        start = start_ns % length
        if period_ns % length == 0 and start + duration_ns <= length:
            return [(start, start + duration_ns)]
        repeat = gcd(period_ns, length)
        if duration_ns >= repeat:
            return [(0, length)]
        starts = range(start_ns % repeat, length, repeat)
        pieces = [(start, start + duration_ns) for start in starts]
        start, end = pieces[-1]
        if end > length:
            pieces[-1:] = [(start, length), (0, end - length)]
        return pieces

    def delay(self, start_ns: int, duration_ns: int) -> int | None:
        """The least delay after which [start, start + duration) is free; None if there is none."""
        starts, ends = self.starts, self.ends
        count = len(starts)
        length = self.length_ns
        if duration_ns > length:
            return None  # it would meet itself
        if not count:
            return 0
        begin = phase = start_ns % length
        index = bisect_right(ends, phase)
        if index < count and starts[index] >= phase + duration_ns:
            return 0
        for _ in range(count + 2):
            if index == count:
                index = 0
                begin -= length
                phase -= length
            if starts[index] >= phase + duration_ns:
                return phase - begin
            phase = max(phase, ends[index])
            index += 1
        return None

    def gap(self, instant_ns: int) -> tuple[int, int, int]:
        """What surrounds an instant, counted from it: (busy for, next busy from, and until).

        Within a busy interval the first figure is positive and the others repeat it.
        """
        starts, ends = self.starts, self.ends
        count = len(starts)
        length = self.length_ns
        if not count:
            return 0, length, length  # only itself, a period later
        phase = instant_ns % length
        index = bisect_right(ends, phase)
        if index == count:
            return 0, starts[0] + length - phase, ends[0] + length - phase
        if starts[index] <= phase:
            busy = ends[index] - phase
            return busy, busy, busy
        return 0, starts[index] - phase, ends[index] - phase

    def free_ns(self, instant_ns: int) -> int:
        """For how long from an instant of the circle on nothing is busy; 0 within a busy one."""
        starts = self.starts
        if not starts:
            return self.length_ns  # only itself, a turn later
        index = bisect_right(self.ends, instant_ns)
        if index == len(starts):
            return starts[0] + self.length_ns - instant_ns
        return max(0, starts[index] - instant_ns)
