"""The seam between two scheduled classes, where a frame that was early may start late."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import lcm

from cnc.account.frames import Transmission
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.model import Plan, PortRef


def judge_seams(
    plan: Plan, lists: Mapping[PortRef, GateCycle], transmissions: Iterable[Transmission]
) -> Iterator[Violation]:
    """A frame of another class that is early may leave just before its gate closes, and start up to
    the gate margin later: then no planned frame may be due. One violation for each two classes."""
    margin = plan.intent.network.gate_margin_ns
    if not margin:
        return
    by_port: defaultdict[PortRef, list[Transmission]] = defaultdict(list)
    for t in transmissions:
        if t.egress in lists and t.ingress is not None:
            by_port[t.egress].append(t)
    for port, frames in by_port.items():
        numbers = {t.traffic_class for t in frames}
        cycle = lcm(*{t.period_ns for t in frames})
        for number in numbers if len(numbers) > 1 else ():
            early = _Early([t for t in frames if t.traffic_class == number], cycle)
            # A gate that frames share is late by the margin itself, and waits for no longer.
            others = [t for t in frames if t.traffic_class != number and not t.is_shared]
            yield from _judge_class(lists[port], number, early, others, margin)


class _Early:
    """The stays in one queue: from the earliest arrival until the planned departure."""

    def __init__(self, frames: Sequence[Transmission], cycle_ns: int) -> None:
        self._cycle_ns = cycle_ns
        # Two cycles more than one: what is looked for lies in the second.
        stays = sorted(
            (departure - _planned_ns(t) + t.earliest_ns, departure)
            for t in frames
            for departure in range(_planned_ns(t) % t.period_ns, 3 * cycle_ns, t.period_ns)
        )
        self._earliest = [earliest for earliest, _ in stays]
        self._departures = list(accumulate((departure for _, departure in stays), max))

    def may_leave(self, closing_ns: int, planned_ns: int) -> bool:
        """Whether a frame that is planned for `planned_ns` or later may be there before the
        `closing_ns` of its gate."""
        shift = planned_ns % self._cycle_ns + self._cycle_ns - planned_ns
        before = bisect_left(self._earliest, closing_ns + shift)
        return before > 0 and self._departures[before - 1] >= planned_ns + shift


def _planned_ns(t: Transmission) -> int:
    """By when the frames start, if they come in time."""
    return t.busy_until_ns if t.is_shared else t.offset_ns


def _judge_class(
    gates: GateCycle, number: int, early: _Early, others: Iterable[Transmission], margin_ns: int
) -> Iterator[Violation]:
    gate = gates.gate(number)
    for t in others:
        for start in range(
            t.offset_ns, t.offset_ns + lcm(t.period_ns, gates.cycle_ns), t.period_ns
        ):
            closing = gate.last_open_ns(start)
            if closing > start - margin_ns and early.may_leave(closing, start):
                text = (
                    f"a frame of class {number} that is early may leave until {closing} ns and "
                    f"start {margin_ns} ns later, {t.stream} is planned for {start} ns"
                )
                yield Violation("gate-seam", str(t.egress), text)
                return
