"""An egress port as user-mode Linux has it in the lab: taprio in software before an emulated cable.

The rules of net/sched/sch_taprio.c (Linux 6.12), `taprio_dequeue_from_txq` and
`taprio_update_budgets`: at one moment as many frames leave as fit, each if it would end before its
gate closes and the budget lasts, which each entry of the list grants anew. Every attempt is charged
to the budgets of all classes, failed ones too. The cable (netem) takes what comes, one frame after
the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import accumulate

from cnc.model import GateControlList, Intent, Link
from tests.simulator.adversary import Adversary, Nobody
from tests.simulator.octets import FrameTimes
from tests.simulator.ports import Frame, Start, Step

_MAC_HEADER_OCTETS = 14
_STAB_OVERHEAD_OCTETS = 24  # FCS, preamble, start delimiter and gap, which the agent lets it count
_QUEUE_FRAMES = 1000  # that a class holds: pfifo, as long as the veth's tx_queue_len
_NEVER_NS = 1 << 62


def lab_times(intent: Intent) -> FrameTimes:
    """What the lab counts: its frames have no tag, are not padded, and leave no gap on the cable,
    where the tag is counted all the same."""
    overhead = intent.network.overhead
    last_bit = overhead.link_layer_octets + overhead.physical_octets - overhead.gap_octets
    return FrameTimes(_MAC_HEADER_OCTETS + _STAB_OVERHEAD_OCTETS, last_bit, last_bit)


class TaprioPort:
    """Gates and cable keep the rate of the link. The adversary says how late a gate moves."""

    def __init__(
        self,
        intent: Intent,
        link: Link,
        gates: GateControlList | None,
        adversary: Adversary | None = None,
    ) -> None:
        self._adversary = adversary or Nobody()
        self._times = lab_times(intent)
        self._rate_bps = link.rate_bps
        numbers = sorted((c.number for c in intent.classes.values()), reverse=True)
        self._queues: dict[int, deque[Frame]] = {number: deque() for number in numbers}
        self._gates = gates
        self._cable_free_ns = -_NEVER_NS
        self._entry_from_ns = -_NEVER_NS
        self._budgets: dict[int, float] = {}
        if gates:
            self._edges = [0, *accumulate(entry.interval_ns for entry in gates.entries)]
            self._open_ns = [
                {number: self._duration_ns(gates, index, number) for number in numbers}
                for index in range(len(gates.entries))
            ]

    @staticmethod
    def _duration_ns(gates: GateControlList, index: int, number: int) -> int:
        """How long a gate stays open from the start of an entry on; the cycle if it never
        closes."""
        total = 0
        for entry in (*gates.entries[index:], *gates.entries[:index]):
            if not entry.gate_states >> number & 1:
                break
            total += entry.interval_ns
        return total

    def enqueue(self, frame: Frame) -> None:
        queue = self._queues[frame.flow.traffic_class]
        if len(queue) < _QUEUE_FRAMES:
            queue.append(frame)

    def waiting(self) -> list[Frame]:
        return [frame for queue in self._queues.values() for frame in queue]

    def step(self, now_ns: int) -> Step:
        starts: list[Start] = []
        until = self._enter(now_ns)
        while frame := self._next(now_ns):
            start = max(now_ns, self._cable_free_ns)
            takes = self._times.link_ns(frame.flow.payload_octets, self._rate_bps)
            self._cable_free_ns = start + takes
            starts.append(Start(frame, start))
        if until is None or not any(self._queues.values()):
            return Step(starts)
        return Step(starts, until + self._adversary.lateness_ns(_NEVER_NS))

    def _enter(self, now_ns: int) -> int | None:
        """Grant budgets if another entry has begun; returns when the next does."""
        if self._gates is None:
            return None
        phase = now_ns % self._gates.cycle_ns
        self._index = bisect_right(self._edges, phase) - 1
        begun = now_ns - phase + self._edges[self._index]
        if begun != self._entry_from_ns:
            self._entry_from_ns = begun
            self._budgets = {
                number: float("inf")
                if duration == self._gates.cycle_ns
                else duration * self._rate_bps // 8_000_000_000
                for number, duration in self._open_ns[self._index].items()
            }
        return begun + self._gates.entries[self._index].interval_ns

    def _next(self, now_ns: int) -> Frame | None:
        for number, queue in self._queues.items():
            if queue and self._lets_pass(number, queue[0], now_ns):
                return queue.popleft()
        return None

    def _lets_pass(self, number: int, frame: Frame, now_ns: int) -> bool:
        if self._gates is None:
            return True
        duration = self._open_ns[self._index][number]
        if not duration:
            return False
        takes = self._times.gate_ns(frame.flow.payload_octets, self._rate_bps)
        closes = self._entry_from_ns + duration
        if duration < self._gates.cycle_ns and now_ns + takes >= closes:
            return False
        octets = frame.flow.payload_octets + self._times.gate_octets
        for each in self._budgets:
            self._budgets[each] -= octets
        return self._budgets[number] >= 0
