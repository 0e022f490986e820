"""From one plan of a bridged network to the next: which ways lie on the switches beside each other.

A rollout gives the switches the filtering entries of the new plan before its base time, and talkers
send by the former plan until then. So a stream that gets another way gets another address with it:
the new entries carry nothing before the talker changes, and the former ones stay until the last
frame that was sent by them has arrived. Where a stream keeps its address on another way, its
entries change when switches commit, and frames are lost in between: it is `exposed`. So is a stream
whose untagged frames switches translate, which they do from the commit on, and one with the same
address of which switches begin or cease to take out second copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from cnc.mechanisms.composition import (
    bridge_forwardings,
    each_part,
    parts_of_streams,
    stream_names,
)
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    BridgeForwarding,
    Forwarding,
    Plan,
    PortRef,
    StreamAddress,
)


@dataclass(frozen=True, slots=True)
class Transition:
    """What a rollout keeps of the plan before it, until the frames under way have arrived.

    `former` is by switch what is configured for the previous paths of the streams `moved`, beside
    what the new plan needs. `exposed` says by stream why frames of it may be lost between the
    commit and the base time. For `under_way_ns` after the base time frames may still be on a
    previous path.
    """

    former: Mapping[str, BridgeForwarding] = field(default_factory=dict)
    moved: tuple[str, ...] = ()
    exposed: Mapping[str, str] = field(default_factory=dict)
    under_way_ns: int = 0


def transition(former: Plan | None, plan: Plan) -> Transition:
    """What `plan` needs of `former`, the plan that runs, while it takes its place.

    Of switches that the new plan does not have, or knows by another bridge, nothing is kept.
    """
    if former is None or not (_is_bridged(former) and _is_bridged(plan)):
        return Transition()
    assigned = set(plan.addresses.values())
    moved = tuple(
        name
        for name in former.streams
        if name in plan.streams and name in former.addresses
        if former.addresses[name] not in assigned
        if not (_known_by(former, name) or _known_by(plan, name))
    )
    names = stream_names(former)
    ways = {former.addresses[name]: names[former.addresses[name]] for name in moved}
    bridges = plan.intent.network.bridges
    tables = {
        switch: _of_streams(its, ways)
        for switch, its in bridge_forwardings(former).items()
        if switch in bridges
        and bridges[switch].bridge_device == former.intent.network.bridges[switch].bridge_device
    }
    return Transition(
        former=_beside(plan, {name: its for name, its in tables.items() if its.entries}),
        moved=moved,
        exposed=_exposed(former, plan, set(moved)),
        under_way_ns=max((_under_way_ns(former, name) for name in moved), default=0),
    )


def _beside(plan: Plan, former: Mapping[str, BridgeForwarding]) -> dict[str, BridgeForwarding]:
    """What of `former` the switches have room for beside what `plan` asks of them."""
    found = {**former}
    for each in MECHANISMS:
        staying = each.planned.beside(plan, {name: its[each.part] for name, its in found.items()})
        found = {name: its.having(staying[name]) for name, its in found.items()}
    return found


def joined(own: BridgeForwarding, former: BridgeForwarding) -> BridgeForwarding:
    """What a bridge is told while both are needed; frames to an address of both go by `own`."""
    vlan_ids = own.vlans.keys() | former.vlans.keys()
    return BridgeForwarding(
        entries={**former.entries, **own.entries},
        vlans={
            vlan_id: tuple(sorted({*own.vlans.get(vlan_id, ()), *former.vlans.get(vlan_id, ())}))
            for vlan_id in sorted(vlan_ids)
        },
        trusting=tuple(sorted({*own.trusting, *former.trusting})),
        names={**former.names, **own.names},
        parts=each_part(lambda each: each.changed.joined(own[each.part], former[each.part])),
    )


def on_ports(its: BridgeForwarding, ports: frozenset[str]) -> BridgeForwarding:
    """The part that is possible with these ports: a bridge is told nothing of ports it has lost."""

    def there(wanted: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(port for port in wanted if port in ports)

    entries = {address: there(wanted) for address, wanted in its.entries.items()}
    return replace(
        its,
        entries={address: wanted for address, wanted in entries.items() if wanted},
        vlans={vlan_id: there(wanted) for vlan_id, wanted in its.vlans.items()},
        trusting=there(its.trusting),
        parts=each_part(lambda each: each.changed.on_ports(its[each.part], ports)),
    )


def _is_bridged(plan: Plan) -> bool:
    return plan.intent.network.forwarding is Forwarding.BRIDGED


def _of_streams(its: BridgeForwarding, ways: Mapping[StreamAddress, str]) -> BridgeForwarding:
    """What of a bridge's forwarding the streams with the addresses `ways` need."""
    entries = {address: ports for address, ports in its.entries.items() if address in ways}
    vlan_ids = {address.vlan_id for address in entries}
    return BridgeForwarding(
        entries=entries,
        vlans={vlan_id: ports for vlan_id, ports in its.vlans.items() if vlan_id in vlan_ids},
        trusting=its.trusting if entries else (),
        names={address: ways[address] for address in entries},
        parts=parts_of_streams(its, ways.keys()),
    )


def _under_way_ns(former: Plan, name: str) -> int:
    """How long after the base time a frame of a stream may still be under way.

    The last one by the former plan is sent in the period that ends then; a period more allows for a
    talker that is late. Of a stream without a bound on how late a disturbance makes it, the frames
    count that none has made late.
    """
    late_ns = former.recovery_ns.get(name, 0) + former.intent.network.clock_error_ns
    return former.streams[name].latency_bound_ns + late_ns + former.intent.streams[name].period_ns


def _exposed(former: Plan, plan: Plan, moved: set[str]) -> dict[str, str]:
    before, after = _leaving(former), _leaving(plan)
    owners = plan.streams_by_address()
    found = {}
    for name in former.streams:
        address, now = former.addresses.get(name), plan.addresses.get(name)
        if address is None or now is None or name not in plan.streams:
            continue
        known_before, known_after = (_known_by(each, name) for each in (former, plan))
        if known_before or known_after:
            stays = address == now and before[address] == after[now]
            if not stays or known_before != known_after:
                found[name] = "switches give its frames their address, from the commit on"
        elif name in moved:
            if unmanaged := _unmanaged(plan, name):
                found[name] = f"{unmanaged}: it has to send to {now} from the base time on"
        elif reason := _exposed_in_place(former, plan, name):
            found[name] = f"{reason}; {_why_it_stays(plan, name, owners[address], address)}"
        elif before[address] != after[address]:
            found[name] = _why_it_stays(plan, name, owners[address], address)
    return found


def _exposed_in_place(former: Plan, plan: Plan, name: str) -> str | None:
    """Why frames of a stream may be lost that keeps its address."""
    reasons = (each.planned.exposed(former, plan, name) for each in MECHANISMS)
    return next(filter(None, reasons), None)


def _why_it_stays(plan: Plan, name: str, owners: Collection[str], address: StreamAddress) -> str:
    """Why a stream has no other address on its other way, or `owners`, other ones, have its own."""
    stream = plan.intent.streams[name]
    if name not in owners:
        return f"stream {' and '.join(owners)} gets its address, {address}"
    if unmanaged := _unmanaged(plan, name):
        return f"{unmanaged}: the stream keeps its address"
    if stream.stated_address:
        return "`destination-mac` and `vlan` of the stream leave no other address"
    return "its address stays: `addresses` has no other, or none was asked for"


def _unmanaged(plan: Plan, name: str) -> str | None:
    talker = plan.intent.streams[name].talker
    if talker in plan.intent.network.managed:
        return None
    return f"no push reaches its talker {talker}, which has no `management`"


def _known_by(plan: Plan, name: str) -> list[object]:
    """By what switches know the frames of a stream that its talker does not address; nothing if it
    does."""
    return [its for each in MECHANISMS if (its := each.planned.known_by(plan, name))]


def _leaving(plan: Plan) -> dict[StreamAddress, set[PortRef]]:
    """By address the ports by which switches send the frames on."""
    found: defaultdict[StreamAddress, set[PortRef]] = defaultdict(set)
    for name, address in plan.addresses.items():
        for hop in plan.streams[name].hops:
            if hop.egress.node in plan.intent.network.bridges:
                found[address].add(hop.egress)
    return found
