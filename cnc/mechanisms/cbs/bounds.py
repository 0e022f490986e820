"""How long frames of shaped classes take at most, through all ports together.

At each port the frames of a class wait for each other in the order in which they come, and come
over each link no faster than that, and than the credit of the class lets them go there (total flow
analysis with line shaping: Mifdaoui and Leydier 2017). Streams that go several ports together have
their bursts but once: each port leaves them what streams beside them do not take (first in, first
out: Cruz 1998, Le Boudec and Thiran 2001, 6.2), and the services of ports in a row add up to one,
of the least rate and all latencies. A frame goes on as a whole: until it does, no more than the
time passes that it takes on the link, as what is begun leaves at the rate of the link. Of all ways
to cut the way of a stream into such rows the best counts.

What took longer so far by some time than it does at least comes with a burst that is greater by
what a stream sends in that time. Ports that wait for each other in a ring have the least delays
that are consistent: they grow from round to round, and end, or pass what any stream may take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc.mechanisms.cbs.curves import Affine, Arrivals
from cnc.mechanisms.cbs.flows import Flow, Refused, Ways, access_ns, flow_of, streams_of
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.mechanisms.cbs.ports import Port, Service
from cnc.mechanisms.talker_link import fastest_bps
from cnc.model import NS_PER_S, GateControlList, Intent, PortRef, Shaper, TrafficClass
from cnc.support.wording import named

_ROUNDS_MAX = 2_000
_HOPELESS = 10  # times the longest max-latency: what takes longer is taken to have no end


class _Wait(NamedTuple):
    """A frame of no bits would wait `base_ns`, others as if they had come before by `rate_bps`."""

    base_ns: int
    rate_bps: int

    def delay_ns(self, flow: Flow, port: Port) -> int:
        """How long a frame takes until it has left: once it is begun it is not interrupted."""
        own_ns = flow.frame_bits * NS_PER_S
        waits_ns = max(self.base_ns - own_ns // self.rate_bps, 0)
        return waits_ns - (-own_ns // port.slowest_bps)


NO_SLOPES = IdleSlopes()
_NOTHING = Affine(0, 0)


@dataclass(slots=True)
class _Queue:
    """The frames of a class at a port; `above` are the queues of higher classes there. What the
    port does for it, and how long frames wait, is known by several ways to reckon."""

    port: Port
    its_class: TrafficClass
    flows: list[Flow]
    above: list[_Queue]
    comes: Affine = _NOTHING
    services: Mapping[int, Service] = field(default_factory=dict)
    waits: Sequence[_Wait] = ()
    slowest_ns: int = 0  # the greatest delay

    @property
    def leaves(self) -> Affine:
        """What leaves: what has come up to the delay before, too."""
        held = -(-self.comes.rate_bps * self.slowest_ns // NS_PER_S)
        return Affine(self.comes.burst_bits + held, self.comes.rate_bps)

    def delay_ns(self, flow: Flow) -> int:
        """How long a frame takes until it has left, by the best way to reckon for itself: which is
        the best for most may change from round to round, and delays have to grow with what
        comes."""
        return min(wait.delay_ns(flow, self.port) for wait in self.waits)


@dataclass(frozen=True, slots=True)
class Bounds:
    """By stream how long its frames take at most, and at which ports for how long; by port and
    class the idle slopes; or why there are none."""

    latency_ns: Mapping[str, int]
    at_ports_ns: Mapping[str, Mapping[PortRef, int]] = field(default_factory=dict)
    slopes_bps: Mapping[PortRef, Mapping[int, int]] = field(default_factory=dict)
    refused: Refused | None = None


def bounds(
    intent: Intent,
    ways: Mapping[str, Ways],
    gates: Mapping[PortRef, GateControlList],
    held: IdleSlopes = NO_SLOPES,
) -> Bounds:
    """Those of streams of shaped classes that go these ways, beside all other streams, through
    ports with these lists; no idle slope is lower than it is `held`."""
    flows = {name: flow_of(intent, intent.streams[name], its) for name, its in ways.items()}
    starts_ns = access_ns(intent, flows)
    if isinstance(starts_ns, Refused):
        return Bounds({}, refused=starts_ns)
    network = _Network(intent, flows, starts_ns, gates, held)
    if network.crowded:
        return Bounds({}, refused=Refused(network.crowded))
    return network.bounds()


class _Network:
    def __init__(
        self,
        intent: Intent,
        flows: Mapping[str, Flow],
        starts_ns: Mapping[PortRef, int],
        gates: Mapping[PortRef, GateControlList],
        held: IdleSlopes,
    ) -> None:
        self._intent, self._network, self._flows = intent, intent.network, flows
        self._starts_ns = starts_ns
        self._ports: dict[PortRef, Port] = {}
        self._queues: dict[tuple[PortRef, int], _Queue] = {}
        self._rows: defaultdict[tuple[tuple[PortRef, ...], int], list[Flow]] = defaultdict(list)
        self._left_ns: dict[tuple[str, PortRef], int] = {}  # by when frames have left a port
        leaving: defaultdict[PortRef, list[Flow]] = defaultdict(list)
        for name, flow in flows.items():
            for port, least_ns in flow.least_ns.items():
                self._left_ns[name, port] = starts_ns.get(port, least_ns)
            for port in flow.before:
                leaving[port].append(flow)
                chain = flow.chain_to(port)
                for start in range(len(chain) - 1):
                    self._rows[chain[start:], flow.its_class.number].append(flow)
        for ref, its_flows in leaving.items():
            self._add_port(ref, its_flows, gates.get(ref), held.by_port.get(ref, {}))

    @property
    def crowded(self) -> str | None:
        """Why streams of some port take more than there is; None: they do not."""
        texts = (port.crowded.text for port in self._ports.values() if port.crowded)
        return next(texts, None)

    def bounds(self) -> Bounds:
        """Delays by rounds, as long as any grows."""
        allowed_ns = max((its.stream.max_latency_ns for its in self._flows.values()), default=0)
        for _ in range(_ROUNDS_MAX):
            for queue in self._queues.values():
                if (text := self._reckon(queue)) is not None:
                    return Bounds({}, refused=Refused(text))
            grown = self._grow()
            if not grown:
                slopes = {ref: its.slopes_bps for ref, its in self._ports.items()}
                slopes = {ref: its for ref, its in slopes.items() if its}
                return Bounds(self._latencies_ns(), self._at_ports_ns(), slopes)
            beyond = {port for port, left_ns in grown.items() if left_ns > _HOPELESS * allowed_ns}
            if beyond:
                return Bounds({}, refused=_without_end(beyond))
        return Bounds({}, refused=_without_end(grown))

    def _add_port(
        self,
        ref: PortRef,
        flows: Sequence[Flow],
        gates: GateControlList | None,
        held_bps: Mapping[int, int],
    ) -> None:
        by_class = {
            its: [flow for flow in flows if flow.its_class == its]
            for its in self._intent.shaped_classes()
        }
        streams = {its.number: streams_of(own) for its, own in by_class.items() if own}
        port = Port(self._intent, self._network.links[ref], gates, streams, held_bps)
        self._ports[ref] = port
        above: list[_Queue] = []
        for its, own in by_class.items():
            if own:
                queue = _Queue(port, its, own, above=list(above))
                self._queues[ref, its.number] = queue
                above.append(queue)

    def _reckon(self, queue: _Queue) -> str | None:
        """What comes to a queue and what it is left, by what is known so far; or why nothing is
        left. Queues of higher classes of the port come first."""
        ref = queue.port.link.source
        queue.comes = self._comes(queue.flows, ref)
        arrivals = Arrivals(self._by_link(queue.flows, ref))
        services = queue.port.services(
            queue.its_class,
            {each.its_class.number: each.comes for each in queue.above},
            {each.its_class.number: each.leaves for each in queue.above},
        )
        if not services:
            return f"{ref}: classes above class {queue.its_class.name} leave nothing to it"
        queue.services = services
        queue.waits = [
            _Wait(arrivals.delay_ns(*service), service.rate_bps) for service in services.values()
        ]
        queue.slowest_ns = max(map(queue.delay_ns, queue.flows))
        return None

    def _grow(self) -> dict[PortRef, int]:
        """Reckon by when frames have left each port; the ports of those that leave later than was
        known, and when."""
        rows = {row: [*self._in_row(*row, flows)] for row, flows in self._rows.items()}
        grown: dict[PortRef, int] = {}
        for name, flow in self._flows.items():
            number = flow.its_class.number
            for port, before in flow.before.items():
                queue = self._queues[port, number]
                found_ns = self._enters_ns(name, before)
                found_ns += queue.delay_ns(flow)
                chain = flow.chain_to(port)
                for start in range(len(chain) - 1):
                    for wait in rows[chain[start:], number]:
                        entered_ns = self._enters_ns(name, flow.before[chain[start]])
                        found_ns = min(found_ns, entered_ns + wait.delay_ns(flow, queue.port))
                if found_ns > self._left_ns[name, port]:
                    self._left_ns[name, port] = found_ns
                    grown[port] = max(grown.get(port, 0), found_ns)
        return grown

    def _in_row(
        self, chain: tuple[PortRef, ...], number: int, flows: Sequence[Flow]
    ) -> Iterator[_Wait]:
        """How long streams wait that go ports in a row together, from the queue of the first, by
        each way to reckon."""
        queues = [self._queues[port, number] for port in chain]
        for way in {way for queue in queues for way in queue.services}:
            services = [
                queue.services.get(way) or next(iter(queue.services.values())) for queue in queues
            ]
            if wait := self._through(queues, services, flows):
                yield wait

    def _through(
        self, queues: Sequence[_Queue], services: Sequence[Service], flows: Sequence[Flow]
    ) -> _Wait | None:
        """The same by these services of the ports."""
        latency_ns, rates = 0, []
        for queue, service in zip(queues, services, strict=True):
            port = queue.port.link.source
            own = self._comes(flows, port)
            beside = max(queue.comes.burst_bits - own.burst_bits, 0)
            left_bps = service.rate_bps - (queue.comes.rate_bps - own.rate_bps)
            if left_bps < own.rate_bps:
                return None
            rates.append(left_bps)
            latency_ns += service.latency_ns
            latency_ns -= -beside * NS_PER_S // service.rate_bps
            if queue is not queues[-1]:  # it goes on as a whole, at last at the link's rate
                longest_bits = max(flow.frame_bits for flow in queue.flows)
                latency_ns -= -longest_bits * NS_PER_S // queue.port.slowest_bps
                latency_ns += self._crosses_ns(port)
        arrivals = Arrivals(self._by_link(flows, queues[0].port.link.source))
        return _Wait(arrivals.delay_ns(latency_ns, min(rates)), min(rates))

    def _crosses_ns(self, port: PortRef) -> int:
        """From the last bit sent until the frame lies in the next queue."""
        link = self._network.links[port]
        bridge = self._network.bridges.get(link.target.node)
        return link.propagation_ns + (bridge.processing_max_ns if bridge else 0)

    def _enters_ns(self, name: str, before: PortRef) -> int:
        """By when frames lie in the queue after a port."""
        return self._left_ns[name, before] + self._crosses_ns(before)

    def _comes(self, flows: Iterable[Flow], ref: PortRef) -> Affine:
        """What comes of streams to a port, whatever links they come over."""
        burst = rate = 0
        for flow in flows:
            burst += self._burst_bits(flow, ref)
            rate += flow.rate_bps
        return Affine(burst, rate)

    def _by_link(self, flows: Iterable[Flow], ref: PortRef) -> Iterator[list[Affine]]:
        """By link over which they come: what its streams, its rate and a credit let come."""
        by_link: defaultdict[PortRef, list[Flow]] = defaultdict(list)
        for flow in flows:
            by_link[flow.before[ref]].append(flow)
        bridge = self._network.bridges[ref.node]
        varies_ns = bridge.processing_max_ns - bridge.processing_min_ns
        for before, its_flows in by_link.items():
            its_class = its_flows[0].its_class
            longest = max(flow.frame_bits for flow in its_flows)
            shapes = [Affine(longest, fastest_bps(self._network.links[before]))]
            if before in self._ports and its_class.shaper is Shaper.CREDIT:
                shapes.append(self._ports[before].credit_output(its_class))
            yield [
                self._comes(its_flows, ref),
                *(Affine(each.bits(varies_ns), each.rate_bps) for each in shapes),
            ]

    def _burst_bits(self, flow: Flow, ref: PortRef) -> int:
        """What may come of a stream at once: its burst, and what it sends in the time by which one
        frame may have taken longer so far than another."""
        before, bridge = flow.before[ref], self._network.bridges[ref.node]
        varies_ns = self._left_ns[flow.stream.name, before] - flow.least_ns[before]
        varies_ns += bridge.processing_max_ns - bridge.processing_min_ns
        varies_ns += 2 * self._network.clock_error_ns  # by the clock of its talker
        return flow.burst_bits + flow.bits_within(varies_ns)

    def _at_ports_ns(self) -> dict[str, dict[PortRef, int]]:
        """How long frames of each stream take at most at each port, the others being as slow."""
        return {
            name: {flow.first: self._left_ns[name, flow.first]}
            | {
                port: self._left_ns[name, port] - self._enters_ns(name, before)
                for port, before in flow.before.items()
            }
            for name, flow in self._flows.items()
        }

    def _latencies_ns(self) -> dict[str, int]:
        """To the listener that is furthest away, by any two clocks."""
        links = self._network.links
        return {
            name: self._network.clock_error_ns
            + max(
                self._left_ns[name, port] + links[port].propagation_ns
                for port in flow.least_ns
                if links[port].target.node in flow.stream.listeners
            )
            for name, flow in self._flows.items()
        }


def _without_end(ports: Iterable[PortRef]) -> Refused:
    some = named(sorted(map(str, ports)))
    return Refused(
        f"no bound is found at {some}, below {_HOPELESS} times the longest max-latency: what one "
        "port holds up may come to the next at once, and so on. What would help: longer periods, "
        "fewer or smaller frames, other routes, above all around a ring"
    )
