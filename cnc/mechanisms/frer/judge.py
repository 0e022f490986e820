"""Second copies that switches take out: does each listener get exactly one of each frame, without
its sequence tag, whichever cable between switches is cut?

The judge walks all copies of a frame through what the switches are told, with every such cable in
turn. Its history of sequence numbers must reach as far back as a copy may come behind the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cnc.account.frames import AddedOctets, Transmission
from cnc.account.judge import Judge, Told
from cnc.account.violation import Violation
from cnc.mechanisms.frer.model import Generation, Recovery, SequenceFunction, SequenceFunctions
from cnc.model import BridgeForwarding, Elimination, Network, Plan, PortRef, Stream, StreamAddress

_HISTORY_MAX = 64
_NS_PER_MS = 1_000_000
_TAG_OCTETS = 6  # R-TAG: EtherType, reserved, sequence number, two octets each (802.1CB 7.8)


def _judge_ways(plan: Plan, forwarding: Told) -> Iterator[Violation]:
    """What is wrong with the numbers and copies of frames, by what the bridges are told."""
    by_address: defaultdict[StreamAddress, dict[str, SequenceFunction]] = defaultdict(dict)
    for switch, its in forwarding.items():
        for address, function in its[SequenceFunctions].by_stream.items():
            by_address[address][switch] = function
    for name, address in plan.addresses.items():
        stream = plan.intent.streams.get(name)
        if stream is None or name not in plan.streams:
            continue
        told = by_address[address]
        if stream.elimination is Elimination.SWITCH:
            yield from _judge_stream(plan, name, address, forwarding, told)
        for switch in told if stream.elimination is Elimination.LISTENER else ():
            text = f"is numbered or recovered at {switch}, and its listeners eliminate duplicates"
            yield Violation("sequence", name, text)


def _judge_histories(
    plan: Plan, forwarding: Told, transmissions: Iterable[Transmission], _added_octets: AddedOctets
) -> Iterator[Violation]:
    """Which switches forget the number of a frame before its last copy has come, or take any number
    although none is missing."""
    arrivals: dict[tuple[str, str], list[Transmission]] = {}
    for each in transmissions:
        if plan.intent.streams[each.stream].elimination is Elimination.SWITCH:
            arrivals.setdefault((each.stream, each.target), []).append(each)
    for (name, switch), its in arrivals.items():
        told = forwarding[switch][SequenceFunctions].by_stream if switch in forwarding else {}
        function = told.get(plan.addresses[name]) if name in plan.addresses else None
        if isinstance(function, Recovery):
            yield from _judge_history(plan, plan.intent.streams[name], switch, function, its)


def _judge_history(
    plan: Plan, stream: Stream, switch: str, told: Recovery, arrivals: list[Transmission]
) -> Iterator[Violation]:
    first = min(t.leaves_ns + t.flight_ns for t in arrivals) - plan.intent.network.clock_error_ns
    skew_ns = max(t.all_received_ns for t in arrivals) - first
    # The frames of so many periods, the copy's own included, may have come before its last one.
    needed = stream.frames * (1 + skew_ns // stream.period_ns)
    if not needed <= told.history_length <= _HISTORY_MAX:
        text = (
            f"may have {needed} numbers between two copies at {switch}, which remembers "
            f"{told.history_length}, {_HISTORY_MAX} at most"
        )
        yield Violation("sequence-history", stream.name, text)
    yield from _judge_detection(stream, switch, told, needed)
    pause_ns = stream.period_ns + skew_ns
    if told.reset_timeout_ms * _NS_PER_MS <= pause_ns:
        text = (
            f"may pause for {pause_ns} ns at {switch}, which takes any number after "
            f"{told.reset_timeout_ms} ms"
        )
        yield Violation("sequence-reset", stream.name, text)


def _judge_detection(
    stream: Stream, switch: str, told: Recovery, apart: int
) -> Iterator[Violation]:
    """Whether the switch would find a way that fails, and no error where none does. So many frames
    may have come `apart`."""
    watched = told.latent_errors
    if watched is None:
        return
    if watched.paths != len(told.ports):
        text = f"comes to {switch} by {len(told.ports)} ways, which watches {watched.paths}"
        yield Violation("latent-errors", stream.name, text)
    if watched.difference < apart:
        text = (
            f"may have {apart} copies in flight to {switch}, which takes more than "
            f"{watched.difference} for an error"
        )
        yield Violation("latent-errors", stream.name, text)
    periods = (watched.reset_period_ms - watched.period_ms) * _NS_PER_MS // stream.period_ns
    if periods * stream.frames <= watched.difference:
        text = (
            f"has {periods * stream.frames} frames between two resets of the counting at {switch}, "
            f"which misses no way before {watched.difference + 1}"
        )
        yield Violation("latent-errors", stream.name, text)


def _judge_stream(
    plan: Plan,
    name: str,
    address: StreamAddress,
    forwarding: Mapping[str, BridgeForwarding],
    told: Mapping[str, SequenceFunction],
) -> Iterator[Violation]:
    """The walk with all cables, then without each that joins two switches on the stream's ways."""
    network, planned = plan.intent.network, plan.streams[name]
    cables = {
        frozenset({hop.egress, network.links[hop.egress].target})
        for hop in planned.hops
        if hop.egress in network.links and _is_between_switches(network, hop.egress)
    }
    for cut in (frozenset[PortRef](), *sorted(cables, key=sorted)):
        found = _Walk(plan, name, address, forwarding, told).without(cut)
        yield from found
        if found:
            return  # the same is wrong, or follows from it, with every other cable cut


def _is_between_switches(network: Network, egress: PortRef) -> bool:
    return {egress.node, network.links[egress].target.node} <= network.bridges.keys()


class _Copy(NamedTuple):
    egress: PortRef
    has_tag: bool


class _Walk:
    """All copies of one frame on their way."""

    def __init__(
        self,
        plan: Plan,
        name: str,
        address: StreamAddress,
        forwarding: Mapping[str, BridgeForwarding],
        told: Mapping[str, SequenceFunction],
    ) -> None:
        self._links = plan.intent.network.links
        self._stream = plan.intent.streams[name]
        self._address = address
        self._forwarding = forwarding
        self._told = told
        self._recovered: set[str] = set()
        self._received: Counter[str] = Counter()
        self._found: list[Violation] = []
        starts = {
            (hop.egress, hop.offset_ns)
            for hop in plan.streams[name].hops
            if hop.egress.node == self._stream.talker and hop.egress in self._links
        }
        self._under_way = [_Copy(egress, has_tag=False) for egress, _ in starts]

    def without(self, cut: frozenset[PortRef]) -> list[Violation]:
        """What is wrong where the cable that joins the ports `cut` carries nothing."""
        seen: Counter[PortRef] = Counter()
        while self._under_way:
            copy = self._under_way.pop()
            seen[copy.egress] += 1
            # Copies that multiply are told of as such.
            if copy.egress not in cut and seen[copy.egress] <= self._stream.paths:
                self._arrive(self._links[copy.egress].target, copy.has_tag)
        for listener in self._stream.listeners:
            if (count := self._received[listener]) != 1:
                without = f" with {' - '.join(map(str, sorted(cut)))} cut" if cut else ""
                self._note("sequence", f"brings {listener} {count} copies of each frame{without}")
        return self._found

    def _note(self, code: str, text: str) -> None:
        self._found.append(Violation(code, self._stream.name, text))

    def _arrive(self, ingress: PortRef, has_tag: bool) -> None:
        node = ingress.node
        if node not in self._forwarding:
            self._received[node] += 1
            if has_tag:
                self._note("sequence-tag", f"comes to {node} with its sequence tag")
            return
        function = self._told.get(node)
        if isinstance(function, Generation) and function.port == ingress.port:
            if has_tag:
                self._note("sequence-tag", f"is numbered again where it enters by {ingress}")
            has_tag = True
        elif isinstance(function, Recovery) and ingress.port in function.ports:
            if not has_tag:
                text = f"enters by {ingress} without a sequence tag, and is to be recovered"
                self._note("sequence-tag", text)
            if node in self._recovered:
                return
            self._recovered.add(node)
            has_tag = False
        self._under_way += [_Copy(each, has_tag) for each in self._onward(ingress)]

    def _onward(self, ingress: PortRef) -> Iterator[PortRef]:
        its = self._forwarding[ingress.node]
        members = its.vlans.get(self._address.vlan_id, ())
        for port in its.entries.get(self._address, ()):
            egress = PortRef(ingress.node, port)
            is_way = port != ingress.port and {port, ingress.port} <= {*members}
            if is_way and egress in self._links:
                yield egress


def _added_octets(stream: Stream) -> int:
    return _TAG_OCTETS if stream.elimination is Elimination.SWITCH else 0


JUDGE = Judge(ways=_judge_ways, times=_judge_histories, is_local=True, added_octets=_added_octets)
