"""How far from its gate's windows a frame starts to leave a port."""

from __future__ import annotations

from bisect import bisect_right

from cnc.chart.axis import joined_open_times
from cnc.model import GateControlList


class Gate:
    """The gate of a traffic class. Cycles begin at multiples of their length on TAI."""

    def __init__(self, gates: GateControlList, traffic_class: int) -> None:
        self._cycle_ns = gates.cycle_ns
        self._windows = joined_open_times(gates, traffic_class)
        self._is_always = self._windows == [(0, gates.cycle_ns)]
        self._by_duration_ns: dict[int, list[tuple[int, int]]] = {}

    def shut_ns(self, instant_ns: int, duration_ns: int = 1) -> int:
        """How far an instant is from the nearest at which a frame may start that lasts so long: the
        gate is open, and stays so until the frame has left (802.1Q-2022 8.6.8.4). 0: it may; the
        length of a cycle: it never may.

        Without a duration: how far from the nearest instant at which the gate is open. The end of a
        window belongs to the gap after it.
        """
        if self._is_always:
            return 0
        starts = self._starts(duration_ns)
        if not starts:
            return self._cycle_ns
        phase_ns = instant_ns % self._cycle_ns
        after = bisect_right(starts, (phase_ns, 2 * self._cycle_ns))
        return max(0, min(phase_ns - starts[after - 1][1], starts[after][0] - phase_ns))

    def _starts(self, duration_ns: int) -> list[tuple[int, int]]:
        """The first and last instants at which a frame may start, of each window in which it fits:
        those of a cycle, and their neighbours in the cycles around it."""
        found = self._by_duration_ns.get(duration_ns)
        if found is None:
            once = [
                (opens_ns, shuts_ns - duration_ns)
                for opens_ns, shuts_ns in self._windows
                if shuts_ns - opens_ns >= duration_ns
            ]
            found = [
                (first_ns + turn_ns, last_ns + turn_ns)
                for turn_ns in range(-self._cycle_ns, 3 * self._cycle_ns, self._cycle_ns)
                for first_ns, last_ns in once
            ]
            self._by_duration_ns[duration_ns] = found
        return found
