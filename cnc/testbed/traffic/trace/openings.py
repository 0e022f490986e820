"""When the gate of a class lets a frame start, by a gate control list. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.chart.axis import joined_open_times
from cnc.model import GateControlList
from cnc.testbed.traffic.trace.clocks import Clock


class Openings:
    """The times at which a frame may start to leave a port: its gate is open, and stays so until
    the frame has left (802.1Q 8.6.8.4; Linux: `taprio_entry_allows_tx`).

    `duration_ns` is how long the frame occupies the link. Cycles of the list begin at multiples of
    its length on TAI, by `clock`, which is that of the port's node. All instants are true ones.
    """

    def __init__(
        self, gates: GateControlList, traffic_class: int, duration_ns: int, clock: Clock
    ) -> None:
        self._clock = clock
        self._cycle_ns = gates.cycle_ns
        windows = joined_open_times(gates, traffic_class)
        self._is_always = windows == [(0, gates.cycle_ns)]
        self._starts = [
            (open_ns, close_ns - duration_ns)
            for open_ns, close_ns in windows
            if close_ns - open_ns > duration_ns
        ]

    def first_ns(self, from_ns: int) -> int | None:
        """The first instant from then on at which the frame may start; None: it never may."""
        return next((begin_ns for begin_ns, _ in self._from(from_ns)), None)

    def shut_ns(self, begin_ns: int, end_ns: int) -> int:
        """For how long of this time the frame may not start."""
        shut_ns, now_ns = 0, begin_ns
        for start_ns, stop_ns in self._from(begin_ns):
            if start_ns >= end_ns:
                break
            shut_ns += start_ns - now_ns
            now_ns = min(stop_ns, end_ns)
        return shut_ns + end_ns - now_ns

    def _from(self, from_ns: int) -> Iterator[tuple[int, int]]:
        """The times at which it may start, from an instant on, without end."""
        if self._is_always:
            yield from_ns, from_ns + (1 << 62)
            return
        shown_ns = self._clock.shown_ns(from_ns)
        cycle_begin_ns = shown_ns // self._cycle_ns * self._cycle_ns
        while self._starts:
            for start_ns, stop_ns in self._starts:
                if cycle_begin_ns + stop_ns > shown_ns:
                    begin_ns = max(from_ns, self._clock.true_ns(cycle_begin_ns + start_ns))
                    yield begin_ns, max(begin_ns, self._clock.true_ns(cycle_begin_ns + stop_ns))
            cycle_begin_ns += self._cycle_ns
