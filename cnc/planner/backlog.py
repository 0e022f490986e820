"""When a port is clear again of what a disturbance left in its queues, from its gate control list.

The scheduled queues of a port are served together in *openings*: while all their gates are open,
and no best-effort class before them is. Openings clear them as soon as they last for all that can
have come by then, since what came before was gone for sure, and for what may go ahead: see
docs/planning.md for the equations. The judge has its own solution of them.
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

    def work_in(self, length_ns: int) -> int:
        """The most that an opening sends for sure; less than 0 if even nothing takes longer."""
        return length_ns * (self.of_parts - self.share) // self.of_parts - self.once_ns


class _Service(NamedTuple):
    """What an opening serves: all that is there at a time up to `until_ns`, and after that of the
    opening before. It is gone by `clear_ns`, and within `need_ns` if the opening is under way."""

    until_ns: int
    clear_ns: int
    need_ns: int


class Clearing:
    """When a port's queues are clear again, at any time."""

    __slots__ = ("_clear_ns", "_cycle_ns", "_need_ns", "_origin_ns", "_until_ns")

    def __init__(self, cycle_ns: int, services: Sequence[_Service]) -> None:
        """`services` of one cycle, in order; none if they never are."""
        self._cycle_ns = cycle_ns
        self._until_ns = [service.until_ns for service in services]
        self._need_ns = [service.need_ns for service in services]
        self._clear_ns = [service.clear_ns for service in services]
        # What one opening leaves to others may take longer than what came later.
        for _ in range(2):
            last = self._clear_ns[-1] - cycle_ns if services else 0
            self._clear_ns = list(accumulate(self._clear_ns, max, initial=last))[1:]
        self._origin_ns = self._until_ns[-1] - cycle_ns + 1 if services else 0

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
        sure = ahead.share < ahead.of_parts
        self._openings = [
            _Opening(begin, end, come.at(end), ahead.work_in(end - begin))
            for begin, end in openings
            if sure
        ]
        self._come_in_cycle = come.at(cycle_ns) - come.at(0)

    def clearing(self, lost_ns: int, late_ns: Sequence[int] | None = None) -> Clearing:
        """If nothing leaves for `lost_ns` before the time that is asked about, and a frame may be
        gone by so much later than planned as `late_ns` says, in the order of `coming`."""
        late = late_ns or [0] * len(self._coming)
        gone = _Curve(
            self.cycle_ns,
            (
                (c.gone_ns + by, c.period_ns, c.wire_ns)
                for c, by in zip(self._coming, late, strict=True)
            ),
        )
        known: list[_Service | None] = [None] * len(self._openings)
        found: list[_Service] = []
        # What the last opening does shows only at the end of a turn; the next then begins with it.
        served = self._openings[-1].end_ns if self._openings else 0
        before = None
        while served != before and self._openings:
            before, served = served, served - self.cycle_ns
            found = []
            for index, opening in enumerate(self._openings):
                service = self._service(index, opening.come_ns - gone.at(served - lost_ns))
                if service is None:
                    return Clearing(self.cycle_ns, ())
                if service == known[index]:
                    found += [each for each in known[index:] if each]
                    served = before
                    break
                found.append(service)
                served = service.until_ns
            known = list(found)
        return Clearing(self.cycle_ns, found)

    def _service(self, index: int, work_ns: int) -> _Service | None:
        """What an opening does if there is so much to send by its end; None if that is not sent
        within a cycle."""
        begin, end, come, most = self._openings[index]
        if work_ns <= most:
            need = self._ahead.time_for(work_ns)
            return _Service(end - need, begin + need, need)
        count = len(self._openings)
        for number in range(index + 1, index + count + 1):
            turns, which = divmod(number, count)
            following = self._openings[which]
            come_by_then = following.come_ns + turns * self._come_in_cycle
            work_ns += come_by_then - come - max(0, most)
            come, most = come_by_then, following.most_ns
            if work_ns <= most:
                clear = following.begin_ns + turns * self.cycle_ns + self._ahead.time_for(work_ns)
                return _Service(begin, clear, 0)
        return None


class _Opening(NamedTuple):
    """How much has come by its end, and how much it sends for sure."""

    begin_ns: int
    end_ns: int
    come_ns: int
    most_ns: int


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
