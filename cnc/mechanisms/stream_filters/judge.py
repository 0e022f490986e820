"""Stream filters: do they let every frame pass that comes as planned, and no other?

The judge sends frames to the filters of their first switch: those of streams as early and as late
as its own account allows, at every clock within its error, those of nobody with each priority at
each port. Of the filters of a switch the first that takes a frame decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cnc.account.frames import AddedOctets, Transmission
from cnc.account.judge import Judge, Table, Told
from cnc.account.violation import Violation
from cnc.account.wire import access_ns
from cnc.mechanisms.stream_filters.judged_interval import queues, wrong_limit, wrong_queues
from cnc.mechanisms.stream_filters.judged_meter import wrong_meter
from cnc.mechanisms.stream_filters.model import (
    CyclicGate,
    FilterCapacity,
    FilteredStream,
    FixedGate,
    Policing,
    PolicingRules,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import (
    BridgeForwarding,
    ClassRole,
    Forwarding,
    Intent,
    Plan,
    PortRef,
    Stream,
    TrafficClass,
)
from cnc.model.clock_error import ClockErrors


def _judge_policing(
    plan: Plan, forwarding: Told, transmissions: Iterable[Transmission], added_octets: AddedOctets
) -> Iterator[Violation]:
    """What is wrong with the stream filters in `forwarding`, by switch, if frames come to their
    first switches by `transmissions`."""
    if plan.intent.network.forwarding is Forwarding.ROUTED:
        return
    for name, its in forwarding.items():
        table = _table(plan, name, its)
        if table.is_too_small:
            text = f"needs {table.entries} {table.what}, and holds {table.holds}"
            yield Violation(table.code, name, text)
    filters = {name: its[StreamFilters].filters for name, its in forwarding.items()}
    if _asked_for(plan) or any(filters.values()):
        yield from _Filters(plan, filters, added_octets).judge(transmissions)


def _table(plan: Plan, switch: str, told: BridgeForwarding) -> Table:
    return Table(
        "stream-filters",
        "stream filters",
        len(told[StreamFilters].filters),
        plan.intent[FilterCapacity].of(switch),
    )


def _asked_for(plan: Plan) -> bool:
    rules = plan.intent[PolicingRules]
    asked = {rules.network, *rules.classes.values(), *rules.streams.values()}
    return asked != {Policing.OFF} or any(its.is_cyclic for its in plan.streams.values())


def _entry_ports(plan: Plan) -> set[PortRef]:
    """Where frames of end stations come in."""
    network = plan.intent.network
    return {
        link.target
        for link in network.links.values()
        if link.source.node in network.end_stations and link.target.node in network.bridges
    }


class _Key(NamedTuple):
    """What tells whose filter takes a frame."""

    port: PortRef
    destination_mac: str
    vlan_id: int
    priority: int


class _Filters:
    """The filters of all switches."""

    def __init__(
        self,
        plan: Plan,
        filters: Mapping[str, Sequence[StreamFilter]],
        added_octets: AddedOctets,
    ) -> None:
        self._plan = plan
        self._added_octets = added_octets
        self._all = filters
        self._classes = {its.number: its for its in plan.intent.classes.values()}
        self._entries = {port for port in _entry_ports(plan) if port.node in filters}
        self._small: set[str] = set()  # switches that do only what is stated
        self._clocks = ClockErrors(plan.intent.network)
        self._until_ns: dict[PortRef, int | None] = {}  # by when talkers have sent their bursts
        # By whose frames they take, each with its place in the order of its switch.
        self._of_streams: defaultdict[_Key, list[tuple[int, StreamFilter]]] = defaultdict(list)
        self._of_strangers: defaultdict[PortRef, list[tuple[int, StreamFilter]]]
        self._of_strangers = defaultdict(list)
        self._of_intervals: dict[tuple[PortRef, int], StreamFilter] = {}
        for switch, its in filters.items():
            for place, each in enumerate(its):
                if isinstance(each.of, Strangers):
                    if isinstance(each.gate, CyclicGate) and each.gate.is_free:
                        self._of_intervals[PortRef(switch, each.of.port), each.priority] = each
                        continue
                    self._of_strangers[PortRef(switch, each.of.port)].append((place, each))
                else:
                    key = _key(switch, each.of, each.priority)
                    self._of_streams[key].append((place, each))

    def judge(self, transmissions: Iterable[Transmission]) -> Iterator[Violation]:
        arrivals, entering = [*self._arrivals(transmissions)], [*self._entering()]
        coming = [(stream, t.traffic_class, key) for stream, t, key in arrivals]
        coming += [(stream, number, key) for stream, number, _, key in entering]
        cyclic = self._coming_by_interval()
        self._small = self._too_small(coming, cyclic)
        expected = {key for _, _, key in coming}
        for stream, t, key in arrivals:
            for text in self._judge_stream(stream, t, key):
                yield Violation("policing", stream.name, text)
        for stream, number, egress, key in entering:
            for text in self._judge_entering(stream, number, egress, key):
                yield Violation("policing", stream.name, text)
        for key in self._of_streams.keys() - expected:
            text = (
                f"looks for {key.destination_mac} in VLAN {key.vlan_id} with PCP {key.priority}, "
                "which no talker sends"
            )
            yield Violation("policing", str(key.port), text)
        yield from self._judge_strangers()
        yield from self._judge_intervals(cyclic)

    def _arrivals(
        self, transmissions: Iterable[Transmission]
    ) -> Iterator[tuple[Stream, Transmission, _Key]]:
        """The frames that come to their first switches; those of no class are wrong for other
        reasons."""
        for t in transmissions:
            link = self._plan.intent.network.links[t.egress]
            if t.ingress is not None or link.target.node not in self._all:
                continue
            address = self._plan.addresses.get(t.stream)
            its_class = self._classes.get(t.traffic_class)
            if address is not None and its_class is not None:
                mac, vlan_id = address.destination_mac, address.vlan_id
                key = _Key(link.target, mac, vlan_id, its_class.priority)
                yield self._plan.intent.streams[t.stream], t, key

    def _entering(self) -> Iterator[tuple[Stream, int, PortRef, _Key]]:
        """Streams without instants, each with its traffic class and by where it comes to its first
        switch; those of no class are wrong for other reasons."""
        links, streams = self._plan.intent.network.links, self._plan.intent.streams
        for name, its in self._plan.streams.items():
            first = its.hops[0]
            link, address = links.get(first.egress), self._plan.addresses.get(name)
            its_class = self._classes.get(first.traffic_class)
            if its.has_instants or not (link and address and its_class and name in streams):
                continue
            if link.target.node in self._all:
                mac, vlan_id = address.destination_mac, address.vlan_id
                key = _Key(link.target, mac, vlan_id, its_class.priority)
                yield streams[name], its_class.number, first.egress, key

    def _coming_by_interval(self) -> set[tuple[PortRef, TrafficClass]]:
        """Where frames come in that are forwarded once each interval, and of which class."""
        links = self._plan.intent.network.links
        return {
            (link.target, self._classes[hop.traffic_class])
            for its in self._plan.streams.values()
            for hop in its.hops
            if its.is_cyclic and hop.traffic_class in self._classes
            if (link := links.get(hop.egress)) and link.target.node in self._all
        }

    def _is_for_strangers(self, port: PortRef, its_class: TrafficClass) -> bool:
        """Whether frames of no stream are policed there."""
        asked = self._asked_of_strangers(its_class, port.node)
        return port in self._entries and asked is not Policing.OFF

    def _too_small(
        self,
        coming: Iterable[tuple[Stream, int, _Key]],
        cyclic: Iterable[tuple[PortRef, TrafficClass]],
    ) -> set[str]:
        """The switches that would need more filters than they hold if they counted what nobody has
        stated."""
        if self._plan.intent[PolicingRules].network is not None:
            return set()
        needed: defaultdict[str, set[object]] = defaultdict(set)
        for stream, number, key in coming:
            its_class = self._classes[number]
            asked = {
                self._asked(stream, its_class, key.port.node),
                self._asked_of_strangers(its_class, key.port.node),
            }
            if asked != {Policing.OFF}:
                needed[key.port.node].add(key)
        for port in self._entries:
            for its_class in self._plan.intent.classes.values():
                if self._is_for_strangers(port, its_class):
                    needed[port.node].add((port, its_class.name))
        for port, its_class in cyclic:
            needed[port.node].add((port, its_class.name))
        capacity = self._plan.intent[FilterCapacity]
        return {name for name, its in needed.items() if len(its) > capacity.of(name)}

    def _first(self, key: _Key) -> StreamFilter | None:
        """The filter that decides on frames of a stream."""
        both = (*self._of_streams.get(key, ()), *self._of_strangers.get(key.port, ()))
        taking = [pair for pair in both if pair[1].priority == key.priority]
        return min(taking, key=lambda pair: pair[0])[1] if taking else None

    def _judge_stream(self, stream: Stream, t: Transmission, key: _Key) -> Iterator[str]:
        asked = self._asked(stream, self._classes[t.traffic_class], key.port.node)
        its = self._first(key)
        if asked is Policing.OFF:
            yield from self._judge_passing(its, self._classes[t.traffic_class], key)
        elif its is None or isinstance(its.of, Strangers) or not isinstance(its.gate, WindowGate):
            yield f"has no stream filter of its own at {key.port}"
        else:
            if its.policing is not asked:
                yield f"has a filter at {key.port} to {its.policing} frames, {asked} is asked for"
            for text in self._judge_window_filter(stream, t, its, its.gate, asked):
                yield f"{text} at {key.port}"

    def _judge_entering(
        self, stream: Stream, number: int, egress: PortRef, key: _Key
    ) -> Iterator[str]:
        its_class = self._classes[number]
        asked = self._asked(stream, its_class, key.port.node)
        its, limit = self._first(key), "a limit" if its_class.cyclic else "a flow meter"
        if asked is Policing.OFF:
            yield from self._judge_passing(its, its_class, key)
        elif its is None or isinstance(its.of, Strangers) or not _is_limiting(its, its_class):
            yield f"has no stream filter of its own with {limit} at {key.port}"
        else:
            if its.policing is not asked:
                yield f"has a filter at {key.port} to {its.policing} frames, {asked} is asked for"
            for text in self._judge_limited(stream, its_class, egress, its):
                yield f"{text} at {key.port}"

    def _judge_limited(
        self, stream: Stream, its_class: TrafficClass, egress: PortRef, its: StreamFilter
    ) -> Iterator[str]:
        if isinstance(its.gate, CyclicGate):
            yield from wrong_queues(self._plan.intent, its_class, its.gate)
        elif its.gate is not FixedGate.OPEN:
            yield "may come at any time, and its gate shuts"
        yield from self._judge_sizes(stream, its)
        if egress not in self._until_ns:
            self._until_ns[egress] = access_ns(self._plan, egress)
        network, until_ns = self._plan.intent.network, self._until_ns[egress]
        if until_ns is None:  # which the judge of the class reports
            return
        link = network.links[egress]
        if its.meter:
            yield from wrong_meter(network, stream, link, until_ns, its.meter)
        if isinstance(its.gate, CyclicGate):
            spread_ns = until_ns + 2 * self._clocks.between_ns(egress.node, link.target.node)
            yield from wrong_limit(network, stream, link, spread_ns, its.gate)

    def _judge_passing(
        self, its: StreamFilter | None, its_class: TrafficClass, key: _Key
    ) -> Iterator[str]:
        """Whether a filter lets all pass that it takes of a stream, of which nothing is asked."""
        if its is None:  # or that of intervals, which takes all
            return
        if its.max_sdu_octets or its.meter or not _is_free(its, its_class):
            yield f"is policed at {key.port}, which the intent does not ask for"
        elif isinstance(its.gate, CyclicGate):
            yield from wrong_queues(self._plan.intent, its_class, its.gate)

    def _asked(self, stream: Stream, its_class: TrafficClass, switch: str) -> Policing:
        rules = self._plan.intent[PolicingRules]
        return rules.streams.get(stream.name) or self._asked_of_class(its_class, switch)

    def _asked_of_class(self, its_class: TrafficClass, switch: str) -> Policing:
        rules = self._plan.intent[PolicingRules]
        of_default = Policing.OFF if switch in self._small else Policing.COUNT
        return rules.classes.get(its_class.name) or rules.network or of_default

    def _asked_of_strangers(self, its_class: TrafficClass, switch: str) -> Policing:
        is_planned = its_class.role is ClassRole.SCHEDULED and not its_class.windows_are_given
        if is_planned or its_class.shaper or its_class.cyclic:
            return self._asked_of_class(its_class, switch)
        even = (
            each
            for each in self._plan.intent.classes.values()
            if each.cyclic and each.cyclic.odd == its_class.name
        )
        return next((self._asked_of_class(each, switch) for each in even), Policing.OFF)

    def _longest(self, stream: Stream) -> int:
        # On a cable, short frames are padded.
        longest = max(stream.payload_octets, self._plan.intent.network.overhead.min_payload_octets)
        return longest + self._added_octets(stream)  # by this switch, already

    def _judge_sizes(self, stream: Stream, its: StreamFilter) -> Iterator[str]:
        if its.max_sdu_octets != (longest := self._longest(stream)):
            yield f"sends up to {longest} octets in a frame, {its.max_sdu_octets} may pass"

    def _judge_window_filter(
        self, stream: Stream, t: Transmission, its: StreamFilter, gate: WindowGate, asked: Policing
    ) -> Iterator[str]:
        yield from self._judge_sizes(stream, its)
        if gate.octets_max != (whole := self._longest(stream) * stream.frames):
            yield f"sends up to {whole} octets in a period, {gate.octets_max} may pass"
        yield from self._judge_window(stream, t, gate, asked)
        if its.meter is not None:
            yield "has a flow meter beside its window"

    def _judge_window(
        self, stream: Stream, t: Transmission, gate: WindowGate, asked: Policing
    ) -> Iterator[str]:
        network = self._plan.intent.network
        link, error = network.links[t.egress], network.clock_error_ns
        # The switch's clock may be behind the talker's, or ahead of it; it may look at a frame as
        # soon as that is there, or as late as it puts it into a queue.
        earliest = t.offset_ns + t.flight_ns - error
        latest = t.all_received_ns + network.bridges[link.target.node].processing_max_ns
        opens, closes = gate.start_ns, gate.start_ns + gate.open_ns
        if gate.period_ns != stream.period_ns:
            yield f"sends every {stream.period_ns} ns, its gate opens every {gate.period_ns} ns"
            return
        if latest - earliest >= stream.period_ns:
            if asked is Policing.DROP:
                yield (
                    f"may come at any time of its period of {stream.period_ns} ns, within "
                    f"{latest - earliest} ns, so that no frame is outside its window"
                )
            if gate.open_ns < stream.period_ns:
                yield "may come at any time, and its gate shuts"
            return
        text = (
            f"may come from {earliest} to {latest} ns, its gate opens from {opens} to {closes} ns"
        )
        if not (opens <= earliest and latest < closes):
            yield text
        elif earliest - opens > error or closes - 1 - latest > error:
            yield f"{text}, wider by more than the clock error of {error} ns"

    def _judge_intervals(
        self, coming: Iterable[tuple[PortRef, TrafficClass]]
    ) -> Iterator[Violation]:
        """Whether frames that come in an interval get the queue of the next (802.1Q annex T), and
        none is looked at by a filter before that; those of no stream may be policed."""
        found = dict(self._of_intervals)
        for port, its in sorted(coming, key=lambda each: each[0]):
            if queues(self._plan.intent, its) is None or self._is_for_strangers(port, its):
                continue
            each = found.pop((port, its.priority), None)
            texts = [*wrong_queues(self._plan.intent, its, each.gate if each else None)]
            if each and (each.max_sdu_octets or not _takes_all(each)):
                texts.append(f"its filter for class {its.name} does not let all pass")
            if others := [
                f for _, f in self._of_strangers.get(port, []) if f.priority == its.priority
            ]:
                texts.append(f"has {len(others)} more filters for frames of class {its.name}")
            for text in texts:
                yield Violation("cqf-queue", str(port), text)
        for port, priority in found:
            text = f"tells intervals apart for frames with priority {priority}, which none brings"
            yield Violation("cqf-queue", str(port), text)

    def _shuts(self, its: StreamFilter, its_class: TrafficClass) -> bool:
        """Whether nothing passes a filter; what is only counted goes the way of its interval."""
        if queues(self._plan.intent, its_class) is None:
            return its.gate is FixedGate.CLOSED
        is_right = not [*wrong_queues(self._plan.intent, its_class, its.gate)]
        return is_right and isinstance(its.gate, CyclicGate) and its.gate.octets_max == 0

    def _judge_strangers(self) -> Iterator[Violation]:
        for port in sorted(self._of_strangers.keys() - self._entries):
            yield Violation(
                "policing", str(port), "polices frames of no stream, and leads to no end station"
            )
        for port in sorted(self._entries):
            found = {each.priority: each for _, each in reversed(self._of_strangers.get(port, []))}
            for its_class in self._plan.intent.classes.values():
                asked = self._asked_of_strangers(its_class, port.node)
                its = found.pop(its_class.priority, None)
                has = its.policing if its else Policing.OFF
                what = f"frames of no stream with priority {its_class.priority}"
                if has is not asked:
                    text = f"has policing {has} of {what}, {asked} is asked for"
                    yield Violation("policing", str(port), text)
                elif its and not self._shuts(its, its_class):
                    yield Violation("policing", str(port), f"lets {what} pass by an open gate")
            for priority in found:
                text = f"polices frames of no stream with priority {priority}, which no class has"
                yield Violation("policing", str(port), text)


def _is_limiting(its: StreamFilter, its_class: TrafficClass) -> bool:
    if its_class.cyclic:
        return isinstance(its.gate, CyclicGate) and not its.gate.is_free and its.meter is None
    return its.meter is not None


def _is_free(its: StreamFilter, its_class: TrafficClass) -> bool:
    if its_class.cyclic:
        return isinstance(its.gate, CyclicGate) and its.gate.is_free
    return its.gate is FixedGate.OPEN


def _takes_all(its: StreamFilter) -> bool:
    return isinstance(its.of, Strangers) and its.policing is Policing.OFF


def _key(switch: str, of: FilteredStream, priority: int) -> _Key:
    return _Key(PortRef(switch, of.port), of.destination_mac, of.vlan_id, priority)


def _drops_misfits(intent: Intent, stream: str, traffic_class: int) -> bool:
    """Whether the first switch is to drop frames of a stream that come otherwise than planned."""
    rules = intent[PolicingRules]
    its = ""
    if rules.classes:
        its = next((c.name for c in intent.classes.values() if c.number == traffic_class), "")
    asked = rules.streams.get(stream) or rules.classes.get(its) or rules.network
    return asked is Policing.DROP


JUDGE = Judge(entering=_judge_policing, is_local=True, table=_table, drops_misfits=_drops_misfits)
