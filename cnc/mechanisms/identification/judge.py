"""Frames that talkers send untagged: does each get the address of its stream at its first switch,
and the address of its listener at its last one, and does nobody else's?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from cnc.account.judge import AddressGiven, Judge, Told
from cnc.account.violation import Violation
from cnc.mechanisms.identification.model import Inward, Translations
from cnc.model import (
    Identification,
    IpIdentification,
    NextProtocol,
    NullIdentification,
    Plan,
    PortRef,
    SourceMacIdentification,
    Stream,
    StreamAddress,
)

_Told = tuple[StreamAddress, Inward]


class _Translations:
    """What the switches of a network are told to translate."""

    def __init__(self, plan: Plan, forwarding: Told) -> None:
        self._plan = plan
        self._names = {address: name for name, address in plan.addresses.items()}
        self._inward: dict[PortRef, list[_Told]] = defaultdict(list)
        self._outward: dict[StreamAddress, list[tuple[PortRef, str]]] = defaultdict(list)
        for switch, its in forwarding.items():
            for address, translation in its[Translations].by_stream.items():
                if inward := translation.inward:
                    ingress = PortRef(switch, inward.port)
                    self._inward[ingress].append((address, inward))
                if outward := translation.outward:
                    port = PortRef(switch, outward.port)
                    self._outward[address].append((port, outward.listener_mac))

    def judge(self) -> Iterator[Violation]:
        """What is wrong with translations, wherever frames go."""
        for port, told in self._inward.items():
            for (_, one), (address, other) in _mistakable(told):
                text = f"{other.identification} may be {one.identification}, too"
                yield Violation("identification", f"{port}, {self._name(address)}", text)
            for address, inward in told:
                yield from self._judge_inward(address, inward)
        for address, back in self._outward.items():
            stream = self._stream(address)
            if stream is None or stream.identification is None:
                text = f"is translated at {back[0][0]}, and its talker tags its frames"
                yield Violation("identification", self._name(address), text)
        for address, name in self._names.items():
            stream = self._stream(address)
            if stream is not None and stream.identification:
                yield from self._judge_outward(name, stream, address)

    def _judge_inward(self, address: StreamAddress, inward: Inward) -> Iterator[Violation]:
        stream, name = self._stream(address), self._name(address)
        if stream is None or stream.identification != inward.identification:
            text = f"is given to {inward.identification}, which it is not"
            yield Violation("identification", name, text)
        elif inward.pcp != (priority := self._plan.class_of(name).priority):
            text = f"gets PCP {inward.pcp} from its first switch, its class has {priority}"
            yield Violation("identification", name, text)

    def _judge_outward(
        self, name: str, stream: Stream, address: StreamAddress
    ) -> Iterator[Violation]:
        """The frames of a stream that is sent untagged come to its listener as they were sent."""
        if address.is_group:
            mac = address.destination_mac
            text = f"has {mac}, by which no bridge forwards IP packets, and is sent as such"
            yield Violation("address", name, text)
        network = self._plan.intent.network
        back = dict(self._outward.get(address, ()))
        for hop in self._plan.streams[name].hops:
            target = network.links[hop.egress].target.node if hop.egress in network.links else None
            if target not in stream.listeners:
                continue
            expected = network.end_stations[target].mac
            if hop.egress not in back:
                text = f"leaves {hop.egress} for {target} tagged, with the address of the stream"
                yield Violation("identification", name, text)
            elif back.pop(hop.egress) != expected:
                text = f"leaves {hop.egress} with another address than {expected}, that of {target}"
                yield Violation("identification", name, text)
        for port in back:
            text = f"loses its address and tag at {port}, which is not before its listener"
            yield Violation("identification", name, text)

    def _name(self, address: StreamAddress) -> str:
        return self._names.get(address, str(address))

    def _stream(self, address: StreamAddress) -> Stream | None:
        name = self._names.get(address)
        if name is None or name not in self._plan.streams:
            return None
        return self._plan.intent.streams.get(name)


def _mistakable(told: Iterable[_Told]) -> Iterator[tuple[_Told, _Told]]:
    """Pairs of translations at one port of which both know some frame: each translation with one
    other of each group at most, where a group looks at the same fields of frames.

    Two groups are compared as a whole, in the fields that both look at: where they are equal in
    these, one frame may have what is left to either.
    """
    groups: dict[tuple[str, ...], list[tuple[_Told, dict[str, object]]]] = defaultdict(list)
    for each in told:
        fields = _fields(each[1].identification)
        groups[tuple(sorted(fields))].append((each, fields))
    for looked_at, group in groups.items():
        known: dict[tuple[object, ...], _Told] = {}
        for each, fields in group:
            one = known.setdefault(tuple(fields[key] for key in looked_at), each)
            if one is not each:
                yield one, each
    for (looked_at, group), (others_look_at, others) in combinations(groups.items(), 2):
        both = [key for key in looked_at if key in others_look_at]
        known = {tuple(fields[key] for key in both): each for each, fields in reversed(group)}
        for each, fields in others:
            if found := known.get(tuple(fields[key] for key in both)):
                yield found, each


def _fields(known_by: Identification) -> dict[str, object]:
    """What frames must have, by the name of the field; those of both layers go together in all
    ways."""
    match known_by:
        case IpIdentification():
            stated: dict[str, object] = {
                "version": ":" in known_by.destination,
                "destination": known_by.destination,
                "source": known_by.source,
                "destination port": known_by.destination_port,
                "source port": known_by.source_port,
                "DSCP": known_by.dscp,
            }
            if known_by.protocol is not NextProtocol.NONE:
                stated["protocol"] = known_by.protocol
            return {key: value for key, value in stated.items() if value is not None}
        case SourceMacIdentification():
            return {"source MAC": known_by.source_mac}
        case NullIdentification():
            return {"destination MAC": known_by.destination_mac}


def _address_given(forwarding: Told) -> AddressGiven:
    given: dict[tuple[PortRef, Identification | None], StreamAddress] = {}
    for switch, its in forwarding.items():
        for address, translation in its[Translations].by_stream.items():
            if inward := translation.inward:
                given.setdefault((PortRef(switch, inward.port), inward.identification), address)
    return lambda ingress, stream: given.get((ingress, stream.identification))


JUDGE = Judge(
    ways=lambda plan, forwarding: _Translations(plan, forwarding).judge(),
    is_local=True,
    address_given=_address_given,
)
