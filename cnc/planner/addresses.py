"""Destination addresses of a bridged network, one MAC address in one VLAN for each stream, and the
filtering entries that switches have for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from cnc.errors import InputError, Lack, Unschedulable
from cnc.model import (
    AddressRange,
    Elimination,
    Forwarding,
    Intent,
    Plan,
    PortRef,
    Stream,
    StreamAddress,
    StreamPlan,
    mac_number,
    mac_text,
)
from cnc.support.format import counted


def assign(intent: Intent, running: Plan | None = None) -> dict[str, StreamAddress]:
    """The addresses of all streams, in the order of the intent; none if it is routed.

    What the operator states of an address holds; the rest is the first that is free. Streams that
    share an address state it. A stream of the plan `running` keeps its address, and no other stream
    is assigned that of one that runs, even of one that is removed: in the middle of a rollout
    frames of both may be under way. Raises InputError when there are too few.
    """
    if intent.network.forwarding is Forwarding.ROUTED:
        return {}
    runs = running.addresses if running else {}
    assigned = {
        name: address
        for name, stream in intent.streams.items()
        if (address := stream.stated_address) is not None
    }
    taken = set(assigned.values())
    for name, stream in intent.streams.items():
        its = runs.get(name)
        if name not in assigned and its and its not in taken and _is_allowed(intent, stream, its):
            assigned[name] = its
            taken.add(its)
    taken.update(runs.values())
    unused = _Unused(intent, taken.__contains__)
    for name, stream in intent.streams.items():
        if name in assigned:
            continue
        address = unused.next_for(stream)
        if address is None:
            raise _too_few(intent, stream, runs.keys() - intent.streams.keys())
        assigned[name] = address
        taken.add(address)
    return {name: assigned[name] for name in intent.streams}


def for_moved(
    intent: Intent,
    assigned: Mapping[str, StreamAddress],
    planned: Mapping[str, StreamPlan],
    running: Plan | None,
) -> dict[str, StreamAddress]:
    """The addresses, with another one for each stream that switches are to forward otherwise than
    in the plan `running`, or of which they begin or cease to take out second copies.

    So the filtering entries of both ways can lie beside each other, and the talker takes the one or
    the other by the address that it sends to; and no frame that is numbered comes to a switch that
    does not take the number away. A stream keeps its address where nobody would tell its talker,
    where the first switch gives it to untagged frames, where the operator states all of it, and
    where no other is left.
    """
    result = dict(assigned)
    if running is None:
        return result
    taken = {*assigned.values(), *running.addresses.values()}
    unused = _Unused(intent, taken.__contains__)
    for name, its in planned.items():
        stream = intent.streams[name]
        before = running.streams.get(name)
        if (
            before is None
            or running.addresses.get(name) != assigned.get(name)
            or stream.talker not in intent.network.managed
            or stream.identification
            or _treatment(intent, name, its) == _treatment(running.intent, name, before)
        ):
            continue
        if address := unused.next_for(stream):
            result[name] = address
            taken.add(address)
    return result


def _treatment(intent: Intent, name: str, planned: StreamPlan) -> tuple[set[PortRef], Elimination]:
    """The ports by which switches forward the frames of a stream, and who takes out copies."""
    bridges = intent.network.bridges
    egresses = {hop.egress for hop in planned.hops if hop.egress.node in bridges}
    return egresses, intent.streams[name].elimination


def _range(intent: Intent, stream: Stream) -> AddressRange:
    """What a stream is assigned an address of. A switch that translates IP packets gives them an
    individual one: it forwards those to a group address by their IP group."""
    return intent.individual if stream.identification else intent.assignable


def _is_allowed(intent: Intent, stream: Stream, address: StreamAddress) -> bool:
    """Whether an address is one of `_allowed`."""
    its = _range(intent, stream)
    vlan_ids = its.vlan_ids if stream.vlan_id is None else (stream.vlan_id,)
    if address.vlan_id not in vlan_ids:
        return False
    if stream.destination_mac is not None:
        return address.destination_mac == stream.destination_mac
    return mac_number(address.destination_mac) in its.macs


def _allowed(intent: Intent, stream: Stream) -> Iterator[StreamAddress]:
    """The addresses that go with what the operator states of the stream, VLAN by VLAN."""
    its = _range(intent, stream)
    for vlan_id in its.vlan_ids if stream.vlan_id is None else (stream.vlan_id,):
        if stream.destination_mac is not None:
            yield StreamAddress(stream.destination_mac, vlan_id)
        else:
            yield from (StreamAddress(mac_text(number), vlan_id) for number in its.macs)


class _Stated(NamedTuple):
    """What decides which addresses a stream may be assigned."""

    destination_mac: str | None
    vlan_id: int | None
    is_untagged: bool
    needs_group: bool


class _Unused:
    """The addresses that nobody has, in the order in which they are assigned.

    None is looked at twice for streams that state the same, however many are asked for.
    """

    def __init__(self, intent: Intent, is_taken: Callable[[StreamAddress], bool]) -> None:
        self._intent = intent
        self._is_taken = is_taken
        self._left: dict[_Stated, Iterator[StreamAddress]] = {}

    def next_for(self, stream: Stream) -> StreamAddress | None:
        """The next that the stream may have; None if there is none."""
        stated = _Stated(
            stream.destination_mac,
            stream.vlan_id,
            stream.identification is not None,
            _needs_group(stream),
        )
        for address in self._left.setdefault(stated, _allowed(self._intent, stream)):
            if not self._is_taken(address) and (address.is_group or not stated.needs_group):
                return address
        return None


def _needs_group(stream: Stream) -> bool:
    return len(stream.listeners) > 1 or stream.paths > 1


def _too_few(intent: Intent, stream: Stream, removed: Collection[str]) -> InputError:
    """The intent has enough for its own streams: others have theirs from the running plan."""
    count = len(_range(intent, stream))
    running = f", {len(removed)} of which run for streams that are removed" if removed else ""
    return InputError(
        f"no address is left for stream {stream.name}: {intent.name} may assign "
        f"{counted(count, 'address')}{running}",
        hint="give `addresses` a longer range; what removed streams had is free in the next push",
    )


def crowded_out(
    intent: Intent, kept: Mapping[str, Collection[str]], wanted: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """The streams of `wanted` for which a switch has no filtering entry left, and why.

    Both tell which nodes the frames of a stream leave. The last of the intent are refused; `kept`
    are not.
    """
    if intent.network.forwarding is Forwarding.ROUTED:
        return {}
    bridges = intent.network.bridges
    total = _entries(intent, [*kept.items(), *wanted.items()])
    full = {
        node
        for node, its in total.items()
        if node in bridges and len(its) > bridges[node].filtering_entries_max
    }
    used = _entries(intent, kept.items())
    refused = {}
    for name in (name for name in intent.streams if name in wanted):
        entry, crossed = _entry(intent, name), sorted(set(wanted[name]) & full)
        over = [
            node
            for node in crossed
            if len(used[node] | {entry}) > bridges[node].filtering_entries_max
        ]
        if over:
            refused[name] = (
                f"{len(total[over[0]])} streams cross switch {over[0]}, which holds "
                f"{counted(bridges[over[0]].filtering_entries_max, 'filtering entry')} "
                "(filtering-entries-max)"
            )
        else:
            for node in crossed:
                used[node].add(entry)
    return refused


def _entries(
    intent: Intent, senders: Iterable[tuple[str, Collection[str]]]
) -> defaultdict[str, set[object]]:
    """By node what it has filtering entries for."""
    found: defaultdict[str, set[object]] = defaultdict(set)
    for name, nodes in senders:
        for node in nodes:
            found[node].add(_entry(intent, name))
    return found


def _entry(intent: Intent, name: str) -> object:
    """What a filtering entry of a stream is for: streams that share an address share it."""
    return intent.streams[name].stated_address or name


class LiveAddresses:
    """The addresses and filtering entries of a bridged network while streams come and go.

    In a routed one no stream has an address, and no switch an entry. What is asked for a few
    streams takes as long as there are of them, however many have addresses already.
    """

    def __init__(self, plan: Plan) -> None:
        self._intent = plan.intent
        self._bridged = plan.intent.network.forwarding is Forwarding.BRIDGED
        self._of = dict(plan.addresses)
        users = plan.streams_by_address().items()
        self._owners = defaultdict(set, {address: {*names} for address, names in users})
        self._left: dict[StreamAddress, None] = {}  # by streams that are gone, the oldest first
        self._unused = _Unused(self._intent, self._is_taken)
        self._streams = {name: plan.intent.streams[name] for name in plan.addresses}
        # By node and address the streams that it sends on: they have one entry together.
        self._entries: defaultdict[str, Counter[StreamAddress]] = defaultdict(Counter)
        for name, its in plan.streams.items() if self._bridged else ():
            for node in {hop.egress.node for hop in its.hops}:
                self._entries[node][self._of[name]] += 1

    def sharing(self, stream: Stream) -> set[str]:
        """The streams that have the address that a new one states."""
        own = stream.stated_address if self._bridged else None
        return set(self._owners.get(own, ())) if own else set()

    def add(
        self, streams: Collection[Stream], senders: Mapping[str, Collection[str]]
    ) -> dict[str, StreamAddress]:
        """The addresses of new streams, whose frames leave the nodes `senders`; none if routed.

        Raises `Unschedulable` and changes nothing where there are too few addresses or filtering
        entries, or what a stream states of its address cannot be its own. An address that a stream
        has left is assigned last, as its frames may still be under way.
        """
        if not self._bridged:
            return {}
        refused = self._crowded_out(streams, senders)
        lacks = dict.fromkeys(refused, Lack.ENTRIES)
        assigned: dict[str, StreamAddress] = {}
        for stream in streams:
            address = self._pick(stream)
            if isinstance(address, str):
                refused[stream.name], lacks[stream.name] = address, Lack.ADDRESS
            else:
                assigned[stream.name] = address
                self._owners[address].add(stream.name)
                self._streams[stream.name] = stream
        if refused:
            for name, address in assigned.items():
                self._owners[address].remove(name)
                del self._streams[name]
            self._unused = _Unused(self._intent, self._is_taken)  # from their beginnings again
            raise Unschedulable(refused, lacks=lacks)
        for address in assigned.values():
            self._left.pop(address, None)
        self._of |= assigned
        for name, address in assigned.items():
            for node in set(senders[name]):
                self._entries[node][address] += 1
        return assigned

    def remove(self, senders: Mapping[str, Collection[str]]) -> None:
        """Take out streams that have an address, by name with the nodes that their frames leave."""
        for name, nodes in senders.items() if self._bridged else ():
            address = self._of.pop(name)
            self._owners[address].remove(name)
            if not self._owners[address]:
                self._left[address] = None
            del self._streams[name]
            for node in set(nodes):
                self._entries[node][address] -= 1
                if not self._entries[node][address]:
                    del self._entries[node][address]

    def _crowded_out(
        self, streams: Collection[Stream], senders: Mapping[str, Collection[str]]
    ) -> dict[str, str]:
        """The streams for which a switch has no filtering entry left, and why."""
        wanted: defaultdict[str, set[object]] = defaultdict(set)
        for stream in streams:
            for node in set(senders[stream.name]):
                if stream.stated_address not in self._entries[node]:
                    wanted[node].add(stream.stated_address or stream.name)
        bridges = self._intent.network.bridges
        needed = {node: len(self._entries[node]) + len(its) for node, its in wanted.items()}
        full = {
            node: bridges[node].filtering_entries_max
            for node, count in needed.items()
            if node in bridges and count > bridges[node].filtering_entries_max
        }
        return {
            stream.name: f"{needed[node]} streams cross switch {node}, which "
            f"holds {counted(full[node], 'filtering entry')} (filtering-entries-max)"
            for stream in streams
            for node in sorted(full.keys() & set(senders[stream.name]))[:1]
        }

    def _pick(self, stream: Stream) -> StreamAddress | str:
        """An address for a new stream, or why there is none."""
        needs_group = _needs_group(stream)
        if own := stream.stated_address:
            owners = self._owners.get(own, set())
            if alike := [name for name in sorted(owners) if not self._may_share(stream, name)]:
                return (
                    f"states {own}, which stream {alike[0]} has: streams that share an address "
                    "state all of it, and each a PCP of its own"
                )
            if needs_group and not own.is_group:
                return f"states {own}, which is no group address"
            return own
        if address := self._unused.next_for(stream):
            return address
        for address in self._left:
            free = not self._owners.get(address) and _is_allowed(self._intent, stream, address)
            if free and (address.is_group or not needs_group):
                return address
        its = counted(len(_range(self._intent, stream)), "address")
        return f"no address is left: {self._intent.name} may assign {its}"

    def _may_share(self, stream: Stream, name: str) -> bool:
        """Whether switches can tell frames of a new stream from those of another with its
        address."""
        other = self._streams[name]
        if other.stated_address != stream.stated_address:
            return False
        if {*stream.traffic_classes} & {*other.traffic_classes}:
            return False
        # Second copies would go where those of others go; a switch that translates sees no PCP.
        return all(its.paths == 1 and its.identification is None for its in (stream, other))

    def _is_taken(self, address: StreamAddress) -> bool:
        return bool(self._owners.get(address)) or address in self._left
