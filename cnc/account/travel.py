"""How frames travel along their paths: when each leaves and arrives, at worst and at best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cnc.account.frames import AddedOctets, Clocked, Transmission
from cnc.account.openings import Openings
from cnc.account.wire import blocking_ns, control_between_ns
from cnc.model import Hop, Intent, Link, PortRef, Stream
from cnc.model.clock_error import ClockErrors

Drops = Callable[[str, int], bool]
"""Whether the first switch is to drop frames of a stream, in a class by its number, that come
otherwise than planned."""


class BrokenRoute(Exception):
    """The hops are no tree from the talker to exactly its listeners."""


@dataclass(frozen=True, slots=True)
class Travel:
    """What a journey needs to know: nothing of what other streams there are, so that it is the same
    for all plans of a network and its classes.

    `lists` tells how early frames may leave; where a port has none, they do so at once.
    `blocking_ns` is by egress port. `wire_ns` has by rate and octets how long a frame keeps a link
    at most and at least, and how long it takes to be received, at most and at least.
    """

    intent: Intent
    lists: Mapping[PortRef, Openings]
    blocking_ns: Mapping[PortRef, int]
    drops_misfits: Drops
    added_octets: AddedOctets
    clocks: ClockErrors
    apart_ns: int | None  # any two clocks, if that is the same for all
    wire_ns: dict[tuple[int, int], tuple[int, int, int, int]] = field(default_factory=dict)

    @classmethod
    def through(
        cls,
        intent: Intent,
        lists: Mapping[PortRef, Openings],
        drops_misfits: Drops,
        added_octets: AddedOctets,
    ) -> Travel:
        """In the network of an intent."""
        links, clocks = intent.network.links, ClockErrors(intent.network)
        blocking = {}
        known: dict[tuple[object, ...], int] = {}  # there are many links, of few kinds
        for port, link in links.items():
            talker = intent.network.end_stations.get(port.node)
            its = talker and (talker.lateness_ns, talker.interference)
            kind = link.rate_bps, link.preemption, its
            if kind not in known:
                known[kind] = blocking_ns(intent, link)
            blocking[port] = known[kind]
        return cls(intent, lists, blocking, drops_misfits, added_octets, clocks, clocks.same_ns)

    def along(self, stream: Stream, hops: tuple[Hop, ...]) -> list[Transmission]:
        """The transmissions of one path, in the order of `hops`."""
        network = self.intent.network
        added = self.added_octets(stream)
        inbound: dict[str, Transmission] = {}
        for hop in hops:
            node = hop.egress.node
            link = network.links.get(hop.egress)
            if link is None:
                raise BrokenRoute(f"no link leaves {hop.egress}")
            if node != stream.talker and node not in inbound:
                raise BrokenRoute(f"leaves {node} without having arrived there")
            if node != stream.talker and node not in network.bridges:
                raise BrokenRoute(f"passes through the end station {node}")
            target = link.target.node
            if target == stream.talker or target in inbound:
                raise BrokenRoute(f"comes to {target} twice")
            inbound[target] = self._transmission(stream, added, hop, link, inbound.get(node))
        if missed := [listener for listener in stream.listeners if listener not in inbound]:
            raise BrokenRoute(f"never reaches {', '.join(missed)}")
        forwarding = {hop.egress.node for hop in hops}
        if astray := [n for n in inbound if n not in forwarding and n not in stream.listeners]:
            raise BrokenRoute(f"goes to {', '.join(astray)}, which is not a listener")
        return list(inbound.values())

    def _transmission(
        self, stream: Stream, added: int, hop: Hop, link: Link, before: Transmission | None
    ) -> Transmission:
        network, is_shared, offset = self.intent.network, hop.is_shared, hop.offset_ns
        octets = self._octets(stream, added, link, before) if added else stream.payload_octets
        occupation, occupation_min, reception, reception_min = self._wire_ns(link, octets)
        spread = 0 if is_shared else (stream.frames - 1) * occupation
        blocking = self.blocking_ns[hop.egress]
        if spread:
            blocking += control_between_ns(self.intent, link, spread)
        flight = reception + link.propagation_ns
        flight_min = reception_min + link.propagation_ns
        node, target = hop.egress.node, link.target.node
        leaves = earliest = latest = due = offset
        all_there = offset + spread
        left: Clocked = ((node, offset),)
        starts: Clocked = left
        if before is None:
            if stream.identification is not None:
                # What the talker sends without a tag is shorter, and sooner at the first switch.
                flight_min -= network.untagged_lead_ns(link, stream.payload_octets)
        else:
            bridge = network.bridges[node]
            on_way = before.flight_ns + bridge.processing_min_ns
            if before.ingress is None and self.drops_misfits(stream.name, hop.traffic_class):
                # Its filter may look at a frame last of all: what passes as it opens is here then.
                on_way -= bridge.processing_min_ns
            # Any two clocks differ by no more than their clock error, so it counts once from the
            # clock that last held the frame back, however many bridges it has passed since.
            left = _later(before.left, on_way)
            earliest = self._by_ns(left, node, -1)
            # Links pass frames on one by one. The last is the one to come too late for its turn
            # where the link before is slower than this one, else the first.
            first = before.received_ns + bridge.processing_max_ns
            all_there = first + before.spread_ns
            latest = max(first, all_there - spread)
            gates, opens, period = self.lists.get(hop.egress), earliest, stream.period_ns
            if gates is not None:
                opens = gates.earliest_start_ns(hop.traffic_class, earliest, offset, period)
            if opens > earliest:
                # What an earlier clock says of it counts no more where this one says as much.
                left = self._mattering(left, node, opens)
            leaves = _last_ns(left)
            # A frame that no bridge holds back is no later by one clock than by another, but for
            # their clock error: it counts once from the clock that held it back for that long.
            behind = latest - before.received_ns
            came = _later(before.arrives, behind)
            due = _last_ns(came)
            if latest > offset:
                starts = self._mattering(came, node, offset)
        arrives = _later(starts, blocking + flight)
        busy_until = max(offset, latest) + blocking + spread + occupation
        if is_shared:
            busy_until = offset + hop.window_ns
            last_bit = busy_until - network.gap_min_ns(link)
            arrives = ((node, last_bit + link.propagation_ns),)
        received = elapsed = self._by_ns(arrives, target, 1)
        if target in stream.listeners:
            elapsed = max(received, self._by_ns(arrives, stream.talker, 1))
        return Transmission(  # by position: names take as long as all the rest
            stream.name,
            hop.egress,
            target,
            hop.traffic_class,
            stream.period_ns,
            offset,
            busy_until,
            spread,
            received,
            flight_min,
            leaves,
            before.egress if before else None,
            before.offset_ns if before else 0,
            earliest,
            latest,
            all_there,
            due,
            left,
            arrives,
            elapsed + spread,
            is_shared,
            stream.frames * occupation,
            occupation,
            occupation_min,
            before.frame_min_ns if before else 0,
        )

    def _wire_ns(self, link: Link, octets: int) -> tuple[int, int, int, int]:
        of_frame = link.rate_bps, octets
        if of_frame not in self.wire_ns:
            network = self.intent.network
            self.wire_ns[of_frame] = (
                network.occupation_max_ns(link, octets),
                network.occupation_min_ns(link, octets),
                network.reception_max_ns(link, octets),
                network.reception_min_ns(link, octets),
            )
        return self.wire_ns[of_frame]

    def _by_ns(self, times: Clocked, node: str, sign: int) -> int:
        """The last of these by the clock of a node: with what it is apart, or less that."""
        if self.apart_ns is not None:
            return _last_ns(times) + sign * self.apart_ns
        between = self.clocks.between_ns
        return max([ns + sign * between(clock, node) for clock, ns in times])

    def _mattering(self, times: Clocked, node: str, own_ns: int) -> Clocked:
        """Those that the clock of a node does not rule out by what it says itself, and that."""
        if self.apart_ns is not None:  # whichever clock says it, one time stands for all
            return ((node, max(_last_ns(times), own_ns)),)
        between = self.clocks.between_ns
        kept = [(clock, ns) for clock, ns in times if ns + between(clock, node) > own_ns]
        return (*kept, (node, own_ns))

    def _octets(self, stream: Stream, added: int, link: Link, before: Transmission | None) -> int:
        """What a frame carries on a link. What the switch that it comes to first has put before
        its payload, and padding stays; the switch that sends it to a listener has taken that
        away."""
        if before is None or link.target.node in stream.listeners:
            return stream.payload_octets
        return max(stream.payload_octets, self.intent.network.overhead.min_payload_octets) + added


def _later(times: Clocked, by_ns: int) -> Clocked:
    if len(times) == 1:  # nearly always, and there are very many
        ((clock, ns),) = times
        return ((clock, ns + by_ns),)
    return tuple([(clock, ns + by_ns) for clock, ns in times])


def _last_ns(times: Clocked) -> int:
    return times[0][1] if len(times) == 1 else max([ns for _, ns in times])
