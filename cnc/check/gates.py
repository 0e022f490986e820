"""Gate control lists: can the port run them, and do they let out what is planned and no more?"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import lcm

from cnc.check.frames import Transmission, wire_ns
from cnc.check.violation import Violation
from cnc.model import (
    ClassRole,
    GateControlList,
    Intent,
    Link,
    Plan,
    PortRef,
    TrafficClass,
    transmission_ns,
)

_CYCLE_MAX_NS = 2**31 - 1  # what the kernel's taprio can hold
_INTERVAL_MIN_OCTETS = 60  # taprio wants room for the smallest frame, without its FCS


def judge_gates(plan: Plan, transmissions: Iterable[Transmission]) -> Iterator[Violation]:
    """Every gate control list on its own, and against the frames planned for its port."""
    network = plan.intent.network
    by_port = defaultdict(list)
    for t in transmissions:
        if t.egress.node in network.bridges:
            by_port[t.egress].append(t)
    for port in sorted(by_port.keys() - plan.gates.keys()):
        streams = ", ".join(sorted({t.stream for t in by_port[port]}))
        yield Violation("gate-missing", str(port), f"no gate control list, but {streams} pass")
    hyperperiod = plan.intent.hyperperiod_ns()
    for port, gates in plan.gates.items():
        if port.node not in network.bridges or port not in network.links:
            yield Violation("gate-stray", str(port), "is not a connected port of a switch")
            continue
        link = network.links[port]
        unfit = list(_judge_list(port, gates, link, hyperperiod))
        yield from unfit
        yield from _judge_masks(port, gates, plan.intent)
        if not any(v.code == "gate-cycle" for v in unfit):
            yield from _judge_starvation(port, gates, plan.intent, link)
            yield from _judge_frames(plan.intent, link, gates, by_port[port])


def _judge_list(
    port: PortRef, gates: GateControlList, link: Link, hyperperiod_ns: int
) -> Iterator[Violation]:
    where, cycle = str(port), gates.cycle_ns
    total = sum(entry.interval_ns for entry in gates.entries)
    if cycle <= 0 or total != cycle:
        text = f"the intervals add up to {total} ns, the cycle is {cycle} ns"
        yield Violation("gate-cycle", where, text)
    elif hyperperiod_ns % cycle:
        text = f"the streams repeat every {hyperperiod_ns} ns, no multiple of the cycle {cycle} ns"
        yield Violation("gate-cycle", where, text)
    elif cycle > _CYCLE_MAX_NS:
        text = f"the cycle is {cycle} ns, the kernel takes at most {_CYCLE_MAX_NS} ns"
        yield Violation("gate-cycle", where, text)
    kernel_min = transmission_ns(_INTERVAL_MIN_OCTETS, link.rate_bps)
    shortest = max(link.gate_interval_min_ns, kernel_min)
    for index, entry in enumerate(gates.entries):
        if entry.interval_ns < shortest:
            text = f"entry {index} lasts {entry.interval_ns} ns, the port needs {shortest} ns"
            yield Violation("gate-interval", where, text)
    if link.gate_entries_max and len(gates.entries) > link.gate_entries_max:
        text = f"{len(gates.entries)} entries, the port holds {link.gate_entries_max}"
        yield Violation("gate-entries", where, text)


def _judge_masks(port: PortRef, gates: GateControlList, intent: Intent) -> Iterator[Violation]:
    known = sum(1 << c.number for c in intent.classes.values())
    for index, entry in enumerate(gates.entries):
        if strange := entry.gate_states & ~known:
            text = f"entry {index} opens gates {strange:#04x}, which belong to no class"
            yield Violation("gate-mask", str(port), text)
        for c in intent.classes_with(ClassRole.CONTROL):
            if not entry.gate_states >> c.number & 1:
                text = f"entry {index} ({entry.gate_states:#04x}) shuts out class {c.name}"
                yield Violation("gate-control", str(port), text)


def _judge_starvation(
    port: PortRef, gates: GateControlList, intent: Intent, link: Link
) -> Iterator[Violation]:
    for c in intent.classes_with(ClassRole.BEST_EFFORT):
        frame = wire_ns(intent, link, c)
        longest = _longest([bool(e.gate_states >> c.number & 1) for e in gates.entries], gates)
        if longest < frame:
            text = (
                f"class {c.name} is never open for more than {longest} ns, its largest frame takes "
                f"{frame} ns"
            )
            yield Violation("starved-best-effort", str(port), text)
    scheduled = intent.classes_with(ClassRole.SCHEDULED)
    for c in intent.classes_with(ClassRole.CONTROL):
        above = [s.number for s in scheduled if s.number > c.number]
        frame = wire_ns(intent, link, c)
        calm = [not any(e.gate_states >> n & 1 for n in above) for e in gates.entries]
        if (longest := _longest(calm, gates)) < frame:
            text = (
                f"scheduled classes above class {c.name} leave it {longest} ns at a time, its "
                f"largest frame takes {frame} ns"
            )
            yield Violation("starved-control", str(port), text)


def _longest(flags: list[bool], gates: GateControlList) -> int:
    """The longest run of flagged entries, which may go on over the end of the cycle."""
    runs = accumulate(
        zip(flags * 2, gates.entries * 2, strict=True),
        lambda run, item: run + item[1].interval_ns if item[0] else 0,
        initial=0,
    )
    return min(max(runs), gates.cycle_ns)


class _Gate:
    """The times one class's gate is open."""

    def __init__(self, gates: GateControlList, number: int) -> None:
        intervals = [entry.interval_ns for entry in gates.entries]
        is_open = [entry.gate_states >> number & 1 for entry in gates.entries]
        self._cycle_ns = gates.cycle_ns
        self._edges = list(accumulate(intervals, initial=0))
        self._open = list(accumulate(map(int.__mul__, intervals, is_open), initial=0))
        self._is_open = is_open

    def open_ns(self, start_ns: int, end_ns: int) -> int:
        """For how long the gate is open within [start, end)."""
        return self._until(end_ns) - self._until(start_ns)

    def _until(self, time_ns: int) -> int:
        cycles, phase = divmod(time_ns, self._cycle_ns)
        entry = bisect_right(self._edges, phase) - 1
        within = (phase - self._edges[entry]) * self._is_open[entry]
        return cycles * self._open[-1] + self._open[entry] + within


def _judge_frames(
    intent: Intent, link: Link, gates: GateControlList, planned: Iterable[Transmission]
) -> Iterator[Violation]:
    """Each planned frame, in every period until the cycle repeats with it."""
    gate_of = {c.number: _Gate(gates, c.number) for c in intent.classes.values()}
    others = [c for c in intent.classes.values() if c.role is not ClassRole.CONTROL]
    guards = [(c, wire_ns(intent, link, c)) for c in others if c.role is ClassRole.BEST_EFFORT]
    for t in planned:
        if t.traffic_class not in gate_of:
            continue  # reported as a wrong class
        for shift in range(0, lcm(gates.cycle_ns, t.period_ns), t.period_ns):
            found = list(_judge_frame(t, shift, gate_of, others, guards))
            yield from found
            if found:
                break  # one period tells the story


def _judge_frame(
    t: Transmission,
    shift_ns: int,
    gate_of: dict[int, _Gate],
    others: list[TrafficClass],
    guards: list[tuple[TrafficClass, int]],
) -> Iterator[Violation]:
    where = str(t.egress)
    start, end = t.offset_ns + shift_ns, t.busy_until_ns + shift_ns
    own = gate_of[t.traffic_class]
    frame = f"for {t.stream}, planned for {start} to {end} ns"
    if missing := end - start - own.open_ns(start, end):
        text = f"the gate of class {t.traffic_class} is shut for {missing} ns {frame}"
        yield Violation("gate-window", where, text)
    if early := own.open_ns(min(t.earliest_ns + shift_ns, start), start):
        text = f"the gate of class {t.traffic_class} is open {early} ns too soon {frame}"
        yield Violation("gate-early", where, text)
    for c in others:
        if c.number != t.traffic_class and (shared := gate_of[c.number].open_ns(start, end)):
            text = f"class {c.name} is open for {shared} ns of the time {frame}"
            yield Violation("gate-exclusive", where, text)
    for c, wire in guards:
        if gate_of[c.number].open_ns(start - wire, start):
            text = f"a frame of class {c.name} ({wire} ns) may still be on the wire {frame}"
            yield Violation("gate-guard", where, text)
