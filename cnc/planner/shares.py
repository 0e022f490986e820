"""How much of its ports best effort keeps, where an intent states a `min-share` of it.

Best effort has turns between the windows of planned frames, less the guard band before each. Those
count in which its largest frame fits. While streams are placed, `Turns` has those of the list that
the port would get; whether the list itself leaves enough, `kept_ns` says.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from cnc.model import ClassRole, GateControlList, Intent, Link, Plan, PortRef
from cnc.planner.ports import guard_band_ns, interval_min_ns, slot_ns

WHOLE_PPB = 10**9


def percent(share_ppb: int) -> str:
    """A share for people."""
    return f"{share_ppb * 100 / WHOLE_PPB:.6g}%"


def wanted_ppb(intent: Intent, link: Link) -> int:
    """The share of the cycle that best effort is to keep of a port, in parts of 10^9; 0 where no
    class states one, and at talkers."""
    if link.source.node not in intent.network.bridges:
        return 0
    best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
    return max((c.min_share_ppb or 0 for c in best_effort), default=0)


def kept_ns(intent: Intent, link: Link, gates: GateControlList) -> int:
    """For how long of its cycle a list leaves best effort turns of its largest frame or longer.
    Each may end early."""
    best_effort = sum(1 << c.number for c in intent.classes_with(ClassRole.BEST_EFFORT))
    least = slot_ns(intent, link)
    kept = run = 0
    shut = next((i for i, e in enumerate(gates.entries) if not e.gate_states & best_effort), None)
    if shut is None:
        return gates.cycle_ns
    # From a time on at which it is shut, so that no turn is cut in two by the end of the cycle.
    for entry in (*gates.entries[shut:], *gates.entries[: shut + 1]):
        if entry.gate_states & best_effort:
            run += entry.interval_ns
        else:
            kept += run - link.gate_early_ns if run >= least else 0
            run = 0
    return kept


class Kept(NamedTuple):
    """The port that leaves best effort the least of its cycle, how much, and the least that an
    intent asks for."""

    port: PortRef
    kept: str
    wanted: str


def least_kept(plan: Plan) -> Kept | None:
    """Of the ports with lists of which best effort is to keep a share; None if there are none."""
    intent, links = plan.intent, plan.intent.network.links
    shares = {
        port: kept_ns(intent, links[port], gates) * WHOLE_PPB // gates.cycle_ns
        for port, gates in plan.gates.items()
        if wanted_ppb(intent, links[port])
    }
    if not shares:
        return None
    port = min(shares, key=lambda port: (shares[port], port))
    return Kept(port, percent(shares[port]), percent(wanted_ppb(intent, links[port])))


_Reservation = tuple[int, int, int]  # start, duration, period


class Turns:
    """Best effort's turns in one cycle of a port with these reservations, each (start, duration,
    period), none of which overlap."""

    def __init__(self, intent: Intent, link: Link, reservations: Iterable[_Reservation]) -> None:
        self._tick_ns = link.gate_tick_ns
        self._early_ns = link.gate_early_ns
        self._shortest_ns = interval_min_ns(link)
        self._guard_ns = guard_band_ns(intent, link)
        self._least_ns = max(slot_ns(intent, link), self._shortest_ns)
        reservations = list(reservations)
        self.cycle_ns = lcm(*(period for *_, period in reservations))
        self._windows = sorted(window for each in reservations for window in self._in_cycle(*each))
        self._kept_ns = self._count()

    def add(self, start_ns: int, duration_ns: int, period_ns: int) -> None:
        """Reserve [start, start + duration) of every period."""
        self._kept_ns = self._with(start_ns, duration_ns, period_ns)
        for window in self._in_cycle(start_ns, duration_ns, period_ns):
            insort(self._windows, window)

    def share_ppb(self, *added: int) -> int:
        """What best effort keeps of the cycle at least, in parts of 10^9; with one more
        reservation if that is given."""
        kept = self._with(*added) if added else self._kept_ns
        # A guard band may begin earlier for the sake of an entry at the end of the cycle.
        return max(kept - self._shortest_ns, 0) * WHOLE_PPB // self.cycle_ns

    def _with(self, start_ns: int, duration_ns: int, period_ns: int) -> int:
        if self.cycle_ns % period_ns:
            self._repeat(lcm(self.cycle_ns, period_ns))
        windows = self._windows
        added = sorted(self._in_cycle(start_ns, duration_ns, period_ns))
        if not windows:
            return self._between(added)
        kept, before = self._kept_ns, (-1, 0)
        for start, end in self._after_first(added):
            place = bisect_right(windows, (start, end))
            following = windows[place][0] if place < len(windows) else self._first_again()
            left = windows[place - 1][1] if place != before[0] else before[1]
            kept -= self._turn_ns(left, following)
            kept += self._turn_ns(left, start) + self._turn_ns(end, following)
            before = place, end
        return kept

    def _after_first(self, added: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """In order from the first window on, where none is before that of the cycle."""
        first, cycle = self._windows[0][0], self.cycle_ns
        return sorted(
            (start + cycle, end + cycle) if start < first else (start, end) for start, end in added
        )

    def _first_again(self) -> int:
        return self._windows[0][0] + self.cycle_ns

    def _repeat(self, cycle_ns: int) -> None:
        """Have the windows of a longer cycle."""
        if self._windows:
            times = range(0, cycle_ns, self.cycle_ns)
            self._windows = [(start + by, end + by) for by in times for start, end in self._windows]
        self._kept_ns *= cycle_ns // self.cycle_ns
        self.cycle_ns = cycle_ns

    def _in_cycle(
        self, start_ns: int, duration_ns: int, period_ns: int
    ) -> Iterator[tuple[int, int]]:
        """The windows of a reservation; their edges move to the tick before, as in a list."""
        tick = self._tick_ns
        for start in range(start_ns % period_ns, self.cycle_ns, period_ns):
            end = start + duration_ns
            yield start - start % tick, end - end % tick

    def _count(self) -> int:
        return self._between(self._windows) if self._windows else self.cycle_ns

    def _between(self, windows: list[tuple[int, int]]) -> int:
        start, end = windows[0]
        again = start + self.cycle_ns, end + self.cycle_ns
        return sum(self._turn_ns(one[1], other[0]) for one, other in pairwise([*windows, again]))

    def _turn_ns(self, close_ns: int, open_ns: int) -> int:
        """The turn between two windows, whose gate may close early; nothing where it is too
        short."""
        turn = open_ns - self._guard_ns - close_ns
        return turn - self._early_ns if turn >= self._least_ns else 0
