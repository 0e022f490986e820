"""Where the mechanisms of a bridge meet: what is done to all parts alike. No mechanism is named."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from cnc.mechanism import AtPlace, Edit, IdentityTable, Mechanism, Whose
from cnc.mechanisms.handles import KnownStream, NamedAt
from cnc.mechanisms.loading import loaded
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    NO_FORWARDING,
    NOTHING_STORED,
    BridgeForwarding,
    GateControlList,
    Parts,
    Plan,
    PortSettings,
    PriorityAddress,
    StoredPort,
    StreamAddress,
)
from cnc.support.format import counted, gate_summary

if TYPE_CHECKING:
    from cnc.data_tree.reply import Element, Reply


def each_part(function: Callable[[Mechanism[Any]], object]) -> Parts:
    """The parts that `function` returns, one for each mechanism."""
    return Parts.of(*(function(each) for each in MECHANISMS))


def parts_of_streams(its: BridgeForwarding, addresses: Collection[StreamAddress]) -> Parts:
    """What of a bridge's parts these streams need."""
    return each_part(lambda each: each.changed.of_streams(its[each.part], addresses))


def within(its: BridgeForwarding, scope: BridgeForwarding) -> BridgeForwarding:
    """What of a bridge's forwarding belongs to the VLANs of `scope` and to their members, here or
    there.

    The rest of a bridge is not a rollout's: what other clients configured in other VLANs.
    """
    vlans = {vlan_id: its.vlans.get(vlan_id, ()) for vlan_id in scope.vlans}
    ports = scope.members.union(*vlans.values())
    return BridgeForwarding(
        entries={a: leaving for a, leaving in its.entries.items() if a.vlan_id in scope.vlans},
        vlans=vlans,
        trusting=tuple(port for port in its.trusting if port in ports),
        names=scope.names,
        parts=each_part(lambda each: each.changed.within(its[each.part], scope.vlans.keys())),
    )


def differences(desired: BridgeForwarding, actual: BridgeForwarding, whose: Whose) -> Iterator[str]:
    """What differs in the parts of mechanisms, in words."""
    for each in MECHANISMS:
        yield from each.changed.differences(
            desired[each.part], actual[each.part], whose, desired.names
        )


def named(its: BridgeForwarding) -> dict[StreamAddress, NamedAt]:
    """The streams that other tables of the switch refer to by the address that their frames come in
    with, and the ports, sorted, by which they do: those at which a stream has one handle together.
    """
    identified = {a for each in MECHANISMS for a in each.switch.identifies(its[each.part])}
    found: dict[StreamAddress, list[frozenset[str]]] = {}
    for each in MECHANISMS:
        for address, sets in each.switch.refers_to(its[each.part], identified).items():
            for ports in sets:
                apart = [other for other in found.get(address, ()) if ports.isdisjoint(other)]
                met = (other for other in found.get(address, ()) if not ports.isdisjoint(other))
                found[address] = [*apart, ports.union(*met)]
    return {a: tuple(sorted(tuple(sorted(each)) for each in sets)) for a, sets in found.items()}


def names_by_address(plan: Plan) -> dict[StreamAddress, dict[StreamAddress, str]]:
    """By address its streams; where several share it all of them, and each by its priority."""
    users = plan.streams_by_address()
    found = {address: {address: " and ".join(names)} for address, names in users.items()}
    for address, names in users.items():
        for name in names if len(names) > 1 and plan.streams.keys() >= {*names} else ():
            priority = plan.class_of(name).priority
            its = PriorityAddress(address.destination_mac, address.vlan_id, priority)
            found[address][its] = name
    return found


def stream_names(plan: Plan) -> dict[StreamAddress, str]:
    """The streams of all addresses, as `names_by_address` has them."""
    return {each: name for its in names_by_address(plan).values() for each, name in its.items()}


def is_asked(its: BridgeForwarding, mechanism: Mechanism[Any]) -> bool:
    """Whether a bridge needs the mechanism: for its own part, or as it identifies streams for the
    tables of others."""
    is_own = its[mechanism.part] != mechanism.part()
    return is_own or (mechanism.switch.names_streams and bool(named(its)))


def naming() -> Mechanism[Any]:
    """The mechanism that names streams for all."""
    return next(each for each in MECHANISMS if each.switch.names_streams)


def identity_table() -> IdentityTable[Any]:
    """The table in which it does. Raises ValueError if it has none."""
    table = naming().tree().streams
    if table is None:
        raise ValueError(f"{naming().name} names streams, and has no table of them")
    return table


def known_streams(reply: Reply) -> Mapping[int, KnownStream]:
    """The streams that tables of the switch refer to, by handle."""
    return reply.once(identity_table().known)


def edits(
    bridges: Mapping[str, BridgeForwarding],
    before: Mapping[str, BridgeForwarding | None],
    tables: Mapping[str, Parts],
    base_time_ns: int,
) -> tuple[list[Element], dict[str, list[Element]]]:
    """What an edit changes of the tables of a switch, and by bridge of its component: it sets these
    bridges. `before` and `tables` are what is stored of each."""
    # Each bridge has the whole tables of the switch.
    whole = next(iter(tables.values()), Parts())
    referred = {a: ports for each in bridges.values() for a, ports in named(each).items()}
    vlan_ids = {vlan_id for each in bridges.values() for vlan_id in each.vlans}
    own_parts = [each[naming().part] for each in bridges.values()]
    of_switch, handles = identity_table().edit(own_parts, referred, vlan_ids, whole)
    for each in MECHANISMS:
        parts = [desired[each.part] for desired in bridges.values()]
        of_switch += each.tree().edit(parts, Edit(base_time_ns, handles, whole))
    of_bridges: dict[str, list[Element]] = {}
    for name, desired in bridges.items():
        own = within(before[name] or NO_FORWARDING, desired)
        edit = Edit(base_time_ns, handles, tables.get(name, Parts()))
        of_bridges[name] = [
            element
            for each in MECHANISMS
            for element in each.tree().edit_bridge(desired[each.part], own[each.part], edit)
        ]
    return of_switch, of_bridges


def parts_while_clock_settles(its: BridgeForwarding) -> BridgeForwarding:
    """What a bridge does while what it does by the clock waits for the clock."""
    return its.having(*(each.changed.while_clock_settles(its[each.part]) for each in MECHANISMS))


@cache
def at_places() -> tuple[AtPlace[Any], ...]:
    """The parts that are asked at ports and bridges, and how."""
    return tuple(each.at_place() for each in loaded() if each.at_place)


def asked_at(settings: PortSettings) -> Iterator[tuple[AtPlace[Any], Any]]:
    """The parts that are asked at a place, each with how it is."""
    for place in at_places():
        if (part := settings.get(place.part)) is not None:
            yield place, part


def is_bridge(settings: PortSettings) -> bool:
    """Whether a place is a bridge, and no port."""
    return any(place.of_bridges for place, _ in asked_at(settings))


def previous(after: PortSettings, stored: StoredPort | None) -> PortSettings:
    """What is stored of what a rollout asks at a place; None: nothing."""
    its = stored or NOTHING_STORED
    return PortSettings.of(*(place.previous(part, its) for place, part in asked_at(after)))


def bridge_forwardings(
    plan: Plan, switches: Collection[str] | None = None
) -> dict[str, BridgeForwarding]:
    """What the bridge of each of `switches` is told, of all where it is None, by name; nothing
    where no stream crosses it."""
    names = plan.intent.network.bridges if switches is None else switches
    forwards = next(each.forwards for each in loaded() if each.forwards)
    derived = [each.planned.derive(plan, names) for each in MECHANISMS]
    return {
        name: own.having(*(its[name] for its in derived if name in its))
        for name, own in forwards(plan, names).items()
    }


def settings_summary(gates: GateControlList | None, forwarding: BridgeForwarding | None) -> str:
    """What a port has in a table's cell; a bridge forwards frames and has no gates."""
    if forwarding is None:
        return gate_summary(gates)
    vlans = [str(vlan_id) for vlan_id, ports in sorted(forwarding.vlans.items()) if ports]
    word = {0: "no VLAN", 1: "VLAN "}.get(len(vlans), "VLANs ")
    asked = [counted(len(forwarding.entries), "filtering entry")]
    for each in MECHANISMS:
        asked += [counted(n, what) for n, what in each.summary(forwarding[each.part]) if n]
    # The numbers last: what follows them would read as one of them.
    return f"{', '.join(asked)}, {word}{', '.join(vlans)}"
