"""What events of the kernel say of frames: when each entered the queue of a port, and how long its
listener's program was woken before it ran.

A frame that a port lets go appears on the port's cable (`netif_rx` of the interface there), with
the address of its buffer. The last time that a buffer of that address entered a queue of the port's
name (`net_dev_queue`) was this frame's: an address is one frame's at a time, and until then.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from cnc.model import PortRef
from cnc.testbed.traffic.trace.join import Crossing
from cnc.testbed.traffic.trace.taps import TappedPort
from cnc.testbed.traffic.trace.trace_text import NET_DEV_QUEUE, NETIF_RX, SCHED_WAKING, Event

_ABSENT = -1  # among instants


class KernelEvents:
    """Events of a run, joined with what the taps saw.

    `ports` are those behind the interfaces on the cables, `programs` the process of each listener.
    """

    def __init__(
        self,
        events: Iterable[Event],
        ports: Mapping[str, PortRef],
        programs: Mapping[str, int],
        taps: Mapping[PortRef, TappedPort],
    ) -> None:
        departures = {port: _Departures() for port in ports.values()}
        self._wakings = {node: _Wakings() for node in programs}
        by_process = {str(process): self._wakings[node] for node, process in programs.items()}
        queued_ns: dict[tuple[str, str], int] = {}
        for time_ns, event, fields in events:
            if event == NET_DEV_QUEUE:
                queued_ns[fields[0], fields[1]] = time_ns
            elif event == NETIF_RX:
                interface, address = fields
                if port := ports.get(interface):
                    entered_ns = queued_ns.pop((port.port, address), _ABSENT)
                    departures[port].add(time_ns, entered_ns)
            elif event == SCHED_WAKING:
                if program := by_process.get(fields[0]):
                    program.woken(time_ns)
            else:
                before, after = map(by_process.get, fields)
                if before:
                    before.stopped()
                if after:
                    after.runs(time_ns)
        self._queued_ns = {
            port: its.queued_ns_of(taps[port].left.times_ns)
            for port, its in departures.items()
            if port in taps
        }

    def queued_ns(self, crossing: Crossing) -> int | None:
        """When a frame entered the queue of the port by which it left; None: no event says."""
        entered_ns, left_ns, place = crossing.entered_ns, crossing.left_ns, crossing.place
        if entered_ns is None or left_ns is None or place is None:
            return None
        if crossing.port not in self._queued_ns:
            return None
        queued_ns = self._queued_ns[crossing.port][place]
        return queued_ns if entered_ns <= queued_ns <= left_ns else None

    def waking_ns(self, listener: str, received_ns: int, delivered_ns: int) -> int:
        """For how long of this time the program of a listener was woken and did not run yet."""
        return self._wakings[listener].within_ns(received_ns, delivered_ns)


class _Departures:
    """The frames that left a port: when each was on the cable, and had entered the queue."""

    def __init__(self) -> None:
        self._left_ns, self._entered_ns = array("q"), array("q")

    def add(self, left_ns: int, entered_ns: int) -> None:
        self._left_ns.append(left_ns)
        self._entered_ns.append(entered_ns)

    def queued_ns_of(self, times_ns: array[int]) -> array[int]:
        """When each frame of a tap entered the queue, by when the tap saw them leave.

        The tap sees a frame at most one reading of the clock before it is on the cable, and before
        it sees the next.
        """
        found = array("q")
        place = 0
        for time_ns in times_ns:
            place = bisect_left(self._left_ns, time_ns, lo=place)
            following = bisect_right(times_ns, time_ns, lo=len(found))
            is_its_own = place < len(self._left_ns) and (
                following == len(times_ns) or self._left_ns[place] < times_ns[following]
            )
            found.append(self._entered_ns[place] if is_its_own else _ABSENT)
            place += is_its_own
        return found


class _Wakings:
    """Each time for which a program was woken and did not run yet."""

    def __init__(self) -> None:
        self._woken_ns, self._running_ns = array("q"), array("q")
        self._waits_since_ns: int | None = None
        self._is_running = False

    def woken(self, time_ns: int) -> None:
        """One that has not gone to sleep yet stays awake."""
        if not self._is_running and self._waits_since_ns is None:
            self._waits_since_ns = time_ns

    def runs(self, time_ns: int) -> None:
        if self._waits_since_ns is not None:
            self._woken_ns.append(self._waits_since_ns)
            self._running_ns.append(time_ns)
        self._waits_since_ns, self._is_running = None, True

    def stopped(self) -> None:
        self._is_running = False

    def within_ns(self, begin_ns: int, end_ns: int) -> int:
        sum_ns = 0
        for place in range(bisect_right(self._running_ns, begin_ns), len(self._running_ns)):
            if self._woken_ns[place] >= end_ns:
                break
            until_ns = min(self._running_ns[place], end_ns)
            sum_ns += until_ns - max(self._woken_ns[place], begin_ns)
        return sum_ns
