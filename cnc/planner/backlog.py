"""When a port is clear again of what a disturbance left in its queues, from its gate control list.

The scheduled queues of a port are served together in *openings*: while all their gates are open,
and no best-effort class before them is. An opening clears them if it lasts for all that can have
come since the last one that cleared them, and for what may go ahead: see docs/planning.md for the
equations. The judge has its own solution of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple


class Coming(NamedTuple):
    """A frame of each period that takes `wire_ns` of the link: the earliest time at which it comes
    by plan, and the latest at which it is gone."""

    period_ns: int
    first_ns: int
    gone_ns: int
    wire_ns: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """What goes before a backlog: `once_ns` in each opening, and `share` parts of `of_parts` of the
    time, for control."""

    once_ns: int
    share: int
    of_parts: int

    def time_for(self, work_ns: int) -> int:
        """How long an opening must last to send `work_ns` of frames."""
        remaining = self.of_parts - self.share
        return -(-(work_ns + self.once_ns) * self.of_parts // remaining)


class Clearing:
    """The openings that surely clear a port's queues, and how long each takes for it.

    An opening serves all that is there at a time from the end of the one before it, as far as that
    one surely serves, until `until_ns`, so long before its own end as it takes itself.
    """

    __slots__ = ("_clear_ns", "_cycle_ns", "_need_ns", "_origin_ns", "_until_ns")

    def __init__(self, cycle_ns: int, openings: Sequence[tuple[int, int, int]]) -> None:
        """`openings` are (begin, end, how long it takes), in order, in one cycle."""
        self._cycle_ns = cycle_ns
        self._until_ns = [end - need for _, end, need in openings]
        self._clear_ns = [begin + need for begin, _, need in openings]
        self._need_ns = [need for _, _, need in openings]
        self._origin_ns = self._until_ns[-1] - cycle_ns + 1 if openings else 0

    @property
    def never(self) -> bool:
        """Whether nothing ever clears the queues."""
        return not self._until_ns

    def wait_ns(self, time_ns: int) -> int:
        """In how long at most all that is there at `time_ns` is gone."""
        phase = (time_ns - self._origin_ns) % self._cycle_ns + self._origin_ns
        index = bisect_left(self._until_ns, phase)
        return max(self._clear_ns[index] - phase, self._need_ns[index])

    def worst_wait_ns(self, time_ns: int, period_ns: int) -> int:
        """The greatest such time over all periods of the cycle."""
        cycle, origin, until = self._cycle_ns, self._origin_ns, self._until_ns
        clear, need = self._clear_ns, self._need_ns
        worst = 0
        first = (time_ns - origin) % period_ns + origin
        for phase in range(first, first + cycle, period_ns):
            index = bisect_left(until, phase)
            worst = max(worst, clear[index] - phase, need[index])
        return worst

    def longest_ns(self) -> int:
        """The greatest such time at all."""
        before = [self._origin_ns - 1, *self._until_ns[:-1]]
        gaps = (clear - until for clear, until in zip(self._clear_ns, before, strict=True))
        return max(*gaps, *self._need_ns)


class Backlog:
    """What becomes of a backlog in the scheduled queues of a port."""

    def __init__(
        self,
        cycle_ns: int,
        openings: Sequence[tuple[int, int]],
        coming: Sequence[Coming],
        ahead: Ahead,
    ) -> None:
        """`openings` are (begin, end) in order; the last may end in the next cycle."""
        self.cycle_ns = cycle_ns
        self._ahead = ahead
        self._coming = coming
        come = _Curve(cycle_ns, ((c.first_ns, c.period_ns, c.wire_ns) for c in coming))
        self._openings = [(begin, end, come.at(end)) for begin, end in openings]
        if ahead.share >= ahead.of_parts:
            self._openings = []

    def clearing(self, lost_ns: int, late_ns: Sequence[int] | None = None) -> Clearing:
        """If nothing leaves for `lost_ns` before the time that openings are asked about, and a
        frame may be gone by so much later than planned as `late_ns` says, in the order of
        `coming`."""
        late = late_ns or [0] * len(self._coming)
        gone = _Curve(
            self.cycle_ns,
            (
                (c.gone_ns + by, c.period_ns, c.wire_ns)
                for c, by in zip(self._coming, late, strict=True)
            ),
        )
        found = [(begin, end, come, -1) for begin, end, come in self._openings]
        served = found[-1][1] if found else 0
        before = None
        # What the last opening takes shows only at the end of a turn; the next then begins with it.
        while found and before != served:
            before = served
            served -= self.cycle_ns
            kept = []
            for index, (begin, end, come, known) in enumerate(found):
                need = self._ahead.time_for(come - gone.at(served - lost_ns))
                if need == known:
                    kept += found[index:]
                    served = before
                    break
                if begin + need <= end:
                    kept.append((begin, end, come, need))
                    served = end - need
            found = kept
        return Clearing(self.cycle_ns, [(begin, end, need) for begin, end, _, need in found])


class _Curve:
    """How much has come by a time: a sum of steps that repeat with the cycle, over all time.

    Only differences mean anything.
    """

    __slots__ = ("_base", "_cycle_ns", "_sums", "_times")

    def __init__(self, cycle_ns: int, steps: Iterable[tuple[int, int, int]]) -> None:
        """`steps` are times, periods and amounts."""
        folded = []
        self._base = 0
        for time, period, amount in steps:
            # The first in the cycle, and how many there were from the beginning of time to it.
            turns, first = divmod(time, period)
            self._base -= turns * amount
            folded += [(phase, amount) for phase in range(first, cycle_ns, period)]
        folded.sort()
        self._cycle_ns = cycle_ns
        self._times = [time for time, _ in folded]
        self._sums = list(accumulate((amount for _, amount in folded), initial=0))

    def at(self, time_ns: int) -> int:
        """The sum up to and with `time_ns`."""
        turns, phase = divmod(time_ns, self._cycle_ns)
        return self._base + turns * self._sums[-1] + self._sums[bisect_right(self._times, phase)]
