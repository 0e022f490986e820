"""Disturbances end: after one, frames come in time again, and when.

While a disturbance keeps a port from sending, or makes a frame miss its window, a backlog grows. It
leaves in the open stretches that drain the queue (`drains`), late; and late frames make others late
on the ports to come. How late frames can be on each port follows from how late they were on the
port before, so it is raised from nothing until no figure changes any more.

A frame that is on time and finds the queue of its port empty, or with frames on time only, leaves
on time. So a port is back to its plan when it has drained once after the ports before it are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import lcm
from typing import NamedTuple

from cnc.check.drains import Arrival, Drains, Interference
from cnc.check.frames import Transmission
from cnc.check.openings import GateCycle
from cnc.check.spread import Stay, spread_ns
from cnc.check.violation import Violation
from cnc.check.wire import blocking_ns, control_ns, wire_ns
from cnc.model import ClassRole, Intent, Link, Plan, PortRef

_ROUNDS_MAX = 200  # more hops than any path has, with room for paths that feed each other
_CONTROL_PARTS = 10  # what a control class may take of a link at most if it states no rate


class _Queue(NamedTuple):
    """The queue of a class of a port."""

    port: PortRef
    traffic_class: int


def judge_recovery(
    plan: Plan, lists: Mapping[PortRef, GateCycle], transmissions: Iterable[Transmission]
) -> Iterator[Violation]:
    """Streams that may stay late for longer after a disturbance than the plan says.

    `transmissions` are those of a plan that is sound otherwise.
    """
    if plan.intent.network.disturbance_ns is None:
        for name in plan.recovery_ns:
            text = "the plan promises a recovery, and the intent asks for none"
            yield Violation("recovery", name, text)
        return
    found = _Recovery(plan.intent, lists, transmissions).by_stream()
    for name in plan.streams:
        recovery_ns = found.get(name, 0)
        promised = plan.recovery_ns.get(name)
        if recovery_ns is None:
            yield Violation("recovery", name, "may stay late for ever after a disturbance")
        elif promised is None:
            yield Violation("recovery", name, "the plan does not say when it recovers")
        elif recovery_ns > promised:
            text = (
                f"may be late for {recovery_ns} ns after a disturbance, the plan promises "
                f"{promised} ns"
            )
            yield Violation("recovery", name, text)


class _Recovery:
    """The lateness on all ports of one plan. Transmissions are known by their numbers."""

    def __init__(
        self,
        intent: Intent,
        lists: Mapping[PortRef, GateCycle],
        transmissions: Iterable[Transmission],
    ) -> None:
        self._intent = intent
        self._lists = lists
        self._gated = [t for t in transmissions if t.ingress is not None]
        self._queues = [_Queue(t.egress, t.traffic_class) for t in self._gated]
        number: dict[tuple[str, PortRef | None, int], int] = {
            (t.stream, t.egress, t.offset_ns): n for n, t in enumerate(self._gated)
        }
        # None where the frame comes from its talker.
        self._before = [number.get((t.stream, t.ingress, t.ingress_offset_ns)) for t in self._gated]
        self._by_port: defaultdict[PortRef, list[int]] = defaultdict(list)
        for n, t in enumerate(self._gated):
            self._by_port[t.egress].append(n)

    def by_stream(self) -> dict[str, int | None]:
        """For how long after a disturbance each stream may be late; None: for ever."""
        drains, late_ns = self._drains_at_worst()
        ends = self._ends(drains, late_ns)
        worst: dict[str, int | None] = {}
        for t, queue in zip(self._gated, self._queues, strict=True):
            end, known = ends.get(queue), worst.get(t.stream, 0)
            worst[t.stream] = None if end is None or known is None else max(end, known)
        return worst

    def _ends(self, drains: Mapping[_Queue, Drains], late_ns: list[int]) -> dict[_Queue, int]:
        """How long after a disturbance frames may leave each queue late, if that has an end.

        It has when those before it in the flow of frames have, and it is drained once more. Queues
        in a circle have it when what is late in one of them spreads for a limited time only.
        """
        feeders = self._feeders()
        ends: dict[_Queue, int] = {}
        waiting = set(feeders)
        while waiting:
            ready = {q for q in waiting if feeders[q].keys() <= ends.keys()}
            if any(q not in drains for q in ready):
                feeders |= {q: {q: 0} for q in ready if q not in drains}  # never ready
                continue
            for queue in ready:
                last = max((ends[f] + way for f, way in feeders[queue].items()), default=0)
                ends[queue] = max(last, 0) + drains[queue].longest_ns()
            waiting -= ready
            if not ready:
                circle = waiting
                while circle != (feeding := circle & {f for q in circle for f in feeders[q]}):
                    circle = feeding
                if not circle <= drains.keys():
                    break
                spread = spread_ns(self._stays(circle, drains, late_ns))
                if spread is None:
                    break
                ways = [pair for q in circle for pair in feeders[q].items()]
                last = max([0, *(ends[f] + way for f, way in ways if f not in circle)])
                drained = max(drains[q].longest_ns() for q in circle)
                last += drained + max(way for _, way in ways) + spread
                ends |= dict.fromkeys(circle, last)
                waiting -= circle
        return ends

    def _stays(
        self, circle: set[_Queue], drains: Mapping[_Queue, Drains], late_ns: list[int]
    ) -> list[Stay]:
        """All frames that pass or delay the queues of a circle."""
        numbers = {number for _, number in self._queues}
        delayed = {
            n: delays
            for n, t in enumerate(self._gated)
            if (
                delays := [
                    drains[q]
                    for number in numbers
                    if number <= t.traffic_class and (q := _Queue(t.egress, number)) in circle
                ]
            )
        }
        place = {n: index for index, n in enumerate(delayed)}
        onward: defaultdict[int, list[int]] = defaultdict(list)
        for n in delayed:
            before = self._before[n]
            if before is not None and before in place:
                onward[before].append(place[n])
        cycle = lcm(*{self._gated[n].period_ns for n in delayed})
        return [
            Stay(
                t.egress,
                t.traffic_class,
                t.period_ns,
                t.earliest_ns,
                t.busy_until_ns,
                [
                    max(its.left_by_ns(t.offset_ns + late_ns[n] + shift) for its in delays)
                    for shift in range(0, cycle, t.period_ns)
                ],
                onward[n],
            )
            for n, delays in delayed.items()
            for t in [self._gated[n]]
        ]

    def _drains_at_worst(self) -> tuple[dict[_Queue, Drains], list[int]]:
        """The drains of every queue when frames are as late as any disturbance makes them, where
        that has a bound, and how late they are."""
        late = [0] * len(self._gated)
        drains: dict[_Queue, Drains] = {}
        changed = set(self._by_port)
        for _ in range(_ROUNDS_MAX):
            for port in changed:
                drains |= self._drains(port, late)
            changed = set()
            for n, before in enumerate(self._before):
                if before is None or (those := drains[self._queues[before]]).never:
                    continue
                later = _late_ns(those, self._gated[before], late[before])
                if later > late[n]:
                    late[n] = later
                    changed.add(self._gated[n].egress)
            if not changed:
                break
        bounded = {q: d for q, d in drains.items() if not d.never and q.port not in changed}
        return bounded, late

    def _feeders(self) -> dict[_Queue, dict[_Queue, int]]:
        """From which queues frames come that a queue must send first, and how long they take."""
        feeders: dict[_Queue, dict[_Queue, int]] = {queue: {} for queue in self._queues}
        for port, crossing in self._by_port.items():
            for number in {self._gated[n].traffic_class for n in crossing}:
                its = feeders[_Queue(port, number)]
                for n in crossing:
                    before, t = self._before[n], self._gated[n]
                    if before is not None and t.traffic_class >= number:
                        way_ns = t.latest_ns - self._gated[before].busy_until_ns
                        feeder = self._queues[before]
                        its[feeder] = max(way_ns, its.get(feeder, way_ns))
        return feeders

    def _drains(self, port: PortRef, late_ns: list[int]) -> dict[_Queue, Drains]:
        """Of each queue of the port; ahead of its frames go those of greater class numbers."""
        intent, link, gates = self._intent, self._intent.network.links[port], self._lists[port]
        blocking = blocking_ns(intent, link)
        crossing = [
            (
                t.traffic_class,
                Arrival(
                    t.period_ns,
                    t.earliest_ns,
                    t.offset_ns + late_ns[n],
                    t.busy_until_ns - t.offset_ns - blocking,
                ),
            )
            for n in self._by_port[port]
            for t in [self._gated[n]]
        ]
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        cycle = lcm(gates.cycle_ns, *{a.period_ns for _, a in crossing})
        found = {}
        for number in {c for c, _ in crossing}:
            arrivals = [a for c, a in crossing if c >= number]
            beside = [a.wire_ns for c, a in crossing if c < number]
            beside += [wire_ns(intent, link, c) for c in best_effort]
            stretches = gates.stretches(
                opened=_mask({c for c, _ in crossing if c >= number}),
                shut=_mask({c.number for c in best_effort if c.number > number}),
                within_ns=cycle,
            )
            against = self._interference(link, max(beside), max(a.wire_ns for a in arrivals))
            found[_Queue(port, number)] = Drains(cycle, stretches, arrivals, against)
        return found

    def _interference(self, link: Link, under_way_ns: int, odd_ns: int) -> Interference:
        network = self._intent.network
        control = self._intent.classes_with(ClassRole.CONTROL)
        taken = sum(
            link.rate_bps // _CONTROL_PARTS if c.rate_bps is None else c.rate_bps for c in control
        )
        return Interference(
            under_way_ns + odd_ns + control_ns(self._intent, link) + network.gate_margin_ns,
            taken,
            link.rate_bps,
            network.disturbance_ns or 0,
        )


def _late_ns(drains: Drains, t: Transmission, late_ns: int) -> int:
    """How much later than planned a frame has left for sure, in the worst period."""
    return max(
        drains.left_by_ns(shift + t.offset_ns + late_ns) - shift - t.busy_until_ns
        for shift in range(0, drains.cycle_ns, t.period_ns)
    )


def _mask(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)
