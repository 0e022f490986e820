"""How long frames of classes with a shaper may take, as the judge reckons it by itself.

Exact fractions of bits and nanoseconds; what goes from one round to the next is rounded up to a
picosecond, so that rounds end. The theory is that of the planner (`cnc.mechanisms.cbs.bounds` says
where it comes from), from the lists and the idle slopes as the plan has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from cnc.mechanisms.cbs.judged_port import Line, PortShare, Rate, rates
from cnc.model import Intent, Plan, PortRef, Shaper, Stream, TrafficClass

_ROUNDS_MAX = 2_000
_PS = 1_000
_HOPELESS_NS = 1 << 40


@dataclass(eq=False, slots=True)
class _Sent:
    """A stream: by port the one before, and after how long it has left there at the soonest and,
    as far as is known, at the latest."""

    stream: Stream
    its_class: TrafficClass
    bits: int
    rate: Fraction
    came_by: dict[PortRef, PortRef] = field(default_factory=dict)
    soonest_ns: dict[PortRef, Fraction] = field(default_factory=dict)
    latest_ns: dict[PortRef, Fraction] = field(default_factory=dict)


class _Offer(NamedTuple):
    """A service that a class has of a port, and for how long a bit waits for it at most."""

    rate: Fraction
    latency_ns: Fraction
    empties_ns: Fraction

    def waits_ns(self, bits: int) -> Fraction:
        """Until a frame of so many is begun."""
        return max(self.empties_ns - bits / self.rate, Fraction())


class _Server(NamedTuple):
    """What a class has of a port in one round, as it is reckoned in one way and another: all of
    these hold. And what comes to it."""

    offers: tuple[_Offer, _Offer]
    comes: Line

    def waits_ns(self, bits: int) -> Fraction:
        return min(offer.waits_ns(bits) for offer in self.offers)


class Unbounded(NamedTuple):
    """Where no bound is found, and why."""

    where: PortRef
    text: str


class Reckoned:
    """The streams with a shaper of a plan, whose links all exist.

    Beside the idle slopes of the plan and its lists each port may go by those of the plan
    `beside`, or by one after the other."""

    def __init__(self, plan: Plan, beside: Plan | None = None) -> None:
        self._intent, self._network = plan.intent, plan.intent.network
        self._plan = plan
        self._streams = [
            _sent(plan.intent, plan.intent.streams[name], [h.egress for h in its.hops])
            for name, its in plan.streams.items()
            if its.shaper and name in plan.intent.streams
        ]
        self._at: dict[PortRef, dict[int, list[_Sent]]] = {}
        for sent in self._streams:
            for port in sent.came_by:
                at = self._at.setdefault(port, defaultdict(list))
                at[sent.its_class.number].append(sent)
        self.shares = {
            port: PortShare([plan, beside or plan], port, _rates(at))
            for port, at in self._at.items()
        }
        self._runs = self._together()

    def latencies_ns(self, access_ns: Mapping[PortRef, int]) -> dict[str, Fraction] | Unbounded:
        """By stream how long it takes at most to any of its listeners; `access_ns` is until when
        talkers have sent their bursts."""
        for sent in self._streams:
            for port, soonest_ns in sent.soonest_ns.items():
                sent.latest_ns[port] = Fraction(access_ns.get(port, soonest_ns))
        for _ in range(_ROUNDS_MAX):
            servers = self._servers()
            if isinstance(servers, Unbounded):
                return servers
            later = self._later(servers)
            if later is None:
                return {its.stream.name: self._arrives_ns(its) for its in self._streams}
            if max(later.latest_ns.values()) > _HOPELESS_NS:
                break
        port = next(iter(self._at))
        return Unbounded(port, "what ports hold up comes to the next at once, without an end")

    def _servers(self) -> dict[tuple[PortRef, int], _Server] | Unbounded:
        found: dict[tuple[PortRef, int], _Server] = {}
        for port, at in self._at.items():
            comes: dict[int, Line] = {}
            leaves: dict[int, Line] = {}
            for number in sorted(at, reverse=True):
                groups = self._groups(at[number], port)
                comes[number] = Line(
                    sum((self._burst(its, port) for its in at[number]), Fraction()),
                    sum((its.rate for its in at[number]), Fraction()),
                )
                offered = [
                    _Offer(rate, latency, latency + _distance(groups, rate))
                    for rate, latency in self.shares[port].services(number, comes, leaves)
                    if rate >= comes[number].rate
                ]
                if not offered:
                    return Unbounded(port, f"classes above leave nothing to traffic class {number}")
                server = _Server((offered[0], offered[-1]), comes[number])
                found[port, number] = server
                slowest = self.shares[port].rate.slowest
                held_ns = max(server.waits_ns(its.bits) + its.bits / slowest for its in at[number])
                burst = comes[number].burst + comes[number].rate * held_ns
                leaves[number] = Line(burst, comes[number].rate)
        return found

    def _later(self, servers: Mapping[tuple[PortRef, int], _Server]) -> _Sent | None:
        """Have each stream leave as late as it may by what is known; one that does so later than
        before, None: all are as they were."""
        rows = {
            row: [self._row(*row, its, servers, which) for which in (0, 1)]
            for row, its in self._runs.items()
        }
        later = None
        news: list[tuple[_Sent, PortRef, Fraction]] = []
        for sent in self._streams:
            number = sent.its_class.number
            for port, before in sent.came_by.items():
                server = servers[port, number]
                own_ns = sent.bits / self.shares[port].rate.slowest
                choices = [self._there_ns(sent, before) + server.waits_ns(sent.bits)]
                for row in _rows_to(sent, port):
                    start = self._there_ns(sent, sent.came_by[row[0]])
                    for wait_ns, rate in filter(None, rows[row, number]):
                        choices.append(start + max(wait_ns - sent.bits / rate, Fraction()))
                left_ns = Fraction(-(-(min(choices) + own_ns) * _PS // 1), _PS)
                if left_ns > sent.latest_ns[port]:
                    news.append((sent, port, left_ns))
        for sent, port, left_ns in news:
            sent.latest_ns[port], later = left_ns, sent
        return later

    def _row(
        self,
        ports: tuple[PortRef, ...],
        number: int,
        its: Sequence[_Sent],
        servers: Mapping[tuple[PortRef, int], _Server],
        which: int,
    ) -> tuple[Fraction, Fraction] | None:
        """How long these streams, all that go all these ports one after the other, wait in all, as
        `which` offers have it, and at which rate; None: others leave them too little."""
        total_ns, least = Fraction(), Fraction(1 << 60)
        own_rate = sum((each.rate for each in its), Fraction())
        for port in ports:
            server = servers[port, number]
            own_burst = sum((self._burst(each, port) for each in its), Fraction())
            others = Line(server.comes.burst - own_burst, server.comes.rate - own_rate)
            offer = server.offers[which]
            if offer.rate - others.rate < own_rate:
                return None
            least = min(least, offer.rate - others.rate)
            total_ns += offer.latency_ns + others.burst / offer.rate
            if port != ports[-1]:
                longest = max(each.bits for each in self._at[port][number])
                total_ns += longest / self.shares[port].rate.slowest + self._between_ns(port)
        return total_ns + _distance(self._groups(its, ports[0]), least), least

    def _together(self) -> dict[tuple[tuple[PortRef, ...], int], list[_Sent]]:
        found: defaultdict[tuple[tuple[PortRef, ...], int], list[_Sent]] = defaultdict(list)
        for sent in self._streams:
            for port in sent.came_by:
                for row in _rows_to(sent, port):
                    found[row, sent.its_class.number].append(sent)
        return dict(found)

    def _groups(self, its: Iterable[_Sent], port: PortRef) -> list[list[Line]]:
        """What bounds that which comes over each link."""
        over: defaultdict[PortRef, list[_Sent]] = defaultdict(list)
        for each in its:
            over[each.came_by[port]].append(each)
        bridge = self._network.bridges[port.node]
        spread_ns = bridge.processing_max_ns - bridge.processing_min_ns
        groups = []
        for before, members in over.items():
            lines = [
                Line(
                    sum((self._burst(each, port) for each in members), Fraction()),
                    sum((each.rate for each in members), Fraction()),
                )
            ]
            fastest = rates(self._network.links[before]).fastest
            lines.append(Line(max(each.bits for each in members) + fastest * spread_ns, fastest))
            its_class = members[0].its_class
            if its_class.shaper is Shaper.CREDIT and before in self.shares:
                passed = self.shares[before].passed(its_class)
                lines.append(Line(passed.burst + passed.rate * spread_ns, passed.rate))
            groups.append(lines)
        return groups

    def _burst(self, sent: _Sent, port: PortRef) -> Fraction:
        """What may come to a port at once: two bursts may come as much closer together as the
        first took longer."""
        before, bridge = sent.came_by[port], self._network.bridges[port.node]
        spread_ns = sent.latest_ns[before] - sent.soonest_ns[before]
        spread_ns += bridge.processing_max_ns - bridge.processing_min_ns
        spread_ns += 2 * self._network.clock_error_ns  # its talker may be behind, then ahead
        return sent.stream.frames * sent.bits + sent.rate * max(spread_ns, Fraction())

    def _between_ns(self, port: PortRef) -> int:
        link = self._network.links[port]
        bridge = self._network.bridges.get(link.target.node)
        return link.propagation_ns + (bridge.processing_max_ns if bridge else 0)

    def _there_ns(self, sent: _Sent, before: PortRef) -> Fraction:
        return sent.latest_ns[before] + self._between_ns(before)

    def _arrives_ns(self, sent: _Sent) -> Fraction:
        links = self._network.links
        ends = [
            left_ns + links[port].propagation_ns
            for port, left_ns in sent.latest_ns.items()
            if links[port].target.node in sent.stream.listeners
        ]
        return max(ends) + self._network.clock_error_ns


def _sent(intent: Intent, stream: Stream, ports: Iterable[PortRef]) -> _Sent:
    network = intent.network
    bits = 8 * network.wire_octets(stream.payload_octets)
    rate = Fraction(stream.frames * bits, stream.period_ns)
    sent = _Sent(stream, intent.classes[stream.traffic_classes[0]], bits, rate)
    into: dict[str, PortRef] = {}
    for port in ports:
        link = network.links[port]
        soonest_ns = bits / rates(link).fastest
        if port.node in network.bridges and port.node in into:
            before = into[port.node]
            sent.came_by[port] = before
            soonest_ns += sent.soonest_ns[before] + network.links[before].propagation_ns
            soonest_ns += network.bridges[port.node].processing_min_ns
        sent.soonest_ns[port] = soonest_ns
        into[link.target.node] = port
    return sent


def _rates(at: Mapping[int, Sequence[_Sent]]) -> dict[int, Rate]:
    """By class the rate of its streams, and their shortest frame."""
    return {
        number: Rate(
            sum((each.rate for each in its), Fraction()),
            max(each.bits for each in its),
        )
        for number, its in at.items()
    }


def _rows_to(sent: _Sent, port: PortRef) -> Iterator[tuple[PortRef, ...]]:
    """The ports of switches that a stream leaves by up to one, two at least."""
    row: tuple[PortRef, ...] = (port,)
    while (before := sent.came_by[row[0]]) in sent.came_by:
        row = (before, *row)
        yield row


def _distance(groups: Sequence[Sequence[Line]], rate: Fraction) -> Fraction:
    """For how long what comes by these lines, the least of each group, waits at most for a service
    of this rate: where one line of a group takes over from another."""

    def behind_ns(at_ns: Fraction) -> Fraction:
        come = sum(
            (min(its.burst + its.rate * at_ns for its in lines) for lines in groups), Fraction()
        )
        return come / rate - at_ns

    turns = {Fraction()}
    for lines in groups:
        ordered = sorted(lines, key=lambda its: its.rate)
        for index, slow in enumerate(ordered):
            for fast in ordered[index + 1 :]:
                if slow.rate < fast.rate and slow.burst > fast.burst:
                    turns.add((slow.burst - fast.burst) / (fast.rate - slow.rate))
    return max(map(behind_ns, turns))
