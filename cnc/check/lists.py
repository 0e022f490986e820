"""Gate control lists on their own: are they well-formed, and do they starve no class?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import lcm

from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.account.wire import guard_ns, slot_ns, wire_ns
from cnc.check.mechanisms import given_ports, given_repeats_ns
from cnc.model import (
    ClassRole,
    GateControlList,
    GateMode,
    Intent,
    Link,
    Network,
    Plan,
    PortRef,
    TrafficClass,
)

_WHOLE_PPB = 10**9
_CYCLE_MAX_NS = 2**31 - 1  # what the kernel's taprio can hold


def periods_of(plan: Plan) -> defaultdict[PortRef, set[int]]:
    """By port the periods of the streams that leave by it at planned times."""
    periods: defaultdict[PortRef, set[int]] = defaultdict(set)
    for name, planned in plan.streams.items():
        stream = plan.intent.streams.get(name)
        if stream is not None and planned.has_instants:
            for hop in planned.hops:
                periods[hop.egress].add(stream.period_ns)
    return periods


def judge_cycles(
    gates: Mapping[PortRef, GateControlList], periods: Mapping[PortRef, Collection[int]]
) -> Iterator[Violation]:
    """Links whose streams, or whose gate control list beside them, repeat together too rarely.

    No list can be as long, and every other rule looks through such a cycle.
    """
    for port in sorted(gates.keys() | periods.keys()):
        cycle_ns = gates[port].cycle_ns if port in gates else 0
        repeating = {*periods.get(port, ()), *([cycle_ns] if cycle_ns > 0 else [])}
        what = "the cycle is"
        if cycle_ns <= _CYCLE_MAX_NS:
            cycle_ns, what = lcm(*repeating), "what is planned there repeats only every"
        if cycle_ns > _CYCLE_MAX_NS:
            text = f"{what} {cycle_ns} ns, the kernel takes at most {_CYCLE_MAX_NS} ns"
            yield Violation("gate-cycle", str(port), text)


def readable_lists(plan: Plan, hyperperiod_ns: int | None = None) -> dict[PortRef, GateCycle]:
    """The lists of gated ports whose cycle is sound, so that times can be looked up in them.
    `hyperperiod_ns` is that of all streams of the intent, for who knows it."""
    intent = plan.intent
    others = [c for c in intent.classes.values() if c.role is not ClassRole.CONTROL]
    unplanned = intent.unplanned_classes()
    hyperperiod_ns = hyperperiod_ns or intent.hyperperiod_ns()
    readable = {}
    given, repeats_ns = given_ports(plan), given_repeats_ns(intent)
    for port, gates in plan.gates.items():
        if not is_gated_port(intent.network, port):
            continue
        repeat_ns = lcm(hyperperiod_ns, repeats_ns.get(port, 1))
        if _cycle_fault(gates, intent, repeat_ns, is_given=port in given):
            continue
        link = intent.network.links[port]
        readable[port] = GateCycle(
            gates,
            gated=_mask(others),
            best_effort=_mask(unplanned),
            guard_ns=max((guard_ns(intent, link, c) for c in unplanned), default=0),
            early_ns=link.gate_early_ns,
        )
    return readable


def judge_lists(
    plan: Plan, readable: Mapping[PortRef, GateCycle], hyperperiod_ns: int | None = None
) -> Iterator[Violation]:
    """What is wrong with any list, whatever frames are planned; see `readable_lists`. Those that an
    operator gives have rules of their own (`cnc.check.mechanisms.judge_given`)."""
    network, hyperperiod_ns = plan.intent.network, hyperperiod_ns or plan.intent.hyperperiod_ns()
    given, repeats_ns = given_ports(plan), given_repeats_ns(plan.intent)
    for port, gates in plan.gates.items():
        if not is_gated_port(network, port):
            text = "is no connected port of a switch, nor of an end station with gates"
            yield Violation("gate-stray", str(port), text)
            continue
        repeat_ns = lcm(hyperperiod_ns, repeats_ns.get(port, 1))
        if port not in readable and (
            fault := _cycle_fault(gates, plan.intent, repeat_ns, is_given=port in given)
        ):
            yield Violation("gate-cycle", str(port), fault)
        if network.links[port].preemption and not _may_preempt(network, port):
            text = (
                "its intent has preemption: true, which nothing configures there: the agent hands "
                "preemptable classes to a port with a list that it runs itself (gates: "
                "full-offload); remove the key and plan again"
            )
            yield Violation("preemption", str(port), text)
        if port in given:
            continue
        yield from _judge_masks(port, gates, plan.intent)
        if port in readable:
            yield from _judge_starvation(plan.intent, network.links[port], readable[port])


def is_gated_port(network: Network, port: PortRef) -> bool:
    """Whether scheduled frames that leave by the port need a list."""
    station = network.end_stations.get(port.node)
    has_gates = station is not None and station.gate_mode is not None
    return port in network.links and (port.node in network.bridges or has_gates)


def _may_preempt(network: Network, port: PortRef) -> bool:
    """Whether a rollout can have frames of a port give way to others: of a switch with the agent,
    whose ports run their lists, and start frames that do not end before their gate closes."""
    is_offloaded = network.gate_mode(port.node) is GateMode.FULL_OFFLOAD
    is_ours = port.node in network.bridges and network.profile(port.node) is None
    return is_offloaded and is_ours and not network.links[port].fits_only


def _masks(gates: GateControlList) -> set[int]:
    return {entry.gate_states for entry in gates.entries}


def _mask(classes: Iterable[TrafficClass]) -> int:
    return sum(1 << c.number for c in classes)


def _cycle_fault(
    gates: GateControlList, intent: Intent, hyperperiod_ns: int, *, is_given: bool
) -> str | None:
    cycle = gates.cycle_ns
    intervals = [entry.interval_ns for entry in gates.entries]
    if cycle <= 0 or sum(intervals) != cycle:
        return f"the intervals add up to {sum(intervals)} ns, the cycle is {cycle} ns"
    if min(intervals) <= 0:
        return f"entry {intervals.index(min(intervals))} lasts {min(intervals)} ns"
    if is_given:
        return None
    if not intent.streams:
        return (
            "the plan has no streams, by whose periods a cycle is judged; state them in its "
            "intent, or the list as gate-control-list of its port"
        )
    if hyperperiod_ns % cycle:
        return (
            f"what is planned repeats every {hyperperiod_ns} ns, which is not a multiple of the "
            f"cycle {cycle} ns"
        )
    return None


def _judge_masks(port: PortRef, gates: GateControlList, intent: Intent) -> Iterator[Violation]:
    known = _mask(intent.classes.values())
    control = intent.classes_with(ClassRole.CONTROL)
    # A talker's late frame would stay behind a gate that shuts, and make those after it late.
    is_talker = port.node in intent.network.end_stations
    sent = intent.planned_classes() if is_talker else []
    always = _mask([*control, *sent])
    if all(mask & ~known == 0 and mask & always == always for mask in _masks(gates)):
        return  # nearly always, and a list has very many entries of few masks
    for index, entry in enumerate(gates.entries):
        states = entry.gate_states
        if strange := states & ~known:
            text = f"entry {index} opens gates {strange:#04x} of no class"
            yield Violation("gate-mask", str(port), text)
        for c in control:
            if not states >> c.number & 1:
                text = f"entry {index} ({states:#04x}) closes the gate of class {c.name}"
                yield Violation("gate-control", str(port), text)
        for c in sent:
            if not states >> c.number & 1:
                text = (
                    f"entry {index} ({states:#04x}) closes the gate of class {c.name} at a talker"
                )
                yield Violation("gate-talker", str(port), text)


def _judge_starvation(intent: Intent, link: Link, gates: GateCycle) -> Iterator[Violation]:
    for c in intent.classes_with(ClassRole.BEST_EFFORT):
        slot, frame = slot_ns(intent, link, c), wire_ns(intent, link, c)
        bit = 1 << c.number
        if not any(run >= slot for run in gates.runs_ns(bit, bit)):
            longest = max(gates.runs_ns(bit, bit), default=0)
            off = f" and its gate may be off by {slot - frame} ns" if slot > frame else ""
            text = (
                f"class {c.name} is never open for more than {longest} ns, its largest frame takes "
                f"{frame} ns{off}"
            )
            yield Violation("starved-best-effort", str(link.source), text)
        if c.min_share_ppb and link.source.node in intent.network.bridges:
            yield from _judge_share(link, gates, c, slot)
    scheduled = intent.classes_with(ClassRole.SCHEDULED)
    for c in intent.classes_with(ClassRole.CONTROL):
        above = _mask(s for s in scheduled if s.number > c.number)
        frame = wire_ns(intent, link, c)
        enough = frame + link.gate_early_ns
        if not any(run >= enough for run in gates.runs_ns(above, 0)):
            longest = max(max(gates.runs_ns(above, 0), default=0) - link.gate_early_ns, 0)
            text = (
                f"scheduled classes above class {c.name} leave it {longest} ns at a time, its "
                f"largest frame takes {frame} ns"
            )
            yield Violation("starved-control", str(link.source), text)


def _judge_share(
    link: Link, gates: GateCycle, best_effort: TrafficClass, slot_ns: int
) -> Iterator[Violation]:
    """Whether the openings that hold a largest frame add up to what the class is to keep."""
    bit, wanted = 1 << best_effort.number, best_effort.min_share_ppb or 0
    opened = sum(run - link.gate_early_ns for run in gates.runs_ns(bit, bit) if run >= slot_ns)
    if opened * _WHOLE_PPB < wanted * gates.cycle_ns:
        text = (
            f"class {best_effort.name} is open for {opened} ns of {gates.cycle_ns} ns in turns "
            f"long enough for its largest frame, its min-share is {wanted * 100 / _WHOLE_PPB:g}%"
        )
        yield Violation("best-effort-share", str(link.source), text)
