"""Disturbances end, where streams share windows: how long a queue may be busy after one.

A *busy* time of a queue is one in which a frame waits or is sent. What comes to the queue in it and
what the gate lets go bound how long it lasts. Once it is over, all that comes later as planned is
in time, as the rules for windows have it, which ask only what came since none waited. So a queue is
back to its plan one busy time after all that feed it are. Queues that feed one another in a ring
have no bound here.

*Service.* While frames of a class wait, a stretch of time in which their gate is open, and none of
best effort goes before them, serves them for all of its length but for: the margin and a frame of
another class at its beginning, control, the classes above, and a frame that does not fit before its
end any more, if it has one. Windows of single frames serve nothing by this; control may take all.
Of `n + 1` cycles, of lists and periods, from any instant on, at least `n` have all stretches whole.

*Work.* In `n` cycles come the frames planned for `n` cycles, those of one period more of each
stream, and as many as its earliest and latest arrival are apart. None comes sooner than planned.
Beside them come frames that are late already at the beginning: they are in queues before this one
then. Of a stream that comes up to `d` late those are the frames of `d`; and of all streams they are
no more than these queues hold. The smaller of both counts. No queue holds more than what comes in a
cycle, what is late, and what could not be served for the reasons below.

Once on each port are lost: the disturbance, what it costs to begin, twice, and a frame that its
talker sends at any time. Classes above take what comes of them meanwhile, and twice what they hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import lcm
from typing import NamedTuple

from cnc.account.frames import Transmission, from_switches
from cnc.account.openings import GateCycle
from cnc.account.wire import control_part, control_waiting_ns, wire_ns
from cnc.check.mechanisms import drops_misfits
from cnc.check.shared import goes_ns
from cnc.check.shared_recovery import BUSY, CIRCULAR, lags_of
from cnc.model import ClassRole, Intent, PortRef
from cnc.support.format import duration

_Queue = tuple[PortRef, int]
"""A port and a class."""


class _Service(NamedTuple):
    """How long a queue is served in each of its cycles while frames wait, and what it costs to
    begin again."""

    cycle_ns: int
    serves_ns: int
    begins_ns: int


class _Busy(NamedTuple):
    """A busy time lasts up to `lasts_ns`, the queue holds up to `holds_ns` of work, and it and all
    before it hold `before_ns` that may be late for the next, as the port sends it."""

    lasts_ns: int
    holds_ns: int
    before_ns: int


class BusyPeriods:
    """The busy times of all queues of one plan. Transmissions are known by their numbers."""

    def __init__(
        self,
        intent: Intent,
        lists: Mapping[PortRef, GateCycle],
        transmissions: Sequence[Transmission],
        disturbance_ns: int,
    ) -> None:
        self._intent = intent
        self._lists = lists
        self._disturbance_ns = disturbance_ns
        self._gated, self._before = from_switches(transmissions)
        self._sent = [t for t in transmissions if t.ingress is None]
        self._talkers = lags_of(intent, self._sent)
        sending = {(t.stream, t.egress, t.offset_ns): t for t in self._sent}
        # By transmission: by what its frames came, and how long that takes from the end on.
        self._feeders = [
            sending[t.stream, t.ingress or t.egress, t.ingress_offset_ns]
            if before is None
            else self._gated[before]
            for t, before in zip(self._gated, self._before, strict=True)
        ]
        self._takes_ns = [
            feeder.frame_ns + max(t.latest_ns, t.all_there_ns) - feeder.busy_until_ns
            for t, feeder in zip(self._gated, self._feeders, strict=True)
        ]
        self._is_dropped = {
            t.stream: drops_misfits(intent, t.stream, t.traffic_class)
            for t, before in zip(self._gated, self._before, strict=True)
            if before is None
        }
        self._queues: defaultdict[_Queue, list[int]] = defaultdict(list)
        for n, t in enumerate(self._gated):
            self._queues[t.egress, t.traffic_class].append(n)
        # By transmission: how much later than planned it may come after a disturbance anywhere.
        self._late_ns = [0] * len(self._gated)
        self._busy: dict[_Queue, _Busy] = {}
        self._back_ns: dict[_Queue, int] = {}
        self.endless: dict[PortRef, str] = {}  # why there is no bound, once streams are judged

    def by_stream(self) -> dict[str, int | None]:
        """For how long after a disturbance each stream may be late; None: no bound is found."""
        self._find()
        worst: dict[str, int | None] = {}
        for t in self._sent:
            worst[t.stream] = _longer(worst.get(t.stream, 0), self._talkers[t.egress].over_ns)
        for t in self._gated:
            back = self._back_ns.get((t.egress, t.traffic_class))
            worst[t.stream] = _longer(worst.get(t.stream, 0), back)
        return worst

    def _find(self) -> None:
        """The queues in an order in which those that feed one come before it."""
        after: defaultdict[_Queue, list[_Queue]] = defaultdict(list)
        waiting: dict[_Queue, int] = {}
        for queue in self._queues:
            feeding = self._feeding(queue)
            waiting[queue] = len(feeding)
            for its in feeding:
                after[its].append(queue)
        self.endless = {port: BUSY for port, its in self._talkers.items() if its.over_ns is None}
        ready = [queue for queue, count in waiting.items() if not count]
        lost: set[_Queue] = set()
        for queue in ready:
            if not self._reach(queue):
                lost.add(queue)
            for its in after[queue]:
                waiting[its] -= 1
                if not waiting[its]:
                    ready.append(its)
        for port, _ in self._queues.keys() - set(ready):
            self.endless.setdefault(port, CIRCULAR)

    def _feeding(self, queue: _Queue) -> set[_Queue]:
        """The queues from which frames come, and those of the classes above."""
        _, number = queue
        before = (self._before[n] for n in self._queues[queue])
        found = {(self._gated[b].egress, number) for b in before if b is not None}
        return found | set(self._above(queue))

    def _above(self, queue: _Queue) -> list[_Queue]:
        port, number = queue
        return [(port, c) for c in range(number + 1, 8) if (port, c) in self._queues]

    def _reach(self, queue: _Queue) -> bool:
        """Whether a queue has a bound, which is noted; all that feed it are known."""
        its, above = self._queues[queue], self._above(queue)
        numbers = [n for each in (queue, *above) for n in self._queues[each]]
        if not all(each in self._busy for each in above):
            return False
        fed_ns = 0
        for n in its:
            t, before, feeder = self._gated[n], self._before[n], self._feeders[n]
            if before is None:
                talker = self._talkers[feeder.egress]
                if talker.over_ns is None:
                    return False
                over_ns, late_ns = talker.over_ns, talker.late_ns[t.traffic_class] or 0
                if self._is_dropped[t.stream]:
                    bridge = self._intent.network.bridges[t.egress.node]
                    late_ns = bridge.processing_max_ns
                self._late_ns[n] = late_ns
            else:
                known = feeder.egress, t.traffic_class
                if known not in self._busy:
                    return False
                over_ns = self._back_ns[known]
                stays_ns = feeder.busy_until_ns - max(feeder.latest_ns, feeder.all_there_ns)
                late_ns = self._late_ns[before] + self._busy[known].lasts_ns - stays_ns
                self._late_ns[n] = max(0, late_ns + feeder.frame_ns)
            fed_ns = max(fed_ns, over_ns + self._takes_ns[n])
        service = self._service(queue, [self._gated[n] for n in numbers])
        planned_ns, burst_ns = self._work(service.cycle_ns, its)
        before_ns = self._late_before(queue)
        once_ns = 2 * service.begins_ns + self._disturbance_ns + self._unasked(its)
        holds_ns = planned_ns + burst_ns + before_ns + once_ns
        for each in above:
            higher_ns, higher_burst_ns = self._work(service.cycle_ns, self._queues[each])
            planned_ns += higher_ns
            holds_ns += higher_ns + higher_burst_ns + 2 * self._busy[each].holds_ns
        spare_ns = service.serves_ns - planned_ns
        if spare_ns <= 0:
            self.endless[queue[0]] = (
                f"in {duration(service.cycle_ns)} its gates leave late frames "
                f"{duration(service.serves_ns)} at least, of which those that come as planned take "
                f"{duration(planned_ns)}"
            )
            return False
        cycles = -(-holds_ns // spare_ns)  # of service, which make up for all that there may be
        lasts_ns = (cycles + 1) * service.cycle_ns
        self._busy[queue] = _Busy(lasts_ns, holds_ns, before_ns + holds_ns)
        self._back_ns[queue] = fed_ns + lasts_ns
        return True

    def _service(self, queue: _Queue, crossing: Sequence[Transmission]) -> _Service:
        intent, (port, number) = self._intent, queue
        link, gates = intent.network.links[port], self._lists[port]
        cycle = lcm(gates.cycle_ns, *{t.period_ns for t in crossing})
        its = [t for t in crossing if t.traffic_class == number]
        above = (c for c in intent.classes_with(ClassRole.BEST_EFFORT) if c.number > number)
        shut = sum(1 << c.number for c in above)
        others = [
            c
            for c in intent.classes.values()
            if c.role is not ClassRole.CONTROL and c.number != number
        ]
        beside_ns = max((wire_ns(intent, link, c) for c in others), default=0)
        begins_ns = intent.network.gate_margin_ns + beside_ns + control_waiting_ns(intent, link)
        part, whole = control_part(intent, link)
        part = min(part, whole)
        longest = max(t.frame_ns for t in its)
        shortest = min(t.frame_min_ns for t in its)
        serves_ns = 0
        for start, end in gates.stretches(opened=1 << number, shut=shut, within_ns=gates.cycle_ns):
            lasts_ns = end - start
            if lasts_ns >= gates.cycle_ns:  # it never shuts
                lasts_ns = cycle - goes_ns(intent, link, cycle // shortest + 1)
                serves_ns = max(0, lasts_ns) * (whole - part) // whole
                return _Service(cycle, serves_ns, begins_ns + longest)
            lasts_ns -= gates.early_ns + goes_ns(intent, link, lasts_ns // shortest + 1)
            one_ns = max(0, lasts_ns) * (whole - part) // whole - begins_ns - longest
            serves_ns += max(0, one_ns)
        return _Service(cycle, serves_ns * (cycle // gates.cycle_ns), begins_ns + longest)

    def _work(self, cycle_ns: int, numbers: Sequence[int]) -> tuple[int, int]:
        """What comes as planned in each cycle, and what may come besides in any number of them."""
        planned_ns = burst_ns = 0
        for t in (self._gated[n] for n in numbers):
            planned_ns += t.work_ns * (cycle_ns // t.period_ns)
            varies_ns = max(t.latest_ns, t.all_there_ns) - t.earliest_ns
            burst_ns += t.work_ns * (varies_ns // t.period_ns + 1)
        return planned_ns, burst_ns

    def _unasked(self, numbers: Sequence[int]) -> int:
        """What a frame takes that its talker sends at any time, or both of its copies."""
        works: defaultdict[str, int] = defaultdict(int)
        for t in (self._gated[n] for n in numbers):
            works[t.stream] += 0 if self._is_dropped[t.stream] else t.work_ns
        return max(works.values())

    def _late_before(self, queue: _Queue) -> int:
        """What may come late to a queue of all that is late at any one time."""
        by_time_ns = from_talkers_ns = 0
        feeders: dict[PortRef, tuple[int, int, int]] = {}
        for n in self._queues[queue]:
            t, feeder = self._gated[n], self._feeders[n]
            late_ns = t.work_ns * -(-self._late_ns[n] // t.period_ns)
            by_time_ns += late_ns
            if self._before[n] is None:
                from_talkers_ns += late_ns
                continue
            most, work, of = feeders.get(feeder.egress, (0, 0, 1))
            if t.work_ns * of > work * feeder.work_ns:
                work, of = t.work_ns, feeder.work_ns
            feeders[feeder.egress] = max(most, self._takes_ns[n]), work, of
        by_room_ns = from_talkers_ns
        for port, (takes_ns, work, of) in feeders.items():
            known = self._busy[port, queue[1]]
            by_room_ns += -(-(known.before_ns + takes_ns) * work // of)
        return min(by_time_ns, by_room_ns)


def _longer(known: int | None, other: int | None) -> int | None:
    return None if known is None or other is None else max(known, other)
