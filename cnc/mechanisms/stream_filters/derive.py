"""Stream filters of a plan: by which each switch looks at what end stations send (802.1Q 8.6.5.2).

Derived from the offsets of talkers; the judge compares frames with it, and a rollout writes it.

A frame planned for `o` comes to its first switch after `o` + reception + propagation, at the latest
as much later as its talker's link may delay it, and is looked at within the greatest processing
time. Where it shares a window there, it has left by the end of that, whatever delayed it. Its
switch's clock may be off by the clock error in either direction. A stream gate is open from the
earliest such moment to the latest.

A stream of a class with a shaper may send at any time. Its gate is always open, and a flow meter
lets pass what the bounds of its class count at the first switch, on the wire: so a talker that
sends more takes no other stream its bound. So it is with a stream that is forwarded once each
interval, whose gate lets pass what may come in one of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from cnc.mechanisms.stream_filters.model import (
    CyclicGate,
    FilterCapacity,
    FilteredStream,
    FixedGate,
    FlowMeter,
    Policing,
    PolicingRules,
    Strangers,
    StreamFilter,
    StreamFilters,
    StreamGate,
    WindowGate,
    policed_classes,
)
from cnc.mechanisms.talker_link import access_ns, bursts_in_interval, entry, sent
from cnc.mechanisms.terms import added_octets, control_between_ns, start_delay_ns
from cnc.model import (
    Forwarding,
    Intent,
    Link,
    Network,
    Plan,
    PortRef,
    Stream,
    TrafficClass,
)
from cnc.model.clock_error import ClockErrors


def stream_filters(
    plan: Plan, switches: Collection[str] | None = None
) -> dict[str, tuple[StreamFilter, ...]]:
    """The filters of each of `switches`, of all where it is None, in the order in which they are
    asked: those of streams, those of classes that are forwarded once each interval, then those of
    strangers.

    A class of the second kind has a filter at each port that its frames come in by, whose gate
    gives them the queue of the next interval; where they are policed, that of strangers.
    A stream has a filter at each port of a switch that its talker sends to, if it is policed, or if
    strangers of its class are: then a filter without an effect of its own tells it from them. A
    class whose strangers are policed has a filter at each port to an end station.

    Where the intent does not state what the network does, a switch that does not hold all these
    filters has those that are stated only: nobody asked for the others.
    """
    names = plan.intent.network.bridges if switches is None else switches
    found = _by_rules(plan, plan.intent[PolicingRules], names)
    return found | _by_rules(plan, plan.intent[PolicingRules].stated, _too_small(plan, found))


def derive(plan: Plan, switches: Collection[str]) -> dict[str, StreamFilters]:
    """The filters of each of `switches`, as a part."""
    return {name: StreamFilters(its) for name, its in stream_filters(plan, switches).items()}


def beside(plan: Plan, former: Mapping[str, StreamFilters]) -> dict[str, StreamFilters]:
    """`former` without filters for which a switch has no room, where nobody asked for policing and
    none of them drops: the last frames of a former way then count as those of no stream."""
    if plan.intent[PolicingRules].network is not None:
        return {**former}
    own = stream_filters(plan, former)
    found = {}
    for name, its in former.items():
        both = joined(StreamFilters(own[name]), its).filters
        is_asked_for = any(each.policing is Policing.DROP for each in both)
        has_room = len(both) <= plan.intent[FilterCapacity].of(name)
        found[name] = its if is_asked_for or has_room else StreamFilters()
    return found


def joined(own: StreamFilters, former: StreamFilters) -> StreamFilters:
    """Those of strangers last, so that former streams are none; of both kinds `own` comes first."""
    shut = {(its.of.port, its.priority) for its in own.filters if isinstance(its.of, Strangers)}
    of_streams = [its for its in own.filters if isinstance(its.of, FilteredStream)]
    known = {(its.of, its.priority) for its in of_streams}
    of_streams += [
        its
        for its in former.filters
        if isinstance(its.of, FilteredStream) and (its.of, its.priority) not in known
        if (its.of.port, its.priority) in shut or its.policing is not Policing.OFF
    ]
    of_strangers = (its for its in own.filters if isinstance(its.of, Strangers))
    return StreamFilters((*of_streams, *of_strangers))


def exposed(former: Plan, plan: Plan, stream: str) -> str | None:
    """Why the new stream filter of a stream that keeps its address drops frames that its talker
    sends by the former plan; None if it does not. Windows change at the base time, the rest from
    the commit on."""
    before, after = former.class_of(stream), plan.class_of(stream)
    if plan.intent[PolicingRules].of_stream(stream, after.name) is not Policing.DROP:
        return None
    if plan.intent.streams[stream].payload_octets < former.intent.streams[stream].payload_octets:
        return "its first switch drops frames as long as they were, from the commit on"
    if before.priority != after.priority:
        return "its first switch knows its frames by their new priority, from the commit on"
    if plan.streams[stream].shaper:
        both = ((each.intent.network, each.intent.streams[stream]) for each in (former, plan))
        was, now = (sent(*each) for each in both)
        if was.rate_bps > now.rate_bps or was.burst_bits > now.burst_bits:
            return "its first switch drops frames beyond its new rate and burst, from the commit on"
    return None


def uncounted(plan: Plan) -> dict[str, int]:
    """The switches that hold too few filters to count what nobody has stated, and how many each of
    them would need."""
    found = _by_rules(plan, plan.intent[PolicingRules], plan.intent.network.bridges)
    return {name: len(found[name]) for name in _too_small(plan, found)}


def _too_small(plan: Plan, found: Mapping[str, Collection[StreamFilter]]) -> list[str]:
    if plan.intent[PolicingRules].network is not None:
        return []
    capacity = plan.intent[FilterCapacity]
    return [name for name, its in found.items() if len(its) > capacity.of(name)]


def _by_rules(
    plan: Plan, rules: PolicingRules, switches: Collection[str]
) -> dict[str, tuple[StreamFilter, ...]]:
    """As `stream_filters`, however many a switch holds."""
    network = plan.intent.network
    if network.forwarding is Forwarding.ROUTED or not switches:
        return dict.fromkeys(switches, ())
    ports = _station_ports(network)
    of_intervals = _of_intervals(plan, rules, ports)
    if rules.is_off:
        return {name: tuple(of_intervals[name]) for name in switches}
    of_streams: defaultdict[str, list[StreamFilter]] = defaultdict(list)
    until_ns, clocks = _until_ns(plan), ClockErrors(network)
    for name in sorted(plan.streams):
        for switch, its in _of_stream(plan, rules, name, until_ns, clocks):
            of_streams[switch].append(its)
    return {
        name: (
            *of_streams[name],
            *of_intervals[name],
            *_of_strangers(plan, rules, ports.get(name, ())),
        )
        for name in switches
    }


def _of_stream(
    plan: Plan,
    rules: PolicingRules,
    name: str,
    until_ns: Mapping[PortRef, int],
    clocks: ClockErrors,
) -> Iterator[tuple[str, StreamFilter]]:
    """The filters of a stream, each with its switch; `until_ns`: see `_until_ns`."""
    network, planned = plan.intent.network, plan.streams[name]
    stream, address = plan.intent.streams.get(name), plan.addresses.get(name)
    if stream is None or address is None:  # which the judge refuses
        return
    classes = {its.number: its for its in plan.intent.classes.values()}
    sdu_octets = _sdu_octets(network, stream)
    # Both paths of a talker with one link start with one frame.
    starts = {hop.egress: hop for hop in planned.hops if hop.egress.node == stream.talker}
    for egress, hop in starts.items():
        link, its_class = network.links.get(egress), classes.get(hop.traffic_class)
        if link is None or its_class is None or link.target.node not in network.bridges:
            continue
        policing = rules.of_stream(name, its_class.name)
        is_policed = policing is not Policing.OFF
        if not is_policed and rules.of_class(its_class.name) is Policing.OFF:
            continue
        gate: StreamGate = FixedGate.OPEN
        if free := _free_gate(plan.intent, its_class):
            gate = free
            if is_policed and egress in until_ns:
                apart_ns = clocks.between_ns(link.source.node, link.target.node)
                gate = _limited(network, stream, link, free, until_ns[egress] + 2 * apart_ns)
        elif is_policed and planned.has_instants:
            gate = window_gate(plan.intent, stream, link, hop.offset_ns, hop.window_ns)
        yield (
            link.target.node,
            StreamFilter(
                FilteredStream(address.destination_mac, address.vlan_id, link.target.port),
                its_class.priority,
                max_sdu_octets=sdu_octets if is_policed else 0,
                gate=gate,
                policing=policing,
                meter=(
                    _meter(plan, stream, link, until_ns[egress])
                    if is_policed and egress in until_ns and planned.shaper
                    else None
                ),
            ),
        )


def _until_ns(plan: Plan) -> dict[PortRef, int]:
    """By the port of a talker with streams that may send at any time by when their bursts have left
    it; without ports to which there comes more and more, which the judge refuses."""
    links = plan.intent.network.links
    sends: defaultdict[PortRef, list[tuple[Stream, int]]] = defaultdict(list)
    waiting: set[PortRef] = set()
    for name, its in plan.streams.items():
        if (stream := plan.intent.streams.get(name)) is None:
            continue
        for egress, times in Counter(path[0].egress for path in its.paths).items():
            sends[egress].append((stream, times))
            if not its.has_instants and egress in links:
                waiting.add(egress)
    found = {port: access_ns(plan.intent, links[port], sends[port]) for port in waiting}
    return {port: until_ns for port, until_ns in found.items() if until_ns is not None}


def _meter(plan: Plan, stream: Stream, link: Link, until_ns: int) -> FlowMeter:
    """What may come of a stream with a shaper over the link of its talker."""
    burst_bits, rate_bps = entry(plan.intent, stream, link, until_ns)
    return FlowMeter(rate_bps, -(-burst_bits // 8), plan.intent.network.overhead.physical_octets)


def _free_gate(intent: Intent, its: TrafficClass) -> CyclicGate | None:
    """What gives frames of a class the queue of the next interval: what comes in an even one leaves
    in an odd one. None: it is not forwarded so."""
    if its.cyclic is None or its.cyclic.odd not in intent.classes:
        return None
    odd = intent.classes[its.cyclic.odd]
    return CyclicGate(its.cyclic.interval_ns, even=odd.priority, odd=its.priority)


def _limited(
    network: Network, stream: Stream, link: Link, free: CyclicGate, spread_ns: int
) -> CyclicGate:
    """That of a stream, of whose bursts one may come so much later than another: as much passes, on
    the wire, as may come in one interval."""
    bursts = bursts_in_interval(network, link, stream.period_ns, free.interval_ns, spread_ns)
    octets = network.wire_octets(stream.payload_octets)
    overhead_octets = octets - max(stream.payload_octets, network.overhead.min_payload_octets)
    return replace(
        free, octets_max=bursts * stream.frames * octets, overhead_octets=overhead_octets
    )


def _of_intervals(
    plan: Plan, rules: PolicingRules, station_ports: Mapping[str, Collection[str]]
) -> defaultdict[str, list[StreamFilter]]:
    """By switch the filters of classes that are forwarded once each interval, of all that comes in
    by a port; without those ports to end stations at which there is one of strangers."""
    links = plan.intent.network.links
    ports = {
        (links[hop.egress].target, hop.traffic_class)
        for its in plan.streams.values()
        if its.is_cyclic
        for hop in its.hops
        if hop.egress in links
    }
    found: defaultdict[str, list[StreamFilter]] = defaultdict(list)
    for its in plan.intent.classes.values():
        if (gate := _free_gate(plan.intent, its)) is None:
            continue
        is_policed = rules.of_class(its.name) is not Policing.OFF
        for port in sorted(port for port, number in ports if number == its.number):
            if not (is_policed and port.port in station_ports.get(port.node, ())):
                found[port.node].append(
                    StreamFilter(Strangers(port.port), its.priority, 0, gate, Policing.OFF)
                )
    return found


def _sdu_octets(network: Network, stream: Stream) -> int:
    """How long filters find a frame: what its first switch adds to it, it has before."""
    padded = max(stream.payload_octets, network.overhead.min_payload_octets)
    return padded + added_octets(stream)


def window_gate(
    intent: Intent, stream: Stream, link: Link, offset_ns: int, window_ns: int = 0
) -> WindowGate:
    """When the frames of a stream, sent at that offset, or within a window that they share from
    there on, come over the link to their first switch, by its clock."""
    network = intent.network
    error_ns, octets = network.clock_error_ns, stream.payload_octets
    processing_ns = network.bridges[link.target.node].processing_max_ns
    flight_min_ns = network.reception_min_ns(link, octets) + link.propagation_ns
    lead_ns = network.untagged_lead_ns(link, octets) if stream.identification else 0
    if window_ns:
        sent_ns = window_ns - network.gap_min_ns(link)
    else:
        delay_ns = start_delay_ns(intent, link) + control_between_ns(intent, link, stream)
        spread_ns = (stream.frames - 1) * network.occupation_max_ns(link, octets)
        sent_ns = delay_ns + spread_ns + network.reception_max_ns(link, octets)
    first_ns = offset_ns + flight_min_ns - lead_ns - error_ns
    last_ns = offset_ns + sent_ns + link.propagation_ns + processing_ns + error_ns
    return WindowGate(
        stream.period_ns,
        start_ns=first_ns,
        # The last moment belongs to it.
        open_ns=min(last_ns - first_ns + 1, stream.period_ns),
        octets_max=stream.frames * _sdu_octets(network, stream),
    )


def _of_strangers(plan: Plan, rules: PolicingRules, ports: Iterable[str]) -> Iterator[StreamFilter]:
    """The filters of a switch with `ports` to end stations for frames of no stream."""
    for its, policed_as in policed_classes(plan.intent):
        policing = rules.of_class(policed_as)
        if policing is Policing.OFF:
            continue
        # Those that are only counted go the way of their interval.
        free = _free_gate(plan.intent, its)
        gate = replace(free, octets_max=0) if free else FixedGate.CLOSED
        for port in ports:
            yield StreamFilter(Strangers(port), its.priority, 0, gate, policing)


def _station_ports(network: Network) -> dict[str, list[str]]:
    """By switch its ports with a cable to an end station, sorted."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for link in network.links.values():
        if link.source.node in network.end_stations:
            found[link.target.node].append(link.target.port)
    return {name: sorted(ports) for name, ports in found.items()}
