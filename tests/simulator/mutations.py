"""Plans with one thing changed, at random: some are wrong then, and the judge should know which."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random

from cnc.model import (
    ClassRole,
    GateControlList,
    GateEntry,
    Hop,
    Network,
    Plan,
    PortRef,
    Stream,
    StreamPlan,
)


def mutated(plan: Plan, seed: int) -> tuple[str, Plan]:
    """The plan with a change of a kind that the seed chooses, and the name of that kind. `plan`
    must have a stream that crosses a switch."""
    random = Random(seed)  # noqa: S311  not for secrets
    kinds = _KINDS | _WINDOW_KINDS if has_shared_windows(plan) else _KINDS
    kind = random.choice(sorted(kinds))
    return kind, kinds[kind](plan, random)


def has_shared_windows(plan: Plan) -> bool:
    """Whether frames of some streams share windows."""
    return any(hop.is_shared for its in plan.streams.values() for hop in its.hops)


def with_list(plan: Plan, port: PortRef, *entries: GateEntry) -> Plan:
    """The plan with another list on a port, whose cycle follows from its entries."""
    gates = GateControlList(sum(entry.interval_ns for entry in entries), entries)
    return replace(plan, gates={**plan.gates, port: gates})


def with_stream(plan: Plan, name: str, planned: StreamPlan) -> Plan:
    return replace(plan, streams={**plan.streams, name: planned})


def with_shorter_windows(plan: Plan, port: PortRef, number: int, by_ns: int) -> Plan:
    """The plan with windows of a class on a port that end, and whose gate closes, sooner, or if
    `by_ns` is negative later, and the bounds that follow."""
    links, streams = plan.intent.network.links, plan.intent.streams
    shorter = with_hops(
        plan, port, number, lambda hop: replace(hop, window_ns=hop.window_ns - by_ns)
    )
    opened = set()
    for name, planned in shorter.streams.items():
        if planned == plan.streams[name]:
            continue
        opened |= {hop.offset_ns for hop in planned.hops if hop.egress == port}
        if links[port].target.node in streams[name].listeners:
            bound = planned.latency_bound_ns - by_ns
            shorter = with_stream(shorter, name, replace(planned, latency_bound_ns=bound))
    if port not in plan.gates:
        return shorter
    return _with_closings(shorter, port, number, opened, by_ns)


def with_hops(plan: Plan, port: PortRef, number: int, change: Callable[[Hop], Hop]) -> Plan:
    """The plan with other hops of a class on a port, of those that share a window."""
    for name, planned in plan.streams.items():
        paths = tuple(
            tuple(
                change(hop)
                if hop.is_shared and (hop.egress, hop.traffic_class) == (port, number)
                else hop
                for hop in path
            )
            for path in planned.paths
        )
        plan = with_stream(plan, name, replace(planned, paths=paths))
    return plan


def _with_closings(plan: Plan, port: PortRef, number: int, opened_ns: set[int], by_ns: int) -> Plan:
    """The gate of a class closes sooner after each of these times, at which it is open, unless it
    never does."""
    entries = list(plan.gates[port].entries)
    count = len(entries)
    if all(entry.gate_states >> number & 1 for entry in entries):
        return plan
    begins = [0, *accumulate(entry.interval_ns for entry in entries)]
    closing = set()
    for at in opened_ns:
        last = bisect_right(begins, at % begins[-1]) - 1
        while entries[(last + 1) % count].gate_states >> number & 1:
            last = (last + 1) % count
        closing.add(last)
    for index in closing:
        following = (index + 1) % count
        shorter = entries[index].interval_ns - by_ns
        longer = entries[following].interval_ns + by_ns
        entries[index] = replace(entries[index], interval_ns=shorter)
        entries[following] = replace(entries[following], interval_ns=longer)
    return with_list(plan, port, *entries)


def _amount_ns(random: Random) -> int:
    size = random.choice((1, 50, 500, 2_000, 20_000))
    return random.choice((-1, 1)) * random.randint(1, size)


def _changed_offsets(plan: Plan, random: Random, *, first: bool) -> Plan:
    """One hop of a stream, or the talker with all that follows, at another time."""
    name = random.choice(sorted(plan.streams))
    planned = plan.streams[name]
    path = random.randrange(len(planned.paths))
    hops = list(planned.paths[path])
    by = _amount_ns(random)
    index = 0 if first else random.randrange(len(hops))
    hops[index] = replace(hops[index], offset_ns=hops[index].offset_ns + by)
    paths = [*planned.paths]
    paths[path] = tuple(hops)
    return with_stream(plan, name, replace(planned, paths=tuple(paths)))


def _hop_offset(plan: Plan, random: Random) -> Plan:
    return _changed_offsets(plan, random, first=False)


def _talker_offset(plan: Plan, random: Random) -> Plan:
    return _changed_offsets(plan, random, first=True)


def _whole_stream(plan: Plan, random: Random) -> Plan:
    """All hops of a stream earlier or later by the same, and the lists as they were."""
    name = random.choice(sorted(plan.streams))
    planned = plan.streams[name]
    by = _amount_ns(random)
    paths = tuple(
        tuple(replace(hop, offset_ns=hop.offset_ns + by) for hop in path) for path in planned.paths
    )
    return with_stream(plan, name, replace(planned, paths=paths))


def _other_class(plan: Plan, random: Random) -> Plan:
    name = random.choice(sorted(plan.streams))
    planned = plan.streams[name]
    number = random.choice([c.number for c in plan.intent.classes.values()])
    paths = tuple(
        tuple(replace(hop, traffic_class=number) for hop in path) for path in planned.paths
    )
    return with_stream(plan, name, replace(planned, paths=paths))


def _smaller_bound(plan: Plan, random: Random) -> Plan:
    name = random.choice(sorted(plan.streams))
    planned = plan.streams[name]
    bound = planned.latency_bound_ns - abs(_amount_ns(random))
    return with_stream(plan, name, replace(planned, latency_bound_ns=bound))


def _of_a_list(change: Callable[[list[GateEntry], Random, Plan], None]) -> Callable[..., Plan]:
    """A mutation that changes the entries of one port."""

    def mutation(plan: Plan, random: Random) -> Plan:
        port = random.choice(sorted(plan.gates))
        entries = list(plan.gates[port].entries)
        change(entries, random, plan)
        return with_list(plan, port, *entries)

    return mutation


def _remove(entries: list[GateEntry], random: Random, _plan: Plan) -> None:
    """An entry, whose time goes to its neighbour."""
    if len(entries) > 1:
        gone = entries.pop(random.randrange(len(entries)))
        index = random.randrange(len(entries))
        entries[index] = replace(
            entries[index], interval_ns=entries[index].interval_ns + gone.interval_ns
        )


def _swap(entries: list[GateEntry], random: Random, _plan: Plan) -> None:
    one, other = random.randrange(len(entries)), random.randrange(len(entries))
    entries[one], entries[other] = entries[other], entries[one]


def _swap_states(entries: list[GateEntry], random: Random, _plan: Plan) -> None:
    one, other = random.randrange(len(entries)), random.randrange(len(entries))
    states = entries[one].gate_states, entries[other].gate_states
    entries[one] = replace(entries[one], gate_states=states[1])
    entries[other] = replace(entries[other], gate_states=states[0])


def _rotate(entries: list[GateEntry], random: Random, _plan: Plan) -> None:
    """The same list from another base time."""
    by = abs(_amount_ns(random))
    while by:
        first = entries.pop(0)
        part = min(by, first.interval_ns)
        by -= part
        entries.append(replace(first, interval_ns=part))
        if part < first.interval_ns:
            entries.insert(0, replace(first, interval_ns=first.interval_ns - part))


def _shift_an_edge(entries: list[GateEntry], random: Random, _plan: Plan) -> None:
    if len(entries) > 1:
        index = random.randrange(len(entries) - 1)
        one, other = entries[index : index + 2]
        by = max(1 - one.interval_ns, min(_amount_ns(random), other.interval_ns - 1))
        entries[index] = replace(one, interval_ns=one.interval_ns + by)
        entries[index + 1] = replace(other, interval_ns=other.interval_ns - by)


def _open_best_effort(entries: list[GateEntry], random: Random, _plan: Plan) -> None:
    index = random.randrange(len(entries))
    entries[index] = replace(entries[index], gate_states=entries[index].gate_states | 1)


def _toggle_a_gate(entries: list[GateEntry], random: Random, plan: Plan) -> None:
    index = random.randrange(len(entries))
    number = random.choice([c.number for c in plan.intent.classes.values()])
    states = entries[index].gate_states ^ 1 << number
    entries[index] = replace(entries[index], gate_states=states)


def _longer_cycle(entries: list[GateEntry], random: Random, _plan: Plan) -> None:
    index = random.randrange(len(entries))
    by = abs(_amount_ns(random))
    entries[index] = replace(entries[index], interval_ns=entries[index].interval_ns + by)


def _no_list(plan: Plan, random: Random) -> Plan:
    port = random.choice(sorted(plan.gates))
    return replace(plan, gates={p: its for p, its in plan.gates.items() if p != port})


def _worse_clocks(plan: Plan, random: Random) -> Plan:
    """Any two clocks may differ by more than the plan was made for."""
    network = plan.intent.network
    error = network.clock_error_ns + abs(_amount_ns(random))
    return _on(plan, replace(network, clock_error_ns=error))


def _later_gates(plan: Plan, random: Random) -> Plan:
    """Frames may start later than the plan was made for."""
    network = plan.intent.network
    margin = network.gate_margin_ns + abs(_amount_ns(random))
    return _on(plan, replace(network, gate_margin_ns=margin))


def _faster_switches(plan: Plan, random: Random) -> Plan:
    """Frames may be in their queues earlier than the plan expects."""
    network = plan.intent.network
    by = abs(_amount_ns(random))
    bridges = {
        name: replace(bridge, processing_min_ns=max(0, bridge.processing_min_ns - by))
        for name, bridge in network.bridges.items()
    }
    return _on(plan, replace(network, bridges=bridges))


def _shorter_window(plan: Plan, random: Random) -> Plan:
    """One stream has left a port sooner, by what the plan says."""
    name, planned, path, index = _shared_hop(plan, random)
    hops = list(planned.paths[path])
    by = min(hops[index].window_ns - 1, _size_ns(random))
    hops[index] = replace(hops[index], window_ns=hops[index].window_ns - by)
    paths = [*planned.paths]
    paths[path] = tuple(hops)
    return with_stream(plan, name, replace(planned, paths=tuple(paths)))


def _shorter_windows(plan: Plan, random: Random) -> Plan:
    """All windows of a class on a port, with the gate of a switch and what follows of bounds."""
    _, planned, path, index = _shared_hop(plan, random)
    hop = planned.paths[path][index]
    by = min(hop.window_ns - 1, _size_ns(random))
    return with_shorter_windows(plan, hop.egress, hop.traffic_class, by)


def _longer_windows(plan: Plan, random: Random) -> Plan:
    """More frames may leave early, and others come later to the next port."""
    _, planned, path, index = _shared_hop(plan, random)
    hop = planned.paths[path][index]
    by = random.choice((1, 5, 20)) * _size_ns(random)
    return with_shorter_windows(plan, hop.egress, hop.traffic_class, -by)


def _later_windows(plan: Plan, random: Random) -> Plan:
    """All windows of a class on a port, which end when they did."""
    _, planned, path, index = _shared_hop(plan, random)
    hop = planned.paths[path][index]
    by = min(hop.window_ns - 1, _size_ns(random))
    return with_hops(
        plan,
        hop.egress,
        hop.traffic_class,
        lambda its: replace(its, offset_ns=its.offset_ns + by, window_ns=its.window_ns - by),
    )


def _other_start(plan: Plan, random: Random) -> Plan:
    """A talker starts at any time of the period, and the latency counts from there."""
    name = random.choice(sorted(plan.streams))
    planned = plan.streams[name]
    paths = []
    for path in planned.paths:
        start = random.randrange(plan.intent.streams[name].period_ns)
        paths.append((replace(path[0], offset_ns=start), *path[1:]))
    later = paths[0][0].offset_ns - planned.paths[0][0].offset_ns
    bound = planned.latency_bound_ns - later
    return with_stream(plan, name, StreamPlan(tuple(paths), bound))


def _sooner_closing(plan: Plan, random: Random) -> Plan:
    """A gate, whatever the plan says of windows."""
    _, planned, path, index = _shared_hop(plan, random)
    hop = planned.paths[path][index]
    if hop.egress not in plan.gates:
        return plan
    by = min(hop.window_ns - 1, _size_ns(random))
    return _with_closings(plan, hop.egress, hop.traffic_class, {hop.offset_ns}, by)


def _one_more_stream(plan: Plan, random: Random) -> Plan:
    """Like another one, in all its windows."""
    name = random.choice(sorted(plan.streams))
    more = replace(plan.intent.streams[name], name=f"{name}-more")
    intent = replace(plan.intent, streams={**plan.intent.streams, more.name: more})
    return with_stream(replace(plan, intent=intent), more.name, plan.streams[name])


def _longer_frames(plan: Plan, random: Random) -> Plan:
    by = random.randint(1, 200)
    return _with_stream_that(
        plan, random, lambda its: replace(its, payload_octets=its.payload_octets + by)
    )


def _more_frames(plan: Plan, random: Random) -> Plan:
    by = random.randint(1, 3)
    return _with_stream_that(plan, random, lambda its: replace(its, frames=its.frames + by))


def _with_stream_that(plan: Plan, random: Random, change: Callable[[Stream], Stream]) -> Plan:
    name = random.choice(sorted(plan.streams))
    streams = {**plan.intent.streams, name: change(plan.intent.streams[name])}
    return replace(plan, intent=replace(plan.intent, streams=streams))


def _more_control(plan: Plan, random: Random) -> Plan:
    """More of it may come at once, or longer frames, or more on average."""
    by = random.randint(1, 3)
    how = random.choice(("burst", "length", "rate"))
    classes = {}
    for name, its in plan.intent.classes.items():
        changed = its
        if its.role is ClassRole.CONTROL and how == "burst":
            changed = replace(its, burst_frames=(its.burst_frames or 4) + by)
        elif its.role is ClassRole.CONTROL and how == "length":
            changed = replace(its, max_frame_octets=its.max_frame_octets + 100 * by)
        elif its.role is ClassRole.CONTROL:
            slowest = min(link.rate_bps for link in plan.intent.network.links.values())
            changed = replace(its, rate_bps=(its.rate_bps or slowest // 10) + slowest // 20 * by)
        classes[name] = changed
    return replace(plan, intent=replace(plan.intent, classes=classes))


def _later_talkers(plan: Plan, random: Random) -> Plan:
    network = plan.intent.network
    by = _size_ns(random)
    stations = {
        name: replace(its, lateness_ns=network.lateness_ns(name) + by)
        for name, its in network.end_stations.items()
    }
    return _on(plan, replace(network, end_stations=stations))


def _slower_switches(plan: Plan, random: Random) -> Plan:
    """Frames may be in their queues later than the plan expects."""
    network = plan.intent.network
    by = _size_ns(random)
    bridges = {
        name: replace(bridge, processing_max_ns=bridge.processing_max_ns + by)
        for name, bridge in network.bridges.items()
    }
    return _on(plan, replace(network, bridges=bridges))


def _earlier_gates(plan: Plan, random: Random) -> Plan:
    network = plan.intent.network
    by = _size_ns(random)
    links = {
        port: replace(link, gate_early_ns=link.gate_early_ns + by)
        for port, link in network.links.items()
    }
    return _on(plan, replace(network, links=links))


def _size_ns(random: Random) -> int:
    return abs(_amount_ns(random))


def _shared_hop(plan: Plan, random: Random) -> tuple[str, StreamPlan, int, int]:
    """A hop whose window is shared: the stream, its plan, the path and the place on it."""
    hops = [
        (name, planned, number, index)
        for name, planned in sorted(plan.streams.items())
        for number, path in enumerate(planned.paths)
        for index, hop in enumerate(path)
        if hop.is_shared
    ]
    return random.choice(hops)


def _on(plan: Plan, network: Network) -> Plan:
    return replace(plan, intent=replace(plan.intent, network=network))


_KINDS: dict[str, Callable[[Plan, Random], Plan]] = {
    "hop offset": _hop_offset,
    "talker offset": _talker_offset,
    "whole stream": _whole_stream,
    "class": _other_class,
    "bound": _smaller_bound,
    "remove": _of_a_list(_remove),
    "swap": _of_a_list(_swap),
    "swap states": _of_a_list(_swap_states),
    "rotate": _of_a_list(_rotate),
    "shift an edge": _of_a_list(_shift_an_edge),
    "open best effort": _of_a_list(_open_best_effort),
    "toggle a gate": _of_a_list(_toggle_a_gate),
    "longer cycle": _of_a_list(_longer_cycle),
    "no list": _no_list,
    "worse clocks": _worse_clocks,
    "later gates": _later_gates,
    "faster switches": _faster_switches,
}
_WINDOW_KINDS: dict[str, Callable[[Plan, Random], Plan]] = {
    "shorter window": _shorter_window,
    "shorter windows": _shorter_windows,
    "longer windows": _longer_windows,
    "later windows": _later_windows,
    "other start": _other_start,
    "sooner closing": _sooner_closing,
    "one more stream": _one_more_stream,
    "longer frames": _longer_frames,
    "more frames": _more_frames,
    "more control": _more_control,
    "later talkers": _later_talkers,
    "slower switches": _slower_switches,
    "earlier gates": _earlier_gates,
}
